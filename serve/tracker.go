package serve

import (
	"bytes"
	"io"
	"os"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
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

	began   time.Time // the trial's last attempt
	changed int       // the version of the tracker's account that is the first to have this
}

// CallProgress is a call that waits for its answer.
type CallProgress struct {
	Server string    `json:"server"` // its name
	Tool   string    `json:"tool"`   // its name
	Since  time.Time `json:"since"`  // when it was made, UTC
}

func (t TrialProgress) ended() bool   { return t.Phase == string(runner.PhaseDone) }
func (t TrialProgress) atAgent() bool { return t.Phase == string(runner.PhaseAgent) }

// tracker follows a run's progress.jsonl, and reads of it what is new.
type tracker struct {
	mu      sync.Mutex
	file    os.FileInfo                     // as it was read last; guarded by mu
	offset  int64                           // up to which it was read; guarded by mu
	trials  []*TrialProgress                // guarded by mu, as what they point to
	byID    map[plan.TrialID]*TrialProgress // of trials; guarded by mu
	tails   map[plan.TrialID]os.FileInfo    // frames.jsonl as it was read last; guarded by mu
	version int                             // counts changes; guarded by mu
	ended   int                             // trials; guarded by mu
	took    time.Duration                   // by these together; guarded by mu
	last    time.Time                       // of what it knows; guarded by mu
}

func newTracker() *tracker {
	return &tracker{byID: map[plan.TrialID]*TrialProgress{}, tails: map[plan.TrialID]os.FileInfo{}}
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
	t.offset, t.trials, t.ended, t.took, t.last = 0, nil, 0, 0, time.Time{}
	clear(t.byID)
	clear(t.tails)
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
	id := plan.TrialID{Task: p.Task, Number: p.Number}
	trial := t.byID[id]
	if trial == nil {
		if len(t.trials) == maxToldTrials {
			return
		}
		trial = &TrialProgress{Task: p.Task, Number: p.Number}
		t.byID[id] = trial
		t.trials = append(t.trials, trial)
	}
	if trial.ended() { // a resumed run makes it again
		t.ended--
	}
	if trial.Attempt != p.Attempt || p.Phase == string(runner.PhaseStart) {
		trial.began = p.Time
	}
	trial.Attempt, trial.Phase, trial.Since, trial.Call = p.Attempt, p.Phase, p.Time, nil
	trial.Outcome, trial.Reason, trial.Message = p.Class, p.Reason, text.Shorten(p.Message, maxToldMessage)
	delete(t.tails, id)
	if trial.ended() {
		t.ended++
		t.took += max(0, p.Time.Sub(trial.began))
	}
	t.last = p.Time
	t.version++
	trial.changed = t.version
}

// working is the trials whose agents are at work.
func (t *tracker) working() (all []plan.TrialID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, trial := range t.trials {
		if trial.atAgent() {
			all = append(all, plan.TrialID{Task: trial.Task, Number: trial.Number})
		}
	}
	return all
}

// calls looks for what agents call just now, where their frames have changed.
func (t *tracker) calls(p *place) {
	for _, id := range t.working() {
		if call, info, changed := t.newestCall(p, id); changed {
			t.calling(id, call, info)
		}
	}
}

// calling notes what a trial calls by frames that info is of.
func (t *tracker) calling(id plan.TrialID, call *CallProgress, info os.FileInfo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	trial := t.byID[id]
	if trial == nil || !trial.atAgent() {
		return
	}
	t.tails[id] = info
	if !sameCall(trial.Call, call) {
		t.version++
		trial.Call, trial.changed = call, t.version
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
	ended    int
	took     time.Duration // by these together
	last     time.Time     // something became of a trial; zero before anything did
	outcomes map[evidence.Class]int
}

// counts are how many trials have ended, and the version of the account.
func (t *tracker) counts() (ended, version int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended, t.version
}

// account tells what has changed since a version of the account; of version 0
// everything.
func (t *tracker) account(since int) account {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := account{version: t.version, trials: []TrialProgress{}, ended: t.ended, took: t.took, last: t.last, outcomes: map[evidence.Class]int{}}
	for _, trial := range t.trials {
		if trial.changed > since {
			a.trials = append(a.trials, *trial)
		}
		if trial.ended() {
			a.outcomes[trial.Outcome]++
		}
	}
	return a
}
