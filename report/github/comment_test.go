package github_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/report/github"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// limit is how many characters GitHub takes.
const limit = 65536

// said returns a run with untrusted text everywhere: say converts plain text.
func said(t testing.TB, tasks, trials int, say func(string) string) view.Run {
	t.Helper()
	info := results.Run{
		Results: results.Results{
			EvalID: say("20260102-030405-demo"), EvalName: say("demo"), Timestamp: epoch,
			Config: results.Config{ModelID: say("m"), EngineType: say("script"), RunsPerTest: trials, Isolated: true, TimeoutSec: 60, Weak: []string{say("arp")}},
		},
		Ended: epoch.Add(3 * time.Minute),
		Specs: []results.MetricSpec{{Name: "task_completion", Weight: 1, Threshold: 0.9}},
	}
	for n := range tasks {
		info.Tasks = append(info.Tasks, results.Task{TestID: say(fmt.Sprintf("task-%d", n+1))})
	}
	builder := results.NewBuilder(info)
	cost := 0.0123
	for n, task := range info.Tasks {
		for number := 1; number <= trials; number++ {
			trial := results.Trial{Gateway: true, Models: []evidence.ModelCall{{Dialect: "messages", Outcome: evidence.ModelOK, Cost: &cost}}, Trial: evidence.Trial{
				Task: task.TestID, Number: number, Attempt: 1, Started: epoch, AgentStart: epoch, AgentEnd: epoch.Add(1500 * time.Millisecond), Ended: epoch.Add(time.Minute),
				Servers: []evidence.ServerRecord{{Name: say("stock")}},
			}}
			trial.Calls = []evidence.Call{{Seq: 1, Server: say("stock"), Tool: say("price"), Outcome: evidence.OutcomeOK, Start: epoch, End: epoch.Add(2 * time.Millisecond)}}
			trial.Verdicts.Class = evidence.ClassPass
			switch {
			case n > 0 && number == 1:
				trial.Verdicts = evidence.Verdicts{Class: evidence.ClassFail, Reason: evidence.ReasonGraders, Message: say("failed: price"), Verdicts: []evidence.Verdict{
					{Name: say("price"), Type: say("text"), Result: evidence.VerdictFail, Weight: 1, Feedback: say("the answer lacks \"12 €\"\nand says nothing else")},
					{Name: say("price") + "2", Type: "text", Result: evidence.VerdictPass, Score: 1, Weight: 1},
				}}
			case n > 0 && number == 2:
				trial.Verdicts = evidence.Verdicts{Class: evidence.ClassInfra, Reason: evidence.ReasonEngine, Message: say("the engine went away")}
			}
			if err := builder.Add(trial); err != nil {
				t.Fatal(err)
			}
		}
	}
	return view.Run{
		Dir: say("runs/1"), ID: info.EvalID, Waza: say("v1.0.0"), Started: epoch, Ended: info.Ended, Planned: tasks*trials + 1, Isolated: true, Network: say("bridge"),
		Certificate: &evidence.Certificate{Attacks: []evidence.Attack{{Name: say("arp"), Result: evidence.AttackGotOut}, {Result: evidence.AttackHeld}, {Result: evidence.AttackNotTried}}},
		Guarantees:  &evidence.Guarantees{Missing: []string{say("a limit of the disk")}},
		Results:     builder.Results(),
	}
}

func plainly(s string) string { return s }

func comment(t testing.TB, run view.Run) string {
	t.Helper()
	var out bytes.Buffer
	if err := github.Comment(&out, run); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func compared(t testing.TB, runs ...view.Run) string {
	t.Helper()
	var entries []results.Entry
	for i, run := range runs {
		made := []results.Setting{{Name: "waza", Value: fmt.Sprint(run.Waza, i)}, {Name: run.Network, Value: fmt.Sprint(run.Waza, i)}}
		entries = append(entries, results.Entry{Outline: run.Results.Outline(), Path: run.Dir, Made: made})
	}
	return comparison(t, results.Compare(entries))
}

func comparison(t testing.TB, c results.Comparison) string {
	t.Helper()
	var out bytes.Buffer
	if err := github.Comparison(&out, c); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestComment(t *testing.T) {
	golden.Check(t, "testdata/comment.md", comment(t, said(t, 3, 3, plainly)))
}

func TestCommentOnAPass(t *testing.T) {
	run := said(t, 1, 1, plainly)
	run.Planned, run.Certificate, run.Guarantees, run.Results.Config.Weak = 1, nil, nil, nil
	golden.Check(t, "testdata/passed.md", comment(t, run))
	run.Isolated = false
	if text := comment(t, run); !strings.Contains(text, "**Not isolated**") {
		t.Error(text)
	}
}

func TestComparison(t *testing.T) {
	outline := func(passed map[string]int) results.Entry {
		var o results.Outline
		o.EvalName, o.Agent, o.Isolated = "demo", "script", true
		for _, task := range []string{"1-price", "2-reserve", "3-report"} {
			of := results.TaskOutline{ID: task}
			for n := range 4 {
				class := evidence.ClassFail
				if n < passed[task] {
					class = evidence.ClassPass
				}
				of.Trials = append(of.Trials, results.TrialOutline{Outcome: class, DurationMS: 1500, SessionOutline: results.SessionOutline{MCPCalls: 2}})
			}
			o.Tasks = append(o.Tasks, of)
		}
		return results.Entry{Outline: o}
	}
	base := outline(map[string]int{"1-price": 0, "2-reserve": 4, "3-report": 4})
	golden.Check(t, "testdata/comparison.md", comparison(t, results.Compare([]results.Entry{base, outline(map[string]int{"1-price": 4, "2-reserve": 2})})))
	golden.Check(t, "testdata/same.md", comparison(t, results.Compare([]results.Entry{base, base})))
}

// A comment stays within GitHub's limits for runs of any size and content, and says what it
// omits.
func TestBounds(t *testing.T) {
	heavytest.Mark(t)
	for name, say := range map[string]func(string) string{
		"plain":   plainly,
		"escaped": func(s string) string { return s + strings.Repeat("@", 2000) },
		"hidden":  func(s string) string { return s + strings.Repeat("\U000E0041", 1000) },
		"marks":   func(s string) string { return s + strings.Repeat("\u0301", 2000) },
	} {
		run := said(t, 400, 2, say)
		text := comment(t, run)
		if len(text) > limit {
			t.Errorf("%s: %d bytes", name, len(text))
		}
		for _, said := range []string{" tasks more.\n", "\nLeft out: "} {
			if !strings.Contains(text, said) {
				t.Errorf("%s: the comment does not say that there are %q", name, said)
			}
		}
		if strings.Count(text, "<details>") != strings.Count(text, "</details>") {
			t.Errorf("%s: what is folded has no end", name)
		}
		other := said(t, 400, 2, func(s string) string { return "other " + say(s) })
		if text := compared(t, run, other); len(text) > limit || !strings.Contains(text, " differences more.\n") {
			t.Errorf("%s: %d bytes of a comparison", name, len(text))
		}
	}
}
