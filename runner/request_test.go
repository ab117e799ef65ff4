package runner

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/images"
)

func TestWorkers(t *testing.T) {
	tests := []struct {
		option int
		config eval.Config
		want   int
	}{
		{0, eval.Config{}, 1},
		{0, eval.Config{Workers: 8}, 1},
		{0, eval.Config{Parallel: true}, defaultWorkers},
		{0, eval.Config{Parallel: true, Workers: 2}, 2},
		{0, eval.Config{Parallel: true, MaxWorkers: 3}, 3},
		{5, eval.Config{}, 5},
		{5, eval.Config{Parallel: true, Workers: 2}, 5},
	}
	for _, test := range tests {
		q := &Request{Choices: Choices{Workers: test.option}}
		if got := q.workers(test.config); got != test.want {
			t.Errorf("--workers %d with %+v: %d, want %d", test.option, test.config, got, test.want)
		}
	}
}

func TestRunIDs(t *testing.T) {
	valid := regexp.MustCompile(`^[a-z0-9][a-z0-9-]*[a-z0-9]$`) // what the engine takes in names, and DNS in labels
	seen := map[string]bool{}
	for _, name := range []string{"inventory", "Ünïcode & Blanks / ..", "", "---", strings.Repeat("x", 300), "a\n${b}"} {
		for range 20 {
			id := NewID(name)
			if !valid.MatchString(id) || len(id) > 63 || seen[id] {
				t.Errorf("id of %q: %q, seen before: %t", name, id, seen[id])
			}
			seen[id] = true
		}
	}
}

func TestLockThatCannotBeWritten(t *testing.T) {
	e := &eval.Eval{Path: filepath.Join(t.TempDir(), "gone", "eval.yaml")}
	err := WriteLock(e, &images.Lock{})
	if err == nil || !strings.Contains(err.Error(), "waza.lock cannot be written, so the next run could install something else") {
		t.Error(err)
	}
	if lock, err := ReadLock(e); err != nil || lock.Len() != 0 {
		t.Errorf("a lock that is not there: %v, %v", lock, err)
	}
	e = &eval.Eval{Path: filepath.Join(t.TempDir(), "eval.yaml")}
	if err := os.Mkdir(LockPath(e), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLock(e); err == nil || !strings.Contains(err.Error(), "waza.lock: is a directory") {
		t.Error(err)
	}
}
