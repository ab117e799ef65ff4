package containers

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/dockertest"
)

func TestCheckStatic(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	waza := dockertest.Waza(t)
	foreign := "arm64"
	if runtime.GOARCH == foreign {
		foreign = "amd64"
	}
	tests := []struct {
		name, path, arch string
		want             string // part of the sentence; empty for none
	}{
		{"static", waza, runtime.GOARCH, ""},
		{"architecture nobody knows", waza, "wasm", ""},
		{"dynamic", dynamic(t), runtime.GOARCH, "is linked dynamically and would not run in every image: build it with CGO_ENABLED=0 (make build does)"},
		{"for another machine", waza, foreign, "and the engine for " + foreign},
		{"no executable", script, runtime.GOARCH, "cannot be process 1 of a container"},
		{"missing", filepath.Join(t.TempDir(), "nothing"), runtime.GOARCH, "no such file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := checkStatic(test.path, test.arch)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// dynamic returns an executable that is linked dynamically: a shell, as every
// Linux has one.
func dynamic(t *testing.T) string {
	t.Helper()
	path, err := filepath.EvalSymlinks("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Open refuses a dynamically linked executable with an error that names the remedy.
func TestOpenRefusesDynamicExecutable(t *testing.T) {
	dockertest.Require(t)
	_, err := Open(t.Context(), Options{Run: runID(t), Guest: dynamic(t)})
	if err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("error %v, want it to name CGO_ENABLED=0", err)
	}
}
