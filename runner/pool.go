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
	"github.com/waza-isolate/waza/sandbox"
)

// discardTimeout bounds removing a warm sandbox.
const discardTimeout = 90 * time.Second

// pool opens sandboxes of coming trials in advance. Nothing runs in a warm sandbox, and each is
// used by only one trial.
type pool struct {
	sandbox.Opener
	dir    string // run directory
	most   int    // maximum number of warm sandboxes
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	coming []*plan.Trial           // trials that have not started and may get a warm sandbox, in order; guarded by mu
	warm   map[string]*warmSandbox // by trial; guarded by mu
}

// warmSandbox is a sandbox that its trial does not use yet.
type warmSandbox struct {
	done    chan struct{} // closed when sandbox or err is set
	sandbox sandbox.Sandbox
	err     error
	events  relay
}

// newPool returns a pool with at most most warm sandboxes.
func newPool(ctx context.Context, b sandbox.Opener, dir string, trials []*plan.Trial, most int) *pool {
	p := &pool{Opener: b, dir: dir, most: most, warm: map[string]*warmSandbox{}}
	if most > 0 {
		p.coming = slices.DeleteFunc(slices.Clone(trials), hasServices)
	}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

func keyOf(s *sandbox.Spec) string { return fmt.Sprintf("%s/%d/%d", s.Task, s.Number, s.Attempt) }

// started removes a trial from those that may get a warm sandbox.
func (p *pool) started(t *plan.Trial) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.coming, t); i >= 0 {
		p.coming = slices.Delete(p.coming, i, i+1)
	}
}

// openNext opens the sandbox of the next trial, if the limits allow it.
func (p *pool) openNext() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.coming) == 0 || len(p.warm) >= p.most || !memoryIsFree() {
		return
	}
	next := p.coming[0].Spec()
	p.coming = p.coming[1:]
	earlier, err := TrialDir(p.dir, next.Task, next.Number).Earlier()
	if err != nil {
		return // the trial itself reports the error
	}
	next.Attempt = len(earlier) + 1
	w := &warmSandbox{done: make(chan struct{})}
	p.warm[keyOf(next)] = w
	go func() {
		defer close(w.done)
		w.sandbox, w.err = p.Opener.Open(p.ctx, next, w.events.send)
	}()
}

// memoryIsFree reports whether at least an eighth of the machine's memory is free, or the
// amount is not known. Warm sandboxes must not use up the rest.
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

// hasServices reports whether a server of a trial has services. Their programs would start with
// a warm sandbox.
func hasServices(t *plan.Trial) bool {
	return slices.ContainsFunc(t.Servers, func(s plan.Server) bool { return len(s.Services) > 0 })
}

// Open implements sandbox.Opener. It returns the warm sandbox, or opens one.
func (p *pool) Open(ctx context.Context, s *sandbox.Spec, observe func(evidence.Event)) (sandbox.Sandbox, error) {
	p.mu.Lock()
	w := p.warm[keyOf(s)]
	delete(p.warm, keyOf(s))
	p.mu.Unlock()
	if w == nil {
		return p.Opener.Open(ctx, s, observe)
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), w.discard())
	}
	if why := w.unusable(ctx, s); why != "" {
		observe(evidence.Event{Kind: "cold_start", Message: "the sandbox that was started in advance is not used: " + why})
		if err := w.discard(); err != nil {
			return nil, err
		}
		return p.Opener.Open(ctx, s, observe)
	}
	w.events.connect(observe)
	return w.sandbox, nil
}

// unusable returns why a warm sandbox cannot be used, or "".
func (w *warmSandbox) unusable(ctx context.Context, s *sandbox.Spec) string {
	if w.err != nil {
		return w.err.Error()
	}
	for _, c := range s.Containers {
		select {
		case <-w.sandbox.Gone(c.Name):
			return "the container of " + c.Name + " ended: " + w.sandbox.Ended(ctx, c.Name).Message
		default:
		}
	}
	return ""
}

// close removes the remaining warm sandboxes.
func (p *pool) close() error {
	p.cancel()
	p.mu.Lock()
	left := p.warm
	p.coming, p.warm = nil, nil
	p.mu.Unlock()
	var (
		all  sync.WaitGroup
		mu   sync.Mutex
		errs []error
	)
	for _, w := range left {
		all.Go(func() {
			err := w.discard()
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

func (w *warmSandbox) discard() error {
	<-w.done
	if w.err != nil {
		return nil // nothing is left to remove
	}
	ctx, cancel := context.WithTimeout(context.Background(), discardTimeout)
	defer cancel()
	return w.sandbox.Close(ctx)
}

// relay keeps events until connect is called.
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
