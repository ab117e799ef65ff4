package transport

import (
	"context"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Resident is the program of a server that speaks HTTP: one process, which lives
// as long as its container.
type Resident struct {
	proc   process.Process
	output *bounded.Ends
	grace  time.Duration
	gone   chan struct{} // closed when it has ended and was reported

	mu    sync.Mutex
	asked bool // guarded by mu

	end Ending // set before gone closes
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
	r := &Resident{proc: proc, grace: s.Grace, gone: make(chan struct{})}
	sink := s.StderrSink(nil, "")
	sink.Full = func() {
		rec.Event(evidence.Event{Kind: "limit", Where: s.Name, Message: "only the beginning of what the server wrote is kept", Data: map[string]any{"bytes": s.StderrLimit}})
	}
	r.output = NewStderr(sink)
	go r.attend(rec, s.Name)
	return r, nil
}

func (r *Resident) attend(rec EventRecorder, name string) {
	defer close(r.gone)
	r.end.Exit, r.end.Err = process.Attend(r.proc, nil, r.output, r.output)
	r.mu.Lock()
	r.end.Asked = r.asked
	r.mu.Unlock()
	rec.Event(evidence.Event{Kind: "server_exit", Where: name, Message: r.end.String(), Data: r.end.Data()})
}

// Output returns the beginning and the end of what the program has written.
func (r *Resident) Output() string { return r.output.String() }

// Ended returns how the program ended, once it has.
func (r *Resident) Ended() (e Ending, ended bool) {
	select {
	case <-r.gone:
		return r.end, true
	default:
		return e, false
	}
}

// Gone is closed when the program has ended.
func (r *Resident) Gone() <-chan struct{} { return r.gone }

// Stop ends the program: SIGTERM, and SIGKILL after Server.Grace. It returns when
// that has happened, or with ctx.
func (r *Resident) Stop(ctx context.Context) {
	r.mu.Lock()
	r.asked = true
	r.mu.Unlock()
	for _, signal := range []process.Signal{process.Terminate, process.Kill} {
		select {
		case <-r.gone:
			return
		default:
		}
		_ = r.proc.Signal(signal)
		if within(r.gone, r.grace) {
			return
		}
	}
	select {
	case <-r.gone:
	case <-ctx.Done():
	}
}
