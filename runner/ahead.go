package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
)

// discardTimeout bounds removing a prepared sandbox.
const discardTimeout = 90 * time.Second

// ahead is a backend that opens sandboxes of coming trials while others are at work, so that
// a trial does not wait for its own. Nothing runs in a prepared sandbox, and no two trials ever
// have the same one.
type ahead struct {
	trial.Backend
	dir    string // run directory
	most   int    // sandboxes that are prepared at once
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	coming   []*plan.Trial        // not begun, and may be prepared, in order; guarded by mu
	prepared map[string]*prepared // by trial; guarded by mu
}

// prepared is a sandbox that its trial has not asked for yet.
type prepared struct {
	done    chan struct{} // closed once there is a sandbox or an error
	sandbox sandbox.Sandbox
	err     error
	events  relay
}

// newAhead returns a backend that prepares at most most sandboxes at once of trials.
func newAhead(ctx context.Context, b trial.Backend, dir string, trials []*plan.Trial, most int) *ahead {
	a := &ahead{Backend: b, dir: dir, most: most, prepared: map[string]*prepared{}}
	if most > 0 {
		a.coming = slices.DeleteFunc(slices.Clone(trials), hasServices)
	}
	a.ctx, a.cancel = context.WithCancel(ctx)
	return a
}

func keyOf(t *plan.Trial) string { return fmt.Sprintf("%s/%d/%d", t.Task, t.Number, t.Attempt) }

// begins notes that a worker has come to a trial, which is not to be prepared any more.
func (a *ahead) begins(t *plan.Trial) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.coming, t); i >= 0 {
		a.coming = slices.Delete(a.coming, i, i+1)
	}
}

// prepareNext opens the sandbox of the next trial, if there is room.
func (a *ahead) prepareNext() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.coming) == 0 || len(a.prepared) >= a.most || !memoryIsFree() {
		return
	}
	next := *a.coming[0]
	a.coming = a.coming[1:]
	earlier, err := TrialDir(a.dir, next.Task, next.Number).Earlier()
	if err != nil {
		return // the trial itself says why
	}
	next.Attempt = len(earlier) + 1
	p := &prepared{done: make(chan struct{})}
	a.prepared[keyOf(&next)] = p
	go func() {
		defer close(p.done)
		p.sandbox, p.err = a.Backend.Open(a.ctx, &next, p.events.send)
	}()
}

// memoryIsFree reports whether an eighth of this machine's memory is free, as far as it can
// tell. Sandboxes that only wait must not take the last of it.
func memoryIsFree() bool {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return true
	}
	var total, free int64
	for line := range strings.Lines(string(info)) {
		_, _ = fmt.Sscanf(line, "MemTotal: %d kB", &total)
		_, _ = fmt.Sscanf(line, "MemAvailable: %d kB", &free)
	}
	return free >= total/8
}

// hasServices reports whether something foreign starts with the sandbox of a trial: a service
// of one of its servers.
func hasServices(t *plan.Trial) bool {
	return slices.ContainsFunc(t.Servers, func(s plan.Server) bool { return len(s.Services) > 0 })
}

// Open implements trial.Backend. It returns the sandbox that was prepared for the trial, or
// opens one.
func (a *ahead) Open(ctx context.Context, t *plan.Trial, observe func(evidence.Event)) (sandbox.Sandbox, error) {
	a.mu.Lock()
	p := a.prepared[keyOf(t)]
	delete(a.prepared, keyOf(t))
	a.mu.Unlock()
	if p == nil {
		return a.Backend.Open(ctx, t, observe)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), p.discard())
	}
	if p.err != nil {
		return a.Backend.Open(ctx, t, observe)
	}
	p.events.connect(observe)
	return p.sandbox, nil
}

// close removes the prepared sandboxes that no trial came for.
func (a *ahead) close() error {
	a.cancel()
	a.mu.Lock()
	left := a.prepared
	a.coming, a.prepared = nil, nil
	a.mu.Unlock()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, p := range left {
		all.Go(func() {
			err := p.discard()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (p *prepared) discard() error {
	<-p.done
	if p.err != nil {
		return nil // nothing is left of it
	}
	ctx, cancel := context.WithTimeout(context.Background(), discardTimeout)
	defer cancel()
	return p.sandbox.Close(ctx)
}

// relay keeps events until somebody takes them.
type relay struct {
	mu   sync.Mutex
	kept []evidence.Event // guarded by mu
	to   func(evidence.Event)
}

func (r *relay) send(e evidence.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to == nil {
		r.kept = append(r.kept, e)
		return
	}
	r.to(e)
}

func (r *relay) connect(to func(evidence.Event)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.kept {
		to(e)
	}
	r.kept, r.to = nil, to
}
