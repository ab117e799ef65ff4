package proxy

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
	proc  process.Process
	words *bounded.Ends
	notes *notes
	grace time.Duration
	gone  chan struct{} // closed when it has ended and was reported

	mu    sync.Mutex
	asked bool // guarded by mu

	end ending // set before gone closes
}

// StartResident starts s.Launch's program, which is to listen on a port, and keeps
// what it writes to its stdout and stderr in s.Stderr. Its end is an event. The
// caller ends it with [Resident.Stop].
func StartResident(ctx context.Context, rec Recorder, limits Limits, s Server) (*Resident, error) {
	limits = limits.withDefaults()
	proc, err := s.Launch(ctx)
	if err != nil {
		return nil, &ProbeError{Server: s.Name, Class: ErrNotStarted, Cause: err}
	}
	r := &Resident{proc: proc, notes: newNotes(rec, s.Name, limits.Notes), grace: limits.Grace, gone: make(chan struct{})}
	r.words = newStderr(newStderrSink(s.Stderr, limits.Stderr, func() {
		r.notes.add("limit", "only the beginning of what the server wrote is kept", map[string]any{"bytes": limits.Stderr})
	}))
	go r.attend()
	return r, nil
}

func (r *Resident) attend() {
	defer close(r.gone)
	r.end.exit, r.end.err = process.Attend(r.proc, nil, r.words, r.words)
	r.mu.Lock()
	r.end.asked = r.asked
	r.mu.Unlock()
	r.notes.rec.Event(evidence.Event{Kind: "server_exit", Where: r.notes.where, Message: r.end.String(), Data: map[string]any{
		"code": r.end.exit.Code, "signal": r.end.exit.Signal, "asked": r.end.asked,
	}})
}

// Gone is closed when the program has ended.
func (r *Resident) Gone() <-chan struct{} { return r.gone }

// Stop ends the program: SIGTERM, and SIGKILL after [Limits.Grace]. It returns when
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
