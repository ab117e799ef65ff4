package results_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/results"
)

// The figures of results are equal to those read from their file.
func TestOutlineOfResults(t *testing.T) {
	cent := 0.01
	asked := under(trial("first", 2, 1, evidence.ClassPass, 1, 1), evidence.AttackResisted)
	asked.Gateway, asked.Models = true, []evidence.ModelCall{answered(100, &dialect.Usage{Input: 1000, Output: 10}, &cent)}
	listed := session()
	listed.Servers = []evidence.ServerRecord{{Name: "files"}}
	listed.Catalogs = []evidence.Catalog{{Server: "files", SHA256: "0123456789abcdef"}}
	trials := []results.Trial{listed, asked, trial("second", 1, 1, evidence.ClassInfra)}

	got := build(t, run(), trials...).Outline()
	if diff := cmp.Diff(outline(t, run(), trials...), got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	if len(got.Servers[0].Catalogs) != 1 || got.TimeoutSec == 0 || got.Tasks[0].Trials[1].Models() == nil {
		t.Errorf("too little to tell: %+v", got)
	}
}
