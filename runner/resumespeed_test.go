package runner_test

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/trial"
)

// What a large run left is read in processor time that grows with it and no faster.
func TestRecoverLargeRun(t *testing.T) {
	heavytest.Mark(t)
	small, large := recoverTime(t, 100), recoverTime(t, 400)
	t.Logf("100 trials took %v, 400 %v", small, large)
	if large > 10*small { // 16 if each trial cost as much as there are
		t.Errorf("four times as many trials took %v, not %v", large, small)
	}
}

// recoverTime returns how much processor time it takes to read a run with so many trials, of twice as many.
func recoverTime(t *testing.T, begun int) time.Duration {
	t.Helper()
	r := runtest.New(t, filepath.Join(runtest.Dir(t), "run"), "large")
	for range begun {
		r.Trial("task", func(t *runtest.Trial) {
			t.Call("files", "read", map[string]any{"path": "a"}, "text")
			t.Write(evidence.StdoutFile, "done")
		})
	}
	r.End()
	record, err := runner.ReadRecord(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	record.Trials, record.Interrupted = 2*begun, true
	best := time.Hour
	for range 3 {
		start := processorTime(t)
		left, err := runner.Recover(t.Context(), r.Dir, record, trial.Consulting{})
		best = min(best, processorTime(t)-start)
		if err != nil || len(left.Kept) != begun || left.Complete || len(left.Damaged) > 0 {
			t.Fatalf("%d trials kept, damaged %q, complete %v, %v", len(left.Kept), left.Damaged, left.Complete, err)
		}
	}
	return best
}

// processorTime returns what this process has used so far, which other processes do not slow down.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
