package runner_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/trial"
)

// What a run of 1,000 trials left is read in time that grows with it and no faster.
func TestRecoverLargeRun(t *testing.T) {
	heavytest.Mark(t)
	const begun, planned = 500, 1000
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
	record.Trials, record.Interrupted = planned, true
	start := time.Now()
	left, err := runner.Recover(t.Context(), r.Dir, record, trial.Consulting{})
	took := time.Since(start)
	if err != nil || len(left.Kept) != begun || left.Complete || len(left.Damaged) > 0 {
		t.Fatalf("%d trials kept, damaged %q, complete %v, %v", len(left.Kept), left.Damaged, left.Complete, err)
	}
	t.Logf("took %v", took)
	if took > 2*time.Second {
		t.Errorf("%d of %d trials are read in %v", begun, planned, took)
	}
}
