package serve

import (
	"bytes"
	"io"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/progress"
)

// Bounds of what is followed of a run.
const (
	maxTold        = 1 << 20 // bytes of progress.jsonl read at once
	maxToldTrials  = 20_000
	maxToldName    = 255 // bytes of a task's id, as of a directory's name, of a tool's and the like
	maxToldMessage = 500 // bytes of a message
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
	mu      sync.Mutex
	file    os.FileInfo                    // as it was read last; guarded by mu
	offset  int64                          // up to which it was read; guarded by mu
	run     progress.State                 // guarded by mu, as what follows
	calls   map[plan.TrialID]*CallProgress // the newest without an answer
	changed map[plan.TrialID]int           // the first version that has a trial as it is
	tails   map[plan.TrialID]os.FileInfo   // frames.jsonl as it was read last
	version int                            // counts changes
}

func newTracker() *tracker {
	t := &tracker{}
	t.startOverLocked()
	return t
}

// read takes in what progress.jsonl has since it was read last. A file that is not there
// tells of nothing yet.
func (t *tracker) read(p *place) {
	t.mu.Lock()
	defer t.mu.Unlock()
	file, info, err := p.open(evidence.ProgressFile)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	if t.file != nil && (!os.SameFile(t.file, info) || info.Size() < t.offset) {
		t.startOverLocked()
	}
	t.file = info
	for t.offset < info.Size() {
		chunk, err := io.ReadAll(io.NewSectionReader(file, t.offset, maxTold))
		whole := bytes.LastIndexByte(chunk, '\n') + 1
		switch {
		case err != nil, whole == 0 && len(chunk) < maxTold:
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
	t.offset, t.run = 0, progress.State{Most: maxToldTrials}
	t.calls, t.changed, t.tails = map[plan.TrialID]*CallProgress{}, map[plan.TrialID]int{}, map[plan.TrialID]os.FileInfo{}
	t.version++
}

func (t *tracker) takeLocked(lines []byte) {
	for _, p := range evidence.ParseProgress(lines) {
		if len(p.Task) <= maxToldName && len(p.Phase)+len(p.Class)+len(p.Reason) <= maxToldName {
			t.stepLocked(p)
		}
	}
}

func (t *tracker) stepLocked(p evidence.Progress) {
	p.Message = text.Shorten(p.Message, maxToldMessage)
	trial := t.run.Add(p)
	if trial == nil {
		return
	}
	delete(t.tails, trial.TrialID)
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

// look looks for what agents call just now, where their frames have changed.
func (t *tracker) look(p *place) {
	for _, id := range t.atAgent() {
		if call, info, changed := t.newestCall(p, id); changed {
			t.calling(id, call, info)
		}
	}
}

// calling notes what a trial calls by frames that info is of.
func (t *tracker) calling(id plan.TrialID, call *CallProgress, info os.FileInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	trial := t.run.Trial(id)
	if trial == nil || trial.Phase != evidence.PhaseAgent {
		return
	}
	t.tails[id] = info
	if !sameCall(t.calls[id], call) {
		t.version++
		t.calls[id], t.changed[id] = call, t.version
	}
}

func sameCall(a, b *CallProgress) bool { return a == b || a != nil && b != nil && *a == *b }

// newestCall reads a trial's newest open call, unless its frames are as they were.
func (t *tracker) newestCall(p *place, id plan.TrialID) (call *CallProgress, info os.FileInfo, changed bool) {
	file, info, err := p.open(framesPath(id))
	if err != nil {
		return nil, nil, false
	}
	defer func() { _ = file.Close() }()
	t.mu.Lock()
	last := t.tails[id]
	t.mu.Unlock()
	if last != nil && last.Size() == info.Size() && os.SameFile(last, info) {
		return nil, nil, false
	}
	return openCall(file, info.Size()), info, true
}

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
