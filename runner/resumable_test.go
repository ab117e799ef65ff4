package runner

import (
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// A run that was killed left no word of it, and lacks trials.
func TestResumable(t *testing.T) {
	t.Parallel()
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
		record := Record{Choices: Choices{Trials: test.planned}, Tasks: []TaskRecord{{ID: "buy"}}}
		record.FailFast = test.failFast
		out := Outcome{
			Record: record, Written: true, Trials: []Result{{Verdicts: evidence.Verdicts{Class: test.class}}},
			Results: results.Results{Tasks: []results.Task{{Runs: []results.RunResult{{Outcome: test.class}}}}},
		}
		if got := out.Resumable(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
