package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Launcher starts a server's program and returns once it is running. The process may be
// ended when ctx is done.
type Launcher func(ctx context.Context) (process.Process, error)

// StartError is the error of a [Launcher]: a program or an HTTP+SSE session did not start.
type StartError struct {
	Server  string
	Program bool
	Err     error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("server %q did not start: %v", e.Server, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// ErrEnded is returned for messages to a process that has ended.
var ErrEnded = errors.New("the server's process has ended")

// Ending is how a process or a session ended.
type Ending struct {
	Exit  process.Exit
	Err   error // why there is no Exit, or nil
	Cause error // limit for which it was ended, or nil
	Asked bool  // the runner asked it to end
}

// String describes the ending, as in "exited with code 1".
func (e Ending) String() string {
	how := fmt.Sprintf("exited with code %d", e.Exit.Code)
	if e.Exit.Signal != "" {
		how = "was ended by " + e.Exit.Signal
	}
	switch {
	case errors.Is(e.Err, errHungUp):
		how = "was left: " + errHungUp.Error()
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

// Known returns the exit, or nil if there is none.
func (e Ending) Known() *process.Exit {
	if e.Err != nil {
		return nil
	}
	return &e.Exit
}

// Data returns the data for an event about the ending.
func (e Ending) Data() map[string]any {
	return map[string]any{"code": e.Exit.Code, "signal": e.Exit.Signal, "asked": e.Asked}
}

// Program holds the output and the ending of a process. A nil Program stands for a process
// that the runner does not manage: it has no output and does not end.
type Program struct {
	output *bounded.Ends
	noise  *bounded.Ends // nil if its stdout carries no messages
	gone   chan struct{} // closed once the process has ended and that was reported
	end    Ending        // set before gone is closed
}

// Output returns the beginning and the end of the program's output: its stderr, and also its stdout
// if that does not carry messages.
func (p *Program) Output() string {
	if p == nil {
		return ""
	}
	return p.output.String()
}

// Noise returns the beginning and the end of what the program wrote to stdout besides messages.
func (p *Program) Noise() string {
	if p == nil || p.noise == nil {
		return ""
	}
	return p.noise.String()
}

// AddNoise adds a line to [Program.Noise].
func (p *Program) AddNoise(line []byte) { _, _ = p.noise.Write(append(bytes.Clone(line), '\n')) }

// Gone returns a channel that is closed once the program has ended and that was reported.
func (p *Program) Gone() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.gone
}

// Ended returns how the program ended, and whether it has.
func (p *Program) Ended() (e Ending, ended bool) {
	select {
	case <-p.Gone():
		return p.end, true
	default:
		return e, false
	}
}

// Resident is the program of a server that speaks HTTP: one process that lives as long as
// its container.
type Resident struct {
	Program
	running *process.Running
	grace   time.Duration
	asked   atomic.Bool // Stop was called
}

// StartResident starts the program of s.Launch, which should listen on a port, and writes
// its stdout and stderr to s.Stderr. It records the end as an event. The caller must call
// [Resident.Stop].
func StartResident(ctx context.Context, rec EventRecorder, s Server) (*Resident, error) {
	s = s.WithDefaults()
	proc, err := s.Launch(ctx)
	if err != nil {
		return nil, err
	}
	output := NewStderr(s.Stderr)
	r := &Resident{
		Program: Program{output: output, gone: make(chan struct{})},
		running: process.Communicate(proc, nil, output, output), grace: s.Grace,
	}
	go r.report(rec, s.Name)
	return r, nil
}

// report records the end of the program.
func (r *Resident) report(rec EventRecorder, name string) {
	defer close(r.gone)
	r.end.Exit, r.end.Err = r.running.Wait()
	r.end.Asked = r.asked.Load()
	rec.Event(evidence.Event{Kind: "server_exit", Where: name, Message: r.end.String(), Data: r.end.Data()})
}

// Stop ends the program with SIGTERM, then with SIGKILL after Server.Grace or when ctx
// ends. It returns when the program has ended, or some time after SIGKILL.
func (r *Resident) Stop(ctx context.Context) {
	r.asked.Store(true)
	process.Stop(ctx, r.running, r.gone, process.Step{Signal: process.Terminate, Grace: r.grace}, process.Step{Signal: process.Kill, Grace: 5 * r.grace})
}
