package serve

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/progress"
)

// RunProgress is how far a run has come.
type RunProgress struct {
	Run       string                 `json:"run"`               // its id
	State     State                  `json:"state"`             // as in the list of runs
	Started   time.Time              `json:"started,omitzero"`  // UTC; left out until it has run.json
	ElapsedMS int64                  `json:"elapsed_ms"`        // since then, or up to the end; of a run that was killed, up to the last that became of a trial
	Workers   int                    `json:"workers"`           // trials at once
	Planned   int                    `json:"planned_trials"`    // trials of all tasks
	Done      int                    `json:"done_trials"`       // that have an outcome
	Outcomes  map[evidence.Class]int `json:"outcomes"`          // how many of these have which
	LeftMS    *int64                 `json:"left_ms,omitempty"` // at the pace so far; left out until as many trials are done as run at once
	Version   int                    `json:"version"`           // grows with each change
	Trials    []TrialProgress        `json:"trials"`            // those that have begun; in an event, those that have changed
}

// Bounds of what is followed of a run.
const (
	maxReported        = 1 << 20 // bytes of progress.jsonl read at once
	maxReportedTrials  = 20_000
	maxReportedName    = 255 // bytes of a task's id, as of a directory's name, of a tool's and the like
	maxReportedMessage = 500 // bytes of a message
)

// TrialProgress is how far a trial has come.
type TrialProgress struct {
	Task    string          `json:"task"`              // its id
	Number  int             `json:"number"`            // from 1
	Attempt int             `json:"attempt"`           // from 1; more where one ended as infra
	Phase   string          `json:"phase"`             // starting, probing servers, agent at work, collecting, asking the judge, once more or done
	Since   time.Time       `json:"since"`             // when it came into that phase, UTC
	Outcome evidence.Class  `json:"outcome,omitempty"` // of an attempt that has ended; left out until then
	Reason  evidence.Reason `json:"reason,omitempty"`  // for that, in a word; left out of one that passed
	Message string          `json:"message,omitempty"` // likewise, in a sentence; left out where none is told
	Call    *CallProgress   `json:"call,omitempty"`    // the newest call without an answer; left out without any
}

// CallProgress is a call that waits for its answer.
type CallProgress struct {
	Server string    `json:"server"` // its name
	Tool   string    `json:"tool"`   // its name
	Since  time.Time `json:"since"`  // when it was made, UTC
}

func (t TrialProgress) ended() bool { return t.Phase == string(evidence.PhaseDone) }

// tracker follows a run's progress.jsonl, and reads of it what is new.
type tracker struct {
	id string // of the run

	mu      sync.Mutex
	file    os.FileInfo                    // as it was read last; guarded by mu
	offset  int64                          // up to which it was read; guarded by mu
	run     progress.State                 // guarded by mu, as what follows
	calls   map[plan.TrialID]*CallProgress // the newest without an answer
	changed map[plan.TrialID]int           // the first version that has a trial as it is
	version int                            // counts changes
	looked  time.Time                      // for calls
}

func newTracker(id string) *tracker {
	t := &tracker{id: id}
	t.startOverLocked()
	return t
}

// read takes in what progress.jsonl has since it was read last. A file that is not there
// tells of nothing yet.
func (t *tracker) read(x *index) {
	t.mu.Lock()
	defer t.mu.Unlock()
	file, err := x.open(t.id, evidence.ProgressFile)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return
	}
	if t.file != nil && (!os.SameFile(t.file, info) || info.Size() < t.offset) {
		t.startOverLocked()
	}
	t.file = info
	for t.offset < info.Size() {
		chunk, err := io.ReadAll(io.NewSectionReader(file, t.offset, maxReported))
		whole := bytes.LastIndexByte(chunk, '\n') + 1
		switch {
		case err != nil, whole == 0 && len(chunk) < maxReported:
			return // the last line is in the writing
		case whole == 0:
			whole = len(chunk)
		}
		t.takeLocked(chunk[:whole])
		t.offset += int64(whole)
	}
}

// startOverLocked forgets what another file said.
func (t *tracker) startOverLocked() {
	t.offset, t.run = 0, progress.State{Most: maxReportedTrials}
	t.calls, t.changed = map[plan.TrialID]*CallProgress{}, map[plan.TrialID]int{}
	t.version++
}

func (t *tracker) takeLocked(lines []byte) {
	for _, p := range evidence.ParseProgress(lines) {
		if len(p.Task) <= maxReportedName && len(p.Phase)+len(p.Class)+len(p.Reason) <= maxReportedName {
			t.stepLocked(p)
		}
	}
}

