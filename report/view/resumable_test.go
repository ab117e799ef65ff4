package view_test

import (
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

func TestResumable(t *testing.T) {
	for name, test := range map[string]struct {
		class    evidence.Class
		planned  int
		failFast bool
		want     bool
	}{
		"complete":  {evidence.ClassPass, 1, false, false},
		"killed":    {evidence.ClassPass, 2, false, true},
		"failed":    {evidence.ClassFail, 2, false, true},
		"fail fast": {evidence.ClassFail, 2, true, false},
		"infra":     {evidence.ClassInfra, 1, false, true},
	} {
		run := view.Run{
			Planned: test.planned, FailFast: test.failFast,
			Results: results.Results{Tasks: []results.Task{{Runs: []results.RunResult{{Outcome: test.class}}}}},
		}
		if got := run.Resumable(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
