package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
)

// Who sees the names of containers, and knows all of a server but its PIN, cannot tell by
// them which of all PINs it has. One configuration has one name in a run.
func TestSharedNamesTellNothingOfSecrets(t *testing.T) {
	pins := []string{"0001", "0002"}
	servers := make([]plan.Server, len(pins))
	hashes := map[string]string{} // as names can hold them, by PIN
	for i, pin := range pins {
		servers[i] = plan.Server{
			Name: "stock", Shared: true, StartupTimeout: time.Minute, Timeout: time.Minute,
			Expanded: mcpconfig.Server{Env: map[string]string{"PIN": pin}},
		}
		for _, guess := range []any{pin, servers[i].Expanded, struct {
			Plan     plan.Server
			Expanded mcpconfig.Server
		}{servers[i], servers[i].Expanded}} {
			data, err := json.Marshal(guess)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(data)
			hashes["shared-stock-"+hex.EncodeToString(sum[:])[:8]] = pin
		}
	}
	first, second := sharedNames(t, servers), sharedNames(t, servers)
	if len(first) != len(pins) {
		t.Fatalf("%d configurations have the names %q", len(pins), first)
	}
	for _, name := range slices.Concat(first, second) {
		if pin, reported := hashes[name]; reported {
			t.Errorf("%s tells the PIN %s", name, pin)
		}
	}
	for _, name := range first {
		if slices.Contains(second, name) {
			t.Errorf("%s is computed from the configuration: two runs have it", name)
		}
	}
}

// sharedNames are those of the sandboxes of shared servers in a run with two trials of each.
func sharedNames(t *testing.T, servers []plan.Server) []string {
	t.Helper()
	backend := testBackend()
	var trials []*plan.Trial
	for i, s := range servers {
		for n := range 2 {
			trial := testTrial(2*i + n + 1)
			trial.Servers = []plan.Server{s}
			trials = append(trials, trial)
		}
	}
	if _, err := RunTrials(t.Context(), backend, trials, options(t)); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, s := range backend.opened() {
		if s.spec.Lifetime == sandbox.LifeOfRun {
			names[s.spec.Task] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