func (t *tracker) stepLocked(p evidence.Progress) {
	p.Message = text.Shorten(p.Message, maxReportedMessage)
	trial := t.run.Add(p)
	if trial == nil {
		return
	}
	delete(t.calls, trial.TrialID)
	t.version++
	t.changed[trial.TrialID] = t.version
}

// atAgent is the trials whose agents are at work.
func (t *tracker) atAgent() (all []plan.TrialID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, trial := range t.run.Running() {
		if trial.Phase == evidence.PhaseAgent {
			all = append(all, trial.TrialID)
		}
	}
	return all
}

// look looks for what agents call just now, unless it did less than so long ago.
func (t *tracker) look(x *index, ago time.Duration) {
	t.mu.Lock()
	fresh := time.Since(t.looked) < ago
	if !fresh {
		t.looked = time.Now()
	}
	t.mu.Unlock()
	if fresh {
		return
	}
	for _, id := range t.atAgent() {
		call := newestCall(x, t.id, id)
		t.mu.Lock()
		trial := t.run.Trial(id)
		if trial != nil && trial.Phase == evidence.PhaseAgent && !sameCall(t.calls[id], call) {
			t.version++
			t.calls[id], t.changed[id] = call, t.version
		}
		t.mu.Unlock()
	}
}

func sameCall(a, b *CallProgress) bool { return a == b || a != nil && b != nil && *a == *b }

// account is a copy of what a tracker knows.
type account struct {
	version  int
	trials   []TrialProgress // those that have changed, in the order in which they began
	done     int
	last     time.Time // something became of a trial; zero before anything did
	outcomes map[evidence.Class]int
}

// counts are how many trials have ended, and the version of the account.
func (t *tracker) counts() (done, version int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run.Done(), t.version
}

// left is about how long the rest of a run's trials takes.
func (t *tracker) left(planned, workers int, now time.Time) (time.Duration, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.run.Left(planned, workers, now)
}

// account tells what has changed since a version of the account; of version 0
// everything.
func (t *tracker) account(since int) account {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := account{version: t.version, trials: []TrialProgress{}, done: t.run.Done(), last: t.run.Last(), outcomes: map[evidence.Class]int{}}
	maps.Copy(a.outcomes, t.run.Outcomes())
	for _, trial := range t.run.Trials() {
		if t.changed[trial.TrialID] > since {
			a.trials = append(a.trials, TrialProgress{
				Task: trial.Task, Number: trial.Number, Attempt: trial.Attempt, Phase: string(trial.Phase), Since: trial.Since,
				Outcome: trial.Class, Reason: trial.Reason, Message: trial.Message, Call: t.calls[trial.TrialID],
			})
		}
	}
	return a
}

// maxTail is how many bytes of a trial's frames are looked at for what it calls now.
const maxTail = 64 << 10

// trialPath is where a trial is in its run's directory.
func trialPath(id plan.TrialID) string {
	return filepath.ToSlash(string(runner.TrialDir("", id.Task, id.Number)))
}

// newestCall returns the newest call of a trial of a run that has no answer among the last
// frames, or nil. A line that is torn, or begins before them, is left out.
func newestCall(x *index, run string, id plan.TrialID) *CallProgress {
	file, err := x.open(run, path.Join(trialPath(id), evidence.FramesFile))
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	from := max(0, info.Size()-maxTail)
	tail, err := io.ReadAll(io.NewSectionReader(file, from, maxTail))
	if err != nil {
		return nil
	}
	if from > 0 {
		_, tail, _ = bytes.Cut(tail, []byte("\n"))
	}
	return newestOpen(tail)
}

// request identifies a request of a trial.
type request struct{ conn, id string }

func newestOpen(lines []byte) (newest *CallProgress) {
	open := map[request]*CallProgress{}
	for line := range bytes.SplitSeq(lines, []byte("\n")) {
		var frame evidence.Frame
		if json.Unmarshal(line, &frame) != nil {
			continue
		}
		m, err := jsonrpc.ReadOne(frame.Raw)
		if err != nil || m.ID.Key == "" {
			continue
		}
		of := request{frame.Conn, m.ID.Key}
		switch {
		case frame.Dir == evidence.ToServer && m.Method == "tools/call":
			tool := jsontext.Word(jsontext.Member(m.Params, "name"))
			open[of] = &CallProgress{Server: text.Shorten(frame.Server, maxReportedName), Tool: text.Shorten(tool, maxReportedName), Since: frame.Time}
		case frame.Dir == evidence.ToClient && m.Method == "":
			delete(open, of)
		}
	}
	for _, call := range open {
		if newest == nil || call.Since.After(newest.Since) {
			newest = call
		}
	}
	return newest
}
