package runtest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/runner"
)

// Live is a run that is in progress, in this process, until the test ends.
type Live struct {
	Dir    string
	Record runner.Record

	t    testing.TB
	log  *evidence.ProgressLog
	held *os.File
}

// Begin starts a run with one task in dir, under the given id.
func Begin(t testing.TB, dir, id string, trials int) *Live {
	t.Helper()
	l := &Live{Dir: filepath.Join(dir, id), t: t, Record: runner.Record{
		ID: id, Started: time.Now().UTC(), Choices: runner.Choices{Pace: runner.Pace{Workers: 2}, Trials: trials}, Tasks: []runner.TaskRecord{{ID: "buy", Name: "Buy"}},
		Eval: runner.EvalRecord{Name: "shop", Executor: "script"},
	}}
	if err := os.MkdirAll(l.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l.Resume()
	err := l.Record.Write(l.Dir)
	if err == nil {
		l.log, err = evidence.OpenProgress(l.Dir, &secret.Set{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.log.Close() })
	return l
}

// Resume makes this process work on the run.
func (l *Live) Resume() {
	l.t.Helper()
	held, err := runner.Hold(l.Dir)
	if err != nil {
		l.t.Fatal(err)
	}
	l.held = held
	l.t.Cleanup(func() { _ = held.Close() })
}

// Step moves a trial to a phase.
func (l *Live) Step(number int, phase evidence.Phase, class evidence.Class) {
	l.Tell(evidence.Progress{Task: "buy", Number: number, Attempt: 1, Phase: phase, Class: class})
}

// Tell records the progress of a trial.
func (l *Live) Tell(p evidence.Progress) {
	l.t.Helper()
	if err := l.log.Append(p); err != nil {
		l.t.Fatal(err)
	}
}

// Frames writes the frames of a trial so far.
func (l *Live) Frames(number int, all ...evidence.Frame) {
	l.t.Helper()
	var lines []byte
	for i, f := range all {
		f.Seq, f.Time = int64(i+1), time.Now().UTC()
		line, err := f.MarshalJSON()
		if err != nil {
			l.t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	dir := string(runner.TrialDir(l.Dir, "buy", number))
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, evidence.FramesFile), lines, 0o644)); err != nil {
		l.t.Fatal(err)
	}
}

// Interrupt ends the run early, without results.
func (l *Live) Interrupt() {
	l.t.Helper()
	l.Record.Ended, l.Record.Interrupted = time.Now().UTC(), true
	if err := l.Record.Write(l.Dir); err != nil {
		l.t.Fatal(err)
	}
	l.Kill()
}

// Kill ends the run's process without any record.
func (l *Live) Kill() {
	l.t.Helper()
	if err := l.held.Close(); err != nil {
		l.t.Fatal(err)
	}
}
