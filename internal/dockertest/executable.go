package dockertest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// ExecutableEnv is the environment variable with the path of a static waza executable that
// tests use instead of building one.
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

var executable = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(ExecutableEnv); path != "" {
		return filepath.Abs(path)
	}
	return buildStatic(module+"cmd/waza", "waza")
})
