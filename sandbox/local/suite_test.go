package local_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/local"
	"github.com/waza-isolate/waza/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	t.Parallel()
	sandboxtest.Run(t, func(t *testing.T, program string) sandboxtest.Opened {
		temp := t.TempDir()
		b, err := local.Open(local.Options{Run: "suite", Executable: program, Temp: temp})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(context.Background()); err != nil {
				t.Error(err)
			}
			noFiles(t, temp)
		})
		return sandboxtest.Opened{
			Backend: b, Name: "process",
			Spec: sandbox.Spec{Run: "suite", Network: sandbox.NetworkNone},
			Left: func(t *testing.T) []string { return glob(t, temp, "*", "suite", "*-1*") },
		}
	})
}

func glob(t *testing.T, elem ...string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// noFiles holds that a directory is empty.
func noFiles(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in %s: %v, %v", dir, left, err)
	}
}
