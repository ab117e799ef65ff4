package guests

import (
	"slices"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
)

func TestMeter(t *testing.T) {
	var reported []string
	m := newMeter("s0", nil, func(e evidence.Event) { reported = append(reported, e.Kind+" "+e.Where) })
	if m.last() != nil {
		t.Error("it knows something")
	}
	kills := int64(0)
	m.addUsage(evidence.Usage{OOMKills: &kills})
	kills++
	for range 3 {
		m.addUsage(evidence.Usage{OOMKills: &kills})
	}
	if len(reported) != 1 || reported[0] != "oom s0" {
		t.Errorf("told %q", reported)
	}
}

func TestUnseen(t *testing.T) {
	if n := len(unseen([]*evidence.Usage{nil})); n != 5 {
		t.Errorf("of a container that reports nothing %d things are missing", n)
	}
	n, seconds := int64(0), 0.0
	if missing := unseen([]*evidence.Usage{{OOMKills: &n, ForksRefused: &n, CPU: &seconds}}); len(missing) != 2 {
		t.Errorf("missing %q", missing)
	}
}

// A directory that holds more than its limit is a gap of the guarantees; one that the kernel has rounded
// up to whole pages is none.
func TestOversized(t *testing.T) {
	c := sandbox.ContainerSpec{Name: "s0", Container: sandbox.Container{Disk: 1 << 20, Scratch: 1 << 10, ShmSize: 8 << 20}}
	seen := &evidence.Usage{Disks: map[string]observe.Disk{"/dev/shm": {Size: 64 << 20}, "/tmp": {Size: 4 << 10}, "/data": {Size: 1 << 20}}}
	want := []string{"/dev/shm of s0 holds 67108864 bytes in place of 8388608: the limit has no effect there"}
	if got := oversized(c, seen); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := oversized(c, nil); got != nil {
		t.Errorf("%q of a container that reports nothing", got)
	}
}
