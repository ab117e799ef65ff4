package guests

import (
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

func TestMeter(t *testing.T) {
	var reported []string
	m := newMeter("s0", nil, func(e evidence.Event) { reported = append(reported, e.Kind+" "+e.Where) })
	if m.last() != nil {
		t.Error("it knows something")
	}
	kills := int64(0)
	m.take(evidence.Usage{OOMKills: &kills})
	kills++
	for range 3 {
		m.take(evidence.Usage{OOMKills: &kills})
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
