package containers

import (
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// TestCertificate runs the self-test on sandboxes with each kind of network, and expects no
// attack to get out.
func TestCertificate(t *testing.T) {
	for _, network := range []string{sandbox.NetworkBridge, sandbox.NetworkAirtight} {
		t.Run(network, func(t *testing.T) {
			b := openRun(t)
			began := time.Now()
			c, err := selftest.Probe(t.Context(), b, b.run, evidence.SandboxKind{Network: network, Workspace: "tmpfs"})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("took %s", time.Since(began))
			for _, a := range c.Attacks {
				t.Logf("%-16s %-9s %s", a.Name, a.Result, a.Detail)
				if a.Result == evidence.AttackGotOut {
					t.Errorf("%s: %s %s", a.Name, a.Result, a.Detail)
				}
			}
		})
	}
}
