package runner

import (
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
)

// Update is a step in a trial's life: it came into a phase, or in the phase that it is in
// a tool was called. Result is set with PhaseAgain and PhaseDone.
type Update struct {
	Task    string
	Number  int
	Attempt int // from 1
	Phase   evidence.Phase
	Call    *trial.Calling // nil where the phase is what is new
	Result  *Result
}

// Progress is the update as it goes on record, without its time.
func (u Update) Progress() evidence.Progress {
	p := evidence.Progress{Task: u.Task, Number: u.Number, Attempt: u.Attempt, Phase: string(u.Phase)}
	if u.Result != nil {
		v := u.Result.Verdicts
		p.Class, p.Reason, p.Message = v.Class, v.Reason, v.Message
	}
	return p
}

// progressLog puts phases on record. What cannot be written harms no trial, and is told
// once. A nil one does nothing.
type progressLog struct {
	log  *evidence.ProgressLog
	warn func(error)
	once sync.Once
}

// openProgress is nil where the file cannot be written, which it tells.
func openProgress(o Options) *progressLog {
	warn := o.Warn
	if warn == nil {
		warn = func(error) {}
	}
	log, err := evidence.OpenProgress(o.Dir, o.Secrets)
	if err != nil {
		warn(err)
		return nil
	}
	return &progressLog{log: log, warn: warn}
}

func (l *progressLog) add(u Update) {
	if l == nil {
		return
	}
	l.tell(l.log.Append(u.Progress()))
}

func (l *progressLog) tell(err error) {
	if err != nil {
		l.once.Do(func() { l.warn(err) })
	}
}

func (l *progressLog) close() {
	if l != nil {
		l.tell(l.log.Close())
	}
}

// enters says that a trial comes into a phase.
func (r *run) enters(t *plan.Trial, phase evidence.Phase) {
	r.tell(Update{Task: t.Task, Number: t.Number, Attempt: max(t.Attempt, 1), Phase: phase})
}

// ends says that an attempt at a trial has a result.
func (r *run) ends(t *plan.Trial, phase evidence.Phase, result *Result) {
	r.tell(Update{Task: t.Task, Number: t.Number, Attempt: max(t.Attempt, 1), Phase: phase, Result: result})
}

func (r *run) tell(u Update) {
	r.progress.add(u)
	r.o.Progress(u)
}
