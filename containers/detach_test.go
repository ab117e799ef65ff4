package containers

import (
	"context"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
)

// A network is not removed while something is attached to it, and is as soon as that has
// left.
func TestNetworkIsRemovedOnceItIsLeft(t *testing.T) {
	t.Parallel()
	b := openRun(t)
	trial := trialOf(b, sandbox.NetworkBridge, debian)
	s, err := b.Open(within(t), trial, func(evidence.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.engine.NetworkList(within(t), client.NetworkListOptions{Filters: ofTrial(b.run, s.(*trialSandbox).plan.trial).args()})
	if err != nil || len(found.Items) != 1 {
		t.Fatalf("%d networks, %v", len(found.Items), err)
	}
	if err := b.engine.removeNetworkOnce(within(t), found.Items[0].ID); !errdefs.IsPermissionDenied(err) {
		t.Errorf("with its containers, it is removed: %v", err)
	}
	removed := make(chan error, 1)
	go func() { removed <- b.engine.removeNetwork(within(t), found.Items[0].ID) }()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-removed; err != nil {
		t.Errorf("after its containers, it stays: %v", err)
	}
}
