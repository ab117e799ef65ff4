package transport

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Launcher starts a server's program and returns once it runs. The context lasts as long as the
// process is wanted. If it ends first, Launch returns soon and may end the process.
type Launcher func(ctx context.Context) (process.Process, error)

// ErrRetained ends a process for the proxy though it goes on: graders will ask it.
var ErrRetained = errors.New("is kept for what graders ask")

// ErrEnded says that a message is for a process that has ended.
var ErrEnded = errors.New("the server's process has ended")

// Ending is how a process or a session ended.
type Ending struct {
	Exit  process.Exit
	Err   error // why there is no Exit; else nil
	Cause error // the rule it broke, for which it was ended; else nil
	Asked bool  // it was no longer wanted
}

// String says how it ended, as in "exited with code 1".
func (e Ending) String() string {
	how := fmt.Sprintf("exited with code %d", e.Exit.Code)
	if e.Exit.Signal != "" {
		how = "was ended by " + e.Exit.Signal
	}
	switch {
	case errors.Is(e.Err, errHungUp):
		how = "was left: " + errHungUp.Error()
	case errors.Is(e.Err, ErrRetained):
		how = ErrRetained.Error()
	case e.Err != nil:
		how = "is lost: " + e.Err.Error()
	}
	switch {
	case errors.Is(e.Cause, ErrFlooded):
		how += ": " + e.Cause.Error()
	case e.Cause != nil:
		how += " after a message " + e.Cause.Error()
	}
	return how
}

// Known returns the exit; nil if there is none.
func (e Ending) Known() *process.Exit {
	if e.Err != nil {
		return nil
	}
	return &e.Exit
}

// Data returns what an event of the end holds.
func (e Ending) Data() map[string]any {
	return map[string]any{"code": e.Exit.Code, "signal": e.Exit.Signal, "asked": e.Asked}
}

// Program is what is known of a process: what it has written, and how it ended. A nil Program
// stands for one that somebody else runs: it has written nothing and does not end.
type Program struct {
	output *bounded.Ends
	gone   chan struct{} // closed when it has ended and that was reported
	end    Ending        // set before gone closes
}

// Output returns the beginning and the end of what the program has written: to its stderr, and
// to its stdout if that carries no messages.
func (p *Program) Output() string {
	if p == nil {
		return ""
	}
	return p.output.String()
}

// Gone is closed when the program has ended and that was reported.
func (p *Program) Gone() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.gone
}

// Ended returns how the program ended, once it has.
func (p *Program) Ended() (e Ending, ended bool) {
	select {
	case <-p.Gone():
		return p.end, true
	default:
		return e, false
	}
}

// Resident is the program of a server that speaks HTTP: one process, which lives
// as long as its container.
type Resident struct {
	Program
	running *process.Running
	grace   time.Duration
	asked   atomic.Bool // to end
}

// StartResident starts s.Launch's program, which is to listen on a port, and keeps
// what it writes to its stdout and stderr in s.Stderr. Its end is an event. The
// caller ends it with [Resident.Stop].
func StartResident(ctx context.Context, rec EventRecorder, s Server) (*Resident, error) {
	s, err := s.WithDefaults()
	if err != nil {
		return nil, err
	}
	proc, err := s.Launch(ctx)
	if err != nil {
		return nil, err
	}
	sink := s.StderrSink(nil, "")
	sink.Full = func() {
		rec.Event(evidence.Event{Kind: "limit", Where: s.Name, Message: "only the beginning of what the server wrote is kept", Data: map[string]any{"bytes": s.StderrLimit}})
	}
	output := NewStderr(sink)
	r := &Resident{
		Program: Program{output: output, gone: make(chan struct{})},
		running: process.Attend(proc, nil, output, output), grace: s.Grace,
	}
	go r.report(rec, s.Name)
	return r, nil
}

// report records the program's end.
func (r *Resident) report(rec EventRecorder, name string) {
	defer close(r.gone)
	r.end.Exit, r.end.Err = r.running.Wait()
	r.end.Asked = r.asked.Load()
	rec.Event(evidence.Event{Kind: "server_exit", Where: name, Message: r.end.String(), Data: r.end.Data()})
}

// Stop ends the program: SIGTERM, and SIGKILL after Server.Grace or when ctx ends. It returns
// when the program has ended, or some time after SIGKILL.
func (r *Resident) Stop(ctx context.Context) {
	r.asked.Store(true)
	process.Stop(ctx, r.running, r.gone, process.Step{Signal: process.Terminate, Grace: r.grace}, process.Step{Signal: process.Kill, Grace: 5 * r.grace})
}
