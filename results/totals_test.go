package results

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

func TestTotals(t *testing.T) {
	run := func(class evidence.Class, ms int64, calls int, models *Models) RunResult {
		return RunResult{Outcome: class, DurationMS: ms, SessionDigest: SessionDigest{MCPToolCalls: calls}, Models: models}
	}
	cost := 0.5
	task := Task{Runs: []RunResult{
		run(evidence.ClassPass, 100, 2, nil), run(evidence.ClassInfra, 9000, 1, &Models{Requests: 1}), run(evidence.ClassTimeout, 300, 4, &Models{Requests: 2, Cost: &cost}),
	}}
	want := Totals{MCPCalls: 7, Models: &Models{Requests: 3, Cost: &cost}}
	if diff := cmp.Diff(want, task.Totals()); diff != "" {
		t.Error(diff)
	}
	if got := MedianDurationMS(task, Task{Runs: []RunResult{run(evidence.ClassFail, 1000, 0, nil)}}); got == nil || *got != 300 {
		t.Errorf("median %v", got)
	}
	if got := MedianDurationMS(Task{Runs: task.Runs[1:2]}); got != nil {
		t.Errorf("median %v of infra alone", *got)
	}
}
