package dockertest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// ExecutableEnv names the variable that holds the path of a static waza
// executable, for tests to use in place of a fresh build.
const ExecutableEnv = "WAZA_BIN"

// Waza returns the path of a static waza executable, built once per test process.
func Waza(t testing.TB) string {
	t.Helper()
	path, err := executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// executable builds beside the test binary, in the directory that go test removes
// when it is done. The build is reproducible: equal sources give equal bytes, and
// so one guest image on the engine.
var executable = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(ExecutableEnv); path != "" {
		return filepath.Abs(path)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(self), "waza-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "waza")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path, "github.com/waza-isolate/waza/cmd/waza")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build waza: %w\n%s", err, out)
	}
	return path, nil
})
