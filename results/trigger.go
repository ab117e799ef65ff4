package results

import (
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// metricTrigger is the name of the metric that trigger_tests.yaml determines.
const metricTrigger = "trigger_accuracy"

// TriggerTest is a prompt of trigger_tests.yaml.
type TriggerTest struct {
	Prompt        string `json:"prompt"`
	ShouldTrigger bool   `json:"should_trigger"`
	Confidence    string `json:"confidence,omitempty"` // medium counts half
}

// TriggerMetrics are the results of the trigger prompts. A trial without a verdict counts
// as wrong.
type TriggerMetrics struct {
	TruePositives  int     `json:"true_positives"`
	FalsePositives int     `json:"false_positives"`
	TrueNegatives  int     `json:"true_negatives"`
	FalseNegatives int     `json:"false_negatives"`
	Errors         int     `json:"errors"`
	Accuracy       float64 `json:"accuracy"` // weighted
}

// TriggerResult is one trial of a prompt.
type TriggerResult struct {
	TriggerTest
	DidTrigger bool   `json:"did_trigger"`
	Correct    bool   `json:"correct"`
	ErrorMsg   string `json:"error_msg,omitempty"`
}

// withoutTriggers returns the tasks without the prompts of trigger_tests.yaml.
func withoutTriggers(tasks []Task) []Task {
	return slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return t.Trigger != nil })
}

// triggers summarizes the trials of trigger_tests.yaml. It returns nil if there are none.
func triggers(tasks []Task) (*TriggerMetrics, []TriggerResult) {
	var m TriggerMetrics
	var all []TriggerResult
	right, whole := 0.0, 0.0
	for _, t := range tasks {
		if t.Trigger == nil {
			continue
		}
		weight := 1.0
		if t.Trigger.Confidence == "medium" {
			weight = 0.5
		}
		for _, run := range t.Runs {
			one := TriggerResult{TriggerTest: *t.Trigger, Correct: run.Outcome == evidence.ClassPass}
			whole += weight
			if one.Correct {
				right += weight
			}
			one.DidTrigger = one.Correct == one.ShouldTrigger
			switch {
			case run.Outcome != evidence.ClassPass && run.Outcome != evidence.ClassFail:
				one.DidTrigger, one.ErrorMsg = false, run.ErrorMsg
				m.Errors++
			case one.ShouldTrigger && one.Correct:
				m.TruePositives++
			case one.ShouldTrigger:
				m.FalseNegatives++
			case one.Correct:
				m.TrueNegatives++
			default:
				m.FalsePositives++
			}
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	m.Accuracy = right / whole
	return &m, all
}
