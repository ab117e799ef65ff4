package sandboxtest

import (
	"testing"

	"github.com/waza-isolate/waza/sandbox"
)

// overshoot is how much more than its limit the kernel may let a container have for
// a moment.
const overshoot = 1 << 20

// usage holds that what a box used is its own, and no more than it may.
func (s *suite) usage(t *testing.T, sb sandbox.Sandbox) {
	for _, box := range []string{sandbox.Agent, "one"} {
		s.say(t, sb, box, "say", "something", "")
		used, err := sb.Usage(within(t), box)
		if err != nil {
			t.Fatal(err)
		}
		if used.CPU == nil || *used.CPU < 0 {
			t.Errorf("%s: CPU time %v", box, used.CPU)
		}
		if m := used.Memory; m != nil && (m.Peak < m.Now || m.Peak <= 0 || s.Box.Memory > 0 && m.Peak > s.Box.Memory+overshoot) {
			t.Errorf("%s: memory %+v of %d", box, *m, s.Box.Memory)
		}
		if p := used.Pids; p != nil && (p.Peak < p.Now || p.Peak <= 0 || s.Box.Pids > 0 && p.Peak > s.Box.Pids) {
			t.Errorf("%s: processes %+v of %d", box, *p, s.Box.Pids)
		}
		if breaches := used.Breaches(); len(breaches) > 0 {
			t.Errorf("%s: breaches %+v", box, breaches)
		}
	}
	if used, err := sb.Usage(within(t), "nobody"); err == nil {
		t.Errorf("a box that is not there used %+v", used)
	}
}
