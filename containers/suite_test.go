package containers

import (
	"context"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/sandboxtest"
)

func TestSuite(t *testing.T) {
	bothNetworks(t, func(t *testing.T, network string) {
		sandboxtest.Run(t, func(t *testing.T, program string) sandboxtest.Opened {
			run := runID(t)
			b, err := Open(within(t), Options{Run: run, Guest: program})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := b.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			return sandboxtest.Opened{
				Backend: b, Name: "docker",
				Spec:        sandbox.Spec{Run: run, Network: network},
				Container:   sandbox.Container{CPUs: 1, Memory: 128 << 20, Disk: 32 << 20, Pids: 64},
				NetworkOnly: network == sandbox.NetworkBridge,
				Left:        func(t *testing.T) []string { return ofTrials(t, run) },
			}
		})
	})
}

// ofTrials lists the run's objects on the engine, except those shared by the whole run.
func ofTrials(t *testing.T, run string) (names []string) {
	t.Helper()
	for _, object := range dockertest.Objects(t, dockertest.Engine(t), run) {
		if !strings.Contains(object, "-"+roleLease) && !strings.Contains(object, "-"+roleUsers+"-") && !strings.Contains(object, filesVolume(run)) {
			names = append(names, object)
		}
	}
	return names
}
