package view

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

func TestWhy(t *testing.T) {
	verdicts := []evidence.Verdict{
		{Name: "sums", Result: evidence.VerdictFail, Feedback: "\nOne is missing.\nAnd another.\n"},
		{Name: "asks", Result: evidence.VerdictPass, Feedback: "All hold."},
		{Name: "tells", Result: evidence.VerdictError, Feedback: "no transcript"},
		{Name: "adds", Result: evidence.VerdictFail, Feedback: "No sum."},
	}
	const adds, sums, tells = "adds: No sum.", "sums: One is missing.\nAnd another.", "tells (error): no transcript"
	for name, test := range map[string]struct {
		v       evidence.Verdicts
		line    string
		reasons []string
	}{
		"pass":         {v: evidence.Verdicts{Class: evidence.ClassPass, Verdicts: verdicts[1:2]}},
		"one fails":    {evidence.Verdicts{Class: evidence.ClassFail, Message: "failed: sums", Verdicts: verdicts[:2]}, "sums: One is missing.", []string{sums}},
		"some fail":    {evidence.Verdicts{Class: evidence.ClassFail, Message: "failed: sums, adds", Verdicts: verdicts}, adds + " And 2 other graders did not pass.", []string{adds, sums, tells}},
		"no stop":      {evidence.Verdicts{Class: evidence.ClassFail, Verdicts: []evidence.Verdict{{Name: "a", Result: evidence.VerdictFail, Feedback: "no such file or directory"}, verdicts[3]}}, "a: no such file or directory. And 1 other grader did not pass.", []string{"a: no such file or directory", adds}},
		"cannot tell":  {evidence.Verdicts{Class: evidence.ClassError, Message: "could not judge: tells", Verdicts: verdicts}, tells + ". And 2 other graders did not pass.", []string{tells, adds, sums}},
		"ran too long": {evidence.Verdicts{Class: evidence.ClassTimeout, Message: "it ran\ntoo long", Verdicts: verdicts[:1]}, "it ran", []string{"it ran\ntoo long", sums}},
		"a checkpoint stopped it": {
			evidence.Verdicts{Class: evidence.ClassFail, Message: "the conversation ended", Verdicts: verdicts[1:2], Checkpoints: []evidence.CheckpointVerdicts{
				{Checkpoint: evidence.Checkpoint{AfterTurn: 1}, Verdicts: evidence.Verdicts{Class: evidence.ClassFail, Verdicts: verdicts[3:]}},
				{Checkpoint: evidence.Checkpoint{AfterTurn: 2, Stopped: true}, Verdicts: evidence.Verdicts{Class: evidence.ClassFail, Verdicts: verdicts[:2]}},
			}},
			"sums after turn 2: One is missing.", []string{"the conversation ended", "sums after turn 2: One is missing.\nAnd another."},
		},
		"attacked alone": {evidence.Verdicts{Class: evidence.ClassFail, Message: "the attack succeeded: x", Verdicts: verdicts[1:2]}, "the attack succeeded: x", []string{"the attack succeeded: x"}},
		"no word of it":  {evidence.Verdicts{Class: evidence.ClassInfra, Reason: evidence.ReasonEngine}, "", nil},
		"a program printed": {
			evidence.Verdicts{Class: evidence.ClassServerError, Message: "it exited; its stderr:\nnode:internal/x:1\n  throw err;\n\nError: Cannot find module 'x'\n    at y\nNode.js v24\nhint: install x"},
			"it exited; its stderr: Error: Cannot find module 'x'", []string{"it exited; its stderr:\nnode:internal/x:1\n  throw err;\n\nError: Cannot find module 'x'\n    at y\nNode.js v24\nhint: install x"},
		},
		"a long line": {
			evidence.Verdicts{Class: evidence.ClassServerError, Message: "it exited; its stderr:\n[9:9:ERROR:host.cc:130] No usable sandbox! " + strings.Repeat("If you are on such a system, see there. ", 40) + "Or try --no-sandbox.\nhint: x"},
			"it exited; its stderr: [9:9:ERROR:host.cc:130] No usable sandbox! If you are on such a system, see there. If you are on such a sys… there. If you are on such a system, see there. If you are on such a system, see there. Or try --no-sandbox.",
			[]string{"it exited; its stderr:\n[9:9:ERROR:host.cc:130] No usable sandbox! " + strings.Repeat("If you are on such a system, see there. ", 40) + "Or try --no-sandbox.\nhint: x"},
		},
		"Python":       {evidence.Verdicts{Class: evidence.ClassServerError, Message: "it exited; its stderr:\nTraceback (most recent call last):\n  raise KeyError(\"missing\")\nKeyError: 'X'\n"}, "it exited; its stderr: KeyError: 'X'", []string{"it exited; its stderr:\nTraceback (most recent call last):\n  raise KeyError(\"missing\")\nKeyError: 'X'\n"}},
		"hidden words": {evidence.Verdicts{Class: evidence.ClassInfra, Message: strings.Repeat("\u202e", 300)}, strings.Repeat(`\u{202E}`, 29) + `\u{202E` + "…", []string{strings.Repeat("\u202e", 300)}},
		"a long word":  {evidence.Verdicts{Class: evidence.ClassInfra, Message: strings.Repeat("x", 900)}, strings.Repeat("x", maxWhy-1) + "…", []string{strings.Repeat("x", 900)}},
	} {
		why := WhyOf(results.Graded(test.v))
		if diff := cmp.Diff(test.line, why.Line()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(test.reasons, why.Reasons()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
