package dockertest_test

import (
	"debug/elf"
	"testing"

	"github.com/waza-isolate/waza/internal/dockertest"
)

func TestWazaIsStaticAndBuiltOnce(t *testing.T) {
	path := dockertest.Waza(t)
	if again := dockertest.Waza(t); again != path {
		t.Errorf("built twice: %s and %s", path, again)
	}
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("is linked dynamically")
		}
	}
}

// recorder notes how a test would end.
type recorder struct {
	testing.TB
	failed, skipped bool
}

type stopped struct{}

func (r *recorder) Helper()               {}
func (r *recorder) Fatalf(string, ...any) { r.failed = true; panic(stopped{}) }
func (r *recorder) Skipf(string, ...any)  { r.skipped = true; panic(stopped{}) }

func TestMissingImageIsLoud(t *testing.T) {
	dockertest.Require(t)
	for _, require := range []string{"0", "1"} {
		t.Setenv(dockertest.RequireEnv, require)
		r := &recorder{TB: t}
		func() {
			defer func() { _ = recover() }()
			dockertest.Image(r, "waza-nobody/has:this")
		}()
		if want := require == "1"; r.failed != want || r.skipped == want {
			t.Errorf("%s=%s: failed %t, skipped %t", dockertest.RequireEnv, require, r.failed, r.skipped)
		}
	}
}

func TestObjectsOfNobody(t *testing.T) {
	c := dockertest.Engine(t)
	if found := dockertest.Objects(t, c, "no-such-run"); len(found) > 0 {
		t.Errorf("found %q", found)
	}
	dockertest.NoObjects(t, c, "no-such-run")
}
