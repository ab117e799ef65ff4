package containers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
)

// A trial that finds every subnet with its neighbours waits for one of theirs, steps
// over what others have, and gives up when its time is up.
func TestTrialsShareFewSubnets(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	base := fmt.Sprintf("10.211.%d.", rand.IntN(256))
	foreignNetwork(t, base+"8/29")
	trial := func(number int) *sandbox.Spec {
		trial := trialOf(b, sandbox.NetworkBridge)
		trial.Number, trial.Subnets = number, base+"0/28"
		return trial
	}
	first, err := b.Open(within(t), trial(1), func(evidence.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithCancelCause(within(t))
	errBored := errors.New("bored")
	opened := make(chan error)
	go func() {
		s, err := b.Open(within(t), trial(2), func(evidence.Event) {})
		if err == nil {
			err = s.Close(within(t))
		}
		opened <- err
	}()
	time.AfterFunc(100*time.Millisecond, func() { cancel(errBored) })
	if _, err := b.Open(short, trial(3), func(evidence.Event) {}); !errors.Is(err, errBored) {
		t.Errorf("one that gives up: %v", err)
	}
	select {
	case err := <-opened:
		t.Fatalf("one got a subnet where there is none: %v", err)
	default:
	}
	if err := first.Close(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("one that waited: %v", err)
	}
	foreignNetwork(t, base+"0/29")
	if _, err := b.Open(within(t), trial(4), func(evidence.Event) {}); err == nil || !strings.Contains(err.Error(), "no free subnet in "+base+"0/28 after 2 tries; set config.isolation.subnets to another range") {
		t.Errorf("one that can never have any: %v", err)
	}
}
