package runner

import (
	"errors"
	"testing"

	"github.com/waza-isolate/waza/runner/evidence"
)

// A server of the run's that died and whose end cannot be waited for is an error to
// the next trial, once.
func TestSharedServerThatDoesNotClose(t *testing.T) {
	backend := &fakeBackend{on: map[string]func(int) error{"close": fails(errors.New("stuck"))}}
	shared := newSharedServers(&run{backend: backend})
	plan := Server{Name: "s", Shared: true}
	sandbox, err := backend.Open(t.Context(), &Trial{}, func(evidence.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	shared.slots[configKey(plan)] = &slot{current: &instance{
		name: "s", sandbox: sandbox, host: &host{plan: plan, sandbox: sandbox, services: &auxiliaries{}},
		closing: make(chan struct{}), died: "its box ended",
	}}
	if _, err := shared.join(t.Context(), &trialRun{}, plan); err == nil {
		t.Error("no error")
	}
	if err := shared.close(t.Context()); err != nil {
		t.Errorf("it was closed twice: %v", err)
	}
}
