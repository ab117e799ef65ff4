package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

func open(t *testing.T, temp, run string) *Backend {
	t.Helper()
	b, err := Open(Options{Run: run, Temp: temp})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func closed(t *testing.T, b *Backend) {
	t.Helper()
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func stand(t *testing.T, b *Backend) sandbox.Sandbox {
	t.Helper()
	s, err := b.Open(t.Context(), &sandbox.Spec{Task: "task", Number: 1, Containers: []sandbox.ContainerSpec{sandbox.AgentContainer(sandbox.Container{}, "", "{}")}}, func(evidence.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A run's directory must be in one that is the user's alone.
func TestForeignBase(t *testing.T) {
	for name, prepare := range map[string]func(base string) error{
		"open to others": func(base string) error { return errors.Join(os.Mkdir(base, 0o777), os.Chmod(base, 0o777)) },
		"a link":         func(base string) error { return os.Symlink(filepath.Dir(base), base) },
		"a file":         func(base string) error { return os.WriteFile(base, nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			if err := prepare(baseDir(temp)); err != nil {
				t.Fatal(err)
			}
			if b, err := Open(Options{Run: "r", Temp: temp}); err == nil {
				closed(t, b)
				t.Error("was used")
			}
			if _, err := GC(temp); err == nil {
				t.Error("was cleaned")
			}
		})
	}
}

// Programs have working directories of their own, so what they are told is
// absolute.
func TestRelativeTemp(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("temp", 0o755); err != nil {
		t.Fatal(err)
	}
	b := open(t, "temp", "r")
	defer closed(t, b)
	s := stand(t, b)
	defer func() { _ = s.Close(context.Background()) }()
	if l := s.Layout(sandbox.Agent); !filepath.IsAbs(l.Workspace) || !filepath.IsAbs(l.MCPConfig) || !filepath.IsAbs(l.Private) {
		t.Errorf("%+v", l)
	}
}

func TestRunsSideBySide(t *testing.T) {
	temp := t.TempDir()
	one, two := open(t, temp, "one"), open(t, temp, "two")
	if _, err := Open(Options{Run: "one", Temp: temp}); err == nil {
		t.Error("two runs of the same id")
	}
	g, err := GC(temp)
	if err != nil || !slices.Equal(g.Live, []string{"one", "two"}) || len(g.Runs) > 0 {
		t.Errorf("%+v, %v", g, err)
	}
	closed(t, one)
	closed(t, two)
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if g, err := GC(temp); err != nil || len(g.Runs)+len(g.Live) > 0 {
		t.Errorf("of nothing: %+v, %v", g, err)
	}
}

// Runs begin and end while gc runs. None loses its directory.
func TestGCWhileRunsBegin(t *testing.T) {
	temp := t.TempDir()
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for range 100 {
				d, err := makeRunDir(baseDir(temp), strconv.Itoa(n))
				if err != nil {
					t.Error(err)
					return
				}
				if _, _, err := d.makeDir("task-1"); err != nil {
					t.Error(err)
				}
				if err := d.remove(); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 100 {
				if _, err := GC(temp); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if left, _ := os.ReadDir(temp); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestIsMarked(t *testing.T) {
	tests := []struct {
		environ, mark string
		want          bool
	}{
		{"A=b\x00WAZA_SANDBOX=/t/r/x-1:agent\x00", "/t/r/x-1:agent", true},
		{"A=b\x00WAZA_SANDBOX=/t/r/x-1:agent\x00", "/t/r/x-1:", true},
		{"WAZA_SANDBOX=/t/r/x-1:agent", "/t/r/", true},
		{"WAZA_SANDBOX=/t/r/x-1:agents", "/t/r/x-1:agent", false},
		{"WAZA_SANDBOX=/t/r/x-10:agent", "/t/r/x-1:", false},
		{"WAZA_SANDBOX=/t/r2/x-1:agent", "/t/r/", false},
		{"MY_WAZA_SANDBOX=/t/r/x-1:agent", "/t/r/", false},
		{"A=WAZA_SANDBOX=/t/r/x-1:agent", "/t/r/", false},
		{"", "/t/r/", false},
	}
	for _, test := range tests {
		if got := isMarked(test.environ, test.mark); got != test.want {
			t.Errorf("%q, %q: %t", test.environ, test.mark, got)
		}
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"bin/tool": 0o755, "bin/plain": 0o644, "sub/near": 0o755} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, mode)); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=/nonexistent", "PATH=/nonexistent:" + dir + "/bin:sub"}
	for name, want := range map[string]string{
		"tool": dir + "/bin/tool", "near": dir + "/sub/near", "./sub/near": dir + "/sub/near", dir + "/bin/tool": dir + "/bin/tool",
		"plain": "", "bin": "", "sub": "", "./sub": "", "absent": "", dir + "/bin/plain": "",
	} {
		got, err := lookPath(name, env, dir)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// A proxy of the user's does not come between programs and loopback.
func TestLoopbackWithoutProxy(t *testing.T) {
	env := process.LastOfEach(withoutProxy([]string{"A=1", "NO_PROXY=internal.example", "A=2"}))
	if got, want := strings.Join(env, " "), "A=2 NO_PROXY=internal.example,127.0.0.1,localhost no_proxy=127.0.0.1,localhost"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What a program took from itself is removed all the same.
func TestRemoveTree(t *testing.T) {
	dir, outside := filepath.Join(t.TempDir(), "dir"), t.TempDir()
	keep := filepath.Join(outside, "keep")
	odd := filepath.Join(dir, "no \xff UTF-8")
	err := errors.Join(
		os.MkdirAll(filepath.Join(odd, "b", "c"), 0o755), os.Chmod(filepath.Join(odd, "b"), 0), os.Chmod(odd, 0),
		os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755),
		os.WriteFile(filepath.Join(dir, "a", "b", "c"), nil, 0),
		os.WriteFile(keep, nil, 0o600), os.Symlink(outside, filepath.Join(dir, "a", "link")),
		os.Chmod(filepath.Join(dir, "a", "b"), 0), os.Chmod(filepath.Join(dir, "a"), 0), os.Chmod(dir, 0),
	)
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		hold(t, filepath.Join(dir, "held"))
	}
	if err := removeTree(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("it is still there")
	}
	if _, err := os.Stat(keep); err != nil {
		t.Errorf("through a link: %v", err)
	}
}
