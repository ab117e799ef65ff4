package runner

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/runner/plan"
)

func TestWorkers(t *testing.T) {
	yes, no := new(true), new(false)
	tests := []struct {
		isolated bool
		option   int
		config   eval.Config
		want     int
		auto     bool
	}{
		{false, 0, eval.Config{}, 1, false},
		{false, 0, eval.Config{Workers: 8}, 1, false},
		{false, 0, eval.Config{Parallel: yes}, defaultWorkers, false},
		{true, 0, eval.Config{}, maxAuto, true},
		{true, 0, eval.Config{Parallel: yes}, maxAuto, true},
		{true, 0, eval.Config{Parallel: no}, 1, false},
		{true, 0, eval.Config{Workers: 8}, 1, false},
		{true, 0, eval.Config{FailFast: true}, 1, false},
		{true, 0, eval.Config{MCPServerLifetime: plan.PerBenchmark}, 1, false},
		{true, 0, eval.Config{Parallel: yes, Workers: 2}, 2, false},
		{true, 5, eval.Config{}, 5, false},
		{true, 5, eval.Config{Parallel: yes, Workers: 2}, 5, false},
	}
	for _, test := range tests {
		q := &Request{Choices: Choices{Isolated: test.isolated, Pace: Pace{Workers: test.option}}}
		if got, auto := q.workers(test.config); got != test.want || auto != test.auto {
			t.Errorf("--workers %d with %+v: %d, %t, want %d, %t", test.option, test.config, got, auto, test.want, test.auto)
		}
	}
}

func TestWorkersOfEngine(t *testing.T) {
	const gib = 1 << 30
	for _, test := range []struct {
		cpus   int
		memory int64
		want   int
	}{
		{2, 64 * gib, 4}, {8, 64 * gib, 16}, {64, 8 * gib, 6}, {64, 640 * gib, maxAuto}, {1, gib / 2, 1}, {0, 0, 1},
	} {
		if got := workersOf(test.cpus, test.memory); got != test.want {
			t.Errorf("%d CPUs, %d bytes: %d, want %d", test.cpus, test.memory, got, test.want)
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

// A run that is resumed takes no more workers than it has trials left.
func TestWorkersForTheRest(t *testing.T) {
	t.Parallel()
	all := []*plan.Trial{{}, {}, {}}
	j := &Job{Dir: t.TempDir(), Eval: &eval.Eval{}, Trials: all}
	j.Request.Auto = true
	if got, err := j.workersFor(all[:1]); got != 1 || err != nil {
		t.Errorf("%d workers, %v", got, err)
	}
}
