package results_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/runner/evidence"
)

// What a run is compared by is the same whether its results were computed or read.
func TestOutlineIsWhatIsRead(t *testing.T) {
	cost := 0.02
	all := append(trials(map[string]int{"first": 2}), trial("first", 1, 2, evidence.ClassInfra))
	all[1] = session()
	all[1].Gateway = true
	all[1].Models = []evidence.ModelCall{{Dialect: "messages", Outcome: evidence.ModelOK, Cost: &cost}}
	all[2].Verdicts.Attack = &evidence.AttackVerdict{Result: evidence.AttackResisted}
	computed := build(t, run(), all...).Outline()
	if diff := cmp.Diff(outline(t, run(), all...), computed); diff != "" {
		t.Error(diff)
	}
}
