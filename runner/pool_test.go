package runner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// countingBackend opens sandboxes that only count.
type countingBackend struct {
	mu     sync.Mutex
	opened []string // keys, as they were opened
	open   int
	fail   map[string]error // by key, the first time
}

type countedSandbox struct {
	sandbox.Sandbox
	b       *countingBackend
	key     string
	observe func(evidence.Event)
	ended   chan struct{} // closed if its container has ended
}

func (s *countedSandbox) Gone(string) <-chan struct{} { return s.ended }

func (*countedSandbox) Ended(context.Context, string) sandbox.Exit {
	return sandbox.Exit{Cause: sandbox.FromOutside, Message: "deleted"}
}

func (b *countingBackend) Open(_ context.Context, s *sandbox.Spec, observe func(evidence.Event)) (sandbox.Sandbox, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = append(b.opened, keyOf(s))
	if err := b.fail[keyOf(s)]; err != nil {
		delete(b.fail, keyOf(s))
		return nil, err
	}
	b.open++
	observe(evidence.Event{Kind: "opened"})
	return &countedSandbox{b: b, key: keyOf(s), observe: observe, ended: make(chan struct{})}, nil
}

func (s *countedSandbox) Close(context.Context) error {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.open--
	return nil
}

func attemptAt(t plan.Trial) *sandbox.Spec {
	t.Attempt = 1
	return t.Spec()
}

func TestPool(t *testing.T) {
	trials := []*plan.Trial{{Task: "a", Number: 1}, {Task: "a", Number: 2}, {Task: "b", Number: 1}, {Task: "c", Number: 1}}
	trials[2].Servers = []plan.Server{{Services: []plan.Service{{}}}}
	b := &countingBackend{fail: map[string]error{"a/2/1": errors.New("no room")}}
	a := newPool(t.Context(), b, t.TempDir(), trials, 1)
	var events []string
	observe := func(e evidence.Event) { events = append(events, e.Kind) }
	take := func(i int) *countedSandbox {
		t.Helper()
		a.started(trials[i])
		s, err := a.Open(t.Context(), attemptAt(*trials[i]), observe)
		if err != nil {
			t.Fatal(err)
		}
		return s.(*countedSandbox)
	}
	first := take(0)
	a.openNext() // a/2, which fails and is opened again when its trial asks
	a.openNext() // there is room for one
	second := take(1)
	a.openNext() // not b/1, whose service would start, but c/1
	last := take(3)
	last.observe(evidence.Event{Kind: "later"})
	if want := []string{"a/1/1", "a/2/1", "a/2/1", "c/1/1"}; !slices.Equal(b.opened, want) {
		t.Errorf("opened %v, want %v", b.opened, want)
	}
	if want := []string{"opened", "cold_start", "opened", "opened", "later"}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}
	if first == second || second == last {
		t.Error("two trials have one sandbox")
	}
	for _, s := range []*countedSandbox{first, second, last} {
		_ = s.Close(t.Context())
	}
	comes := func(t *plan.Trial) (key string) {
		a.mu.Lock()
		a.coming = []*plan.Trial{t}
		a.mu.Unlock()
		a.openNext()
		return keyOf(attemptAt(*t))
	}
	trials = append(trials, &plan.Trial{Task: "d", Number: 1})
	dead := a.warm[comes(trials[4])]
	<-dead.done
	close(dead.sandbox.(*countedSandbox).ended)
	events = nil
	if s := take(4); s == dead.sandbox || b.open != 1 {
		t.Errorf("a sandbox that has ended is used, or left: %d", b.open)
	} else {
		_ = s.Close(t.Context())
	}
	if want := []string{"cold_start", "opened"}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}
	comes(&plan.Trial{Task: "e", Number: 1})
	if err := a.close(); err != nil || b.open != 0 {
		t.Errorf("%d sandbox(es) left, %v", b.open, err)
	}
}
