package runner

import (
	"slices"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// An attack that got out of the sandboxes of one shard, on its node, got out in the run.
func TestShardsCertificates(t *testing.T) {
	t.Parallel()
	of := func(vsock, memory evidence.AttackResult) Record {
		return Record{Certificate: &evidence.Certificate{Attacks: []evidence.Attack{
			{Name: "vsock", Result: vsock, Allowed: vsock == evidence.AttackGotOut}, {Name: "memory-tcp", Result: memory, Allowed: memory == evidence.AttackGotOut},
		}}}
	}
	one, other := of(evidence.AttackGotOut, evidence.AttackHeld), of(evidence.AttackHeld, evidence.AttackGotOut)
	if key, err := differingKey(one, other); key != "" || err != nil {
		t.Errorf("%q differs, %v", key, err)
	}
	var merged Record
	for _, shard := range []Record{one, other, {}} {
		if err := addShard(&merged, "shard", shard); err != nil {
			t.Fatal(err)
		}
	}
	if weak := merged.Weak(); !slices.Equal(weak, []string{"vsock", "memory-tcp"}) || len(one.Weak()) != 1 {
		t.Errorf("weak are %q, and of the first shard %q", weak, one.Weak())
	}
}
