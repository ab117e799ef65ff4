package sandboxtest

import (
	"testing"

	"github.com/waza-isolate/waza/sandbox"
)

// overshoot is how much the kernel may let a container exceed its limit temporarily.
const overshoot = 1 << 20

// usage checks that a container's usage is plausible and within its limits.
func (s *suite) usage(t *testing.T, sb sandbox.Sandbox) {
	for _, container := range []string{sandbox.Agent, "one"} {
		s.say(t, sb, container, "say", "something", "")
		used, err := sb.Usage(within(t), container)
		if err != nil {
			t.Fatal(err)
		}
		if used.CPU == nil || *used.CPU < 0 {
			t.Errorf("%s: CPU time %v", container, used.CPU)
		}
		if m := used.Memory; m != nil && (m.Peak < m.Now || m.Peak <= 0 || s.Container.Memory > 0 && m.Peak > s.Container.Memory+overshoot) {
			t.Errorf("%s: memory %+v of %d", container, *m, s.Container.Memory)
		}
		if p := used.Pids; p != nil && (p.Peak < p.Now || p.Peak <= 0 || s.Container.Pids > 0 && p.Peak > s.Container.Pids) {
			t.Errorf("%s: processes %+v of %d", container, *p, s.Container.Pids)
		}
		if breaches := used.Breaches(); len(breaches) > 0 {
			t.Errorf("%s: breaches %+v", container, breaches)
		}
	}
	if used, err := sb.Usage(within(t), "nobody"); err == nil {
		t.Errorf("a container that is not there used %+v", used)
	}
}
