package results

import (
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// TestTriggers counts prompts of trigger_tests.yaml, which only affect the metric.
func TestTriggers(t *testing.T) {
	b := NewBuilder(Run{
		Specs: []MetricSpec{{Name: "trigger_accuracy", Threshold: 0.7}, {Name: "own", Threshold: 1}},
		Results: Results{Tasks: []Task{
			{TestID: "t"},
			{TestID: "right", Trigger: &TriggerTest{ShouldTrigger: true}},
			{TestID: "wrong", Trigger: &TriggerTest{Confidence: "medium"}},
			{TestID: "broke", Trigger: &TriggerTest{Confidence: "medium"}},
		}},
	})
	for id, class := range map[string]evidence.Class{"t": evidence.ClassPass, "right": evidence.ClassPass, "wrong": evidence.ClassFail, "broke": evidence.ClassAgentError} {
		trial := Trial{Trial: evidence.Trial{Task: id, Number: 1}, Verdicts: evidence.Verdicts{Class: class}}
		if err := b.Add(trial); err != nil {
			t.Fatal(err)
		}
	}
	r := b.Results()
	want := TriggerMetrics{TruePositives: 1, FalsePositives: 1, Errors: 1, Accuracy: 0.5}
	if r.Triggers == nil || *r.Triggers != want || len(r.TriggerResults) != 3 || r.Summary.TotalTests != 1 || r.Summary.SuccessRate != 1 {
		t.Errorf("metrics %+v of %+v, summary %+v", r.Triggers, r.TriggerResults, r.Summary)
	}
	if m := r.Metrics["trigger_accuracy"]; m.Value != 0.5 || m.Passed || len(r.Metrics) != 1 || r.ExitCode(0, false) != 1 {
		t.Errorf("metrics %+v, exit code %d", r.Metrics, r.ExitCode(0, false))
	}
	r.Metrics = nil
	if r.ExitCode(0, false) != 0 {
		t.Errorf("without the metric the exit code is %d", r.ExitCode(0, false))
	}
}
