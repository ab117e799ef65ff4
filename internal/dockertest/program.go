package dockertest

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"sync"
	"testing"
)

const module = "github.com/waza-isolate/waza/"

// Program returns the path of a static executable called name, built from a package of this
// module once per test process.
func Program(t testing.TB, pkg, name string) string {
	t.Helper()
	build, _ := programs.LoadOrStore(path.Join(pkg, name), sync.OnceValues(func() (string, error) {
		return buildStatic(module+pkg, name)
	}))
	file, err := build.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

var programs sync.Map // func() (string, error) by package and name

// buildStatic builds into the directory of the test binary, which go test removes at the
// end. The build is reproducible: identical sources yield identical bytes, and so one guest
// image on the engine.
func buildStatic(pkg, name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(filepath.Dir(self), name+"-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", file, pkg)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return file, nil
}
