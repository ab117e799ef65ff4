package grading

import (
	"slices"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

func TestDetailsHaveTheCallsThatFeedbackIsAbout(t *testing.T) {
	calls := []evidence.Call{{Seq: 3}, {Seq: 1}}
	var r report
	r.check("k", true, "%s", describeCalls([]evidence.Call{{Seq: 9}}))
	if r.described()[evidence.DetailCalls] != nil {
		t.Error("a check that holds is about calls")
	}
	r.check("k", false, "found %s", describeCalls(calls))
	r.note("and %s", describe([]capture.Use{{Call: &calls[0]}, {Tool: "shell", Source: capture.SourceBuiltin}}))
	if got := r.described()[evidence.DetailCalls]; !slices.Equal(got.([]int), []int{1, 3}) {
		t.Errorf("about %v, want 1 and 3", got)
	}
}
