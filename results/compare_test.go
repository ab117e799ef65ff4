package results_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/results"
)

// outline returns what is read of a results.json with these trials.
func outline(t *testing.T, run results.Run, trials ...results.Trial) results.Outline {
	t.Helper()
	read, err := results.ReadOutline(bytes.NewReader(written(t, run, trials...)))
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func of(executor, model string, isolated bool) results.Run {
	r := run()
	r.Config.EngineType, r.Config.ModelID, r.Config.Isolated = executor, model, isolated
	return r
}

// trials returns three trials of each task, with the given numbers of passes.
func trials(passing map[string]int) (all []results.Trial) {
	for _, task := range []string{"first", "second", "third"} {
		for number := 1; number <= 3; number++ {
			class := evidence.ClassFail
			if number <= passing[task] {
				class = evidence.ClassPass
			}
			all = append(all, trial(task, number, 1, class))
		}
	}
	return all
}

// sample has runs that differ in all ways.
func sample(t *testing.T) results.Comparison {
	t.Helper()
	cost := 0.0123
	asked := outline(t, of("claude", "small", false), trials(map[string]int{"second": 3, "third": 2})...)
	asked.Tasks[0].Trials[0].Usage = &results.ModelFigures{InputTokens: 1200, OutputTokens: 34, Cost: &cost}
	asked.Tasks[0].Trials[1].Usage = &results.ModelFigures{InputTokens: 100}
	asked.Tasks[0].Trials[2].MCPCalls = 4
	other := of("codex", "large", true)
	other.EvalName = "another"
	infra := trial("first", 1, 1, evidence.ClassInfra)
	return results.Compare([]results.Entry{
		{Outline: outline(t, of("script", "", true), trials(map[string]int{"first": 3, "third": 3})...), Path: "runs/1"},
		{Outline: asked, Path: "runs/2"},
		{Outline: outline(t, other, infra, trial("second", 1, 1, evidence.ClassPass)), Path: "runs/3/results.json"},
		{Outline: results.Outline{EvalName: "demo", OutlineConfig: results.OutlineConfig{Agent: "gemini", Isolated: true}}, Error: "no such image"},
	})
}

func TestComparison(t *testing.T) {
	c := sample(t)
	for name, width := range map[string]int{"compare.txt": 0, "compare-60.txt": 60} {
		var table bytes.Buffer
		if err := terminal.Comparison(&table, c, width); err != nil {
			t.Fatal(err)
		}
		table.WriteByte('\n')
		if err := terminal.Pairs(&table, c, width); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/"+name, table.String())
	}
	data, err := evidence.MarshalIndent(c)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/compare.json", string(data))
}

// Tasks that go on as they did are no difference.
func TestChanges(t *testing.T) {
	tests := []struct {
		before, after [2]int // passed, trials
		want          results.Change
	}{
		{[2]int{3, 3}, [2]int{1, 1}, ""},
		{[2]int{0, 3}, [2]int{0, 1}, ""},
		{[2]int{0, 0}, [2]int{0, 0}, ""},
		{[2]int{3, 3}, [2]int{0, 3}, results.Regressed},
		{[2]int{1, 3}, [2]int{0, 3}, results.NowFailing}, // chance may do it
		{[2]int{1, 1}, [2]int{0, 2}, results.NowFailing},
		{[2]int{2, 2}, [2]int{0, 2}, results.NowFailing},
		{[2]int{0, 3}, [2]int{3, 3}, results.Fixed},
		{[2]int{1, 3}, [2]int{3, 3}, results.NowPassing},
		{[2]int{0, 1}, [2]int{2, 2}, results.NowPassing},
		{[2]int{3, 3}, [2]int{1, 3}, results.Flaky},
		{[2]int{0, 3}, [2]int{2, 3}, results.Flaky},
		{[2]int{2, 3}, [2]int{2, 3}, results.Flaky},
		{[2]int{20, 20}, [2]int{8, 20}, results.Regressed}, // beyond chance
		{[2]int{2, 20}, [2]int{14, 20}, results.Fixed},
		{[2]int{2, 3}, [2]int{0, 0}, results.Missing},
		{[2]int{0, 0}, [2]int{2, 3}, results.Added},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.before, test.after), func(t *testing.T) {
			c := results.Compare([]results.Entry{{Outline: counted(test.before)}, {Outline: counted(test.after)}})
			var got results.Change
			for _, d := range c.Differences {
				got = d.Change
			}
			if got != test.want || len(c.Differences) > 1 {
				t.Errorf("%q of %d, want %q", got, len(c.Differences), test.want)
			}
		})
	}
}

// The word for a change claims no more than its interval shows, and hides nothing that
// it does.
func TestChangesClaimWhatIsShown(t *testing.T) {
	for b := range 25 {
		for a := range 25 {
			before, after := [2]int{min(b%5, b/5), b / 5}, [2]int{min(a%5, a/5), a / 5}
			for _, d := range results.Compare([]results.Entry{{Outline: counted(before)}, {Outline: counted(after)}}).Differences {
				if (d.Change == results.Regressed) != (d.Finding == results.Worse) || (d.Change == results.Fixed) != (d.Finding == results.Better) {
					t.Errorf("%d to %d: %s, %s", before, after, d.Change, d.Finding)
				}
				none := after[1] > 0 && after[0] == 0 && before[0] > 0
				if none && d.Change != results.Regressed && d.Change != results.NowFailing {
					t.Errorf("%d to %d is %s", before, after, d.Change)
				}
			}
		}
	}
}

// counted has one task, with some passed trials.
func counted(share [2]int) results.Outline {
	task := results.TaskOutline{ID: "x"}
	for i := range share[1] {
		class := evidence.ClassPass
		if i >= share[0] {
			class = evidence.ClassFail
		}
		task.Trials = append(task.Trials, results.TrialOutline{Outcome: class})
	}
	return results.Outline{Tasks: []results.TaskOutline{task}}
}

// The interval of a difference is that of Newcombe's own example (1998, table II, case
// a: 56 of 70 less 48 of 80 is 0.2000 [0.0524, 0.3339] by method 10).
func TestDifferenceOfShares(t *testing.T) {
	c := results.Compare([]results.Entry{{Outline: counted([2]int{48, 80})}, {Outline: counted([2]int{56, 70})}})
	d := c.Differences[0].PassRate
	for _, figure := range []struct{ got, want float64 }{{d.Mean, 0.2}, {d.Lower, 0.0524}, {d.Upper, 0.3339}} {
		if math.Abs(figure.got-figure.want) > 0.00005 {
			t.Errorf("%+v, want 0.2 [0.0524, 0.3339]", *d)
		}
	}
}

// Tokens are those of the session's usage, as pages and CSV have them, and the cost is the gateway's.
func TestModelFigures(t *testing.T) {
	cost := 0.5
	for members, want := range map[string]*results.ModelFigures{
		`"models": {"requests": 2, "tokens": {"input": 10}, "cost": 0.5}, "session_digest": {"usage": {"input_tokens": 10, "output_tokens": 5}}`: {InputTokens: 10, OutputTokens: 5, Cost: &cost},
		`"session_digest": {"usage": {"input_tokens": 10, "output_tokens": 5}}`:                                                                  {InputTokens: 10, OutputTokens: 5},
		`"models": {"requests": 2, "tokens": {"input": 0, "output": 0}, "uncounted": 2, "cost": null}, "session_digest": {"tool_call_count": 0}`: nil,
	} {
		got, err := results.ReadOutline(strings.NewReader(head + `{"test_id": "a", "runs": [{"outcome": "pass", ` + members + `}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Tasks[0].Trials[0].Models()); diff != "" {
			t.Error(diff)
		}
	}
}

// What upstream waza writes is read too: it has neither outcomes nor MCP calls.
func TestOutlineOfUpstream(t *testing.T) {
	got, err := results.ReadOutline(strings.NewReader(`{
		"eval_id": "run-1", "skill": "s", "eval_name": "demo", "config": {"model_id": "gpt", "engine_type": "copilot-sdk", "runs_per_test": 2},
		"summary": {"total_tests": 1, "usage": {"input_tokens": 9}},
		"tasks": [{"test_id": "a", "display_name": "A", "status": "failed", "stats": {"pass_rate": 0.5},
			"runs": [
				{"run_number": 1, "status": "passed", "duration_ms": 1500, "session_digest": {"tool_call_count": 2, "tools_used": [], "usage": {"turns": 2, "input_tokens": 10, "output_tokens": 5}}, "transcript": [{"type": "x"}]},
				{"run_number": 2, "status": "error", "duration_ms": 20, "session_digest": null, "error_msg": "x"}
			]}],
		"metrics": null}`))
	if err != nil {
		t.Fatal(err)
	}
	want := results.Outline{EvalName: "demo", OutlineConfig: results.OutlineConfig{Agent: "copilot-sdk", Model: "gpt"}, Tasks: []results.TaskOutline{{ID: "a", Trials: []results.TrialOutline{
		{Outcome: evidence.ClassPass, Status: results.StatusPassed, DurationMS: 1500, SessionOutline: results.SessionOutline{Usage: &results.ModelFigures{InputTokens: 10, OutputTokens: 5}}},
		{Outcome: evidence.ClassError, Status: results.StatusError, DurationMS: 20},
	}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

const head = `{"eval_name": "x", "tasks": [`

func TestHostileResults(t *testing.T) {
	heavytest.Mark(t)
	tests := []struct{ name, text, want string }{
		{"empty", ``, "unexpected EOF"},
		{"cut off", head + `{"test_id": "a", "runs": [{"st`, "unexpected EOF"},
		{"no object", `[]`, "instead of an object at /"},
		{"no tasks", `{}`, "it names no tasks"},
		{"two of them", head + `]}{}`, "unexpected data after its end"},
		{"task without a name", head + `{}]}`, "a task has no test_id"},
		{"tasks of one name", head + `{"test_id": "a"}, {"test_id": "a"}]}`, "two tasks are called a"},
		{"unknown outcome", head + `{"test_id": "a", "runs": [{"outcome": "won"}]}]}`, `"won" is not the outcome`},
		{"unknown status", head + `{"test_id": "a", "runs": [{"status": "won"}]}]}`, `"won" is not the outcome`},
		{"no outcome", head + `{"test_id": "a", "runs": [{}]}]}`, `"" is not the outcome`},
		{"negative time", head + `{"test_id": "a", "runs": [{"outcome": "pass", "duration_ms": -1}]}]}`, `-1 is not a count`},
		{"endless time", head + `{"test_id": "a", "runs": [{"outcome": "pass", "duration_ms": 1e99}]}]}`, "found 1e99 instead of a count at /tasks/0/runs/0/duration_ms"},
		{"endless cost", head + `{"test_id": "a", "runs": [{"outcome": "pass", "models": {"cost": 1e999}}]}]}`, "found 1e999 instead of an amount at /tasks/0/runs/0/models/cost"},
		{"name that is none", head + `{"test_id": {"a": "b"}}]}`, "found { instead of a text at /tasks/0/test_id"},
		{"too deep", `{"more": ` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "exceeded max depth"},
		{"a long string", `{"more": "` + strings.Repeat("x", 65<<20) + `"}`, "a value is longer than 64 MiB"},
		{"a long name", head + `{"test_id": "` + strings.Repeat("x", 65<<20) + `"}]}`, "a value is longer than 64 MiB"},
		{"space without end", `{` + strings.Repeat(" ", 65<<20) + `}`, "a value is longer than 64 MiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := results.ReadOutline(strings.NewReader(test.text))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// A long file of short values is read whole.
func TestLongResults(t *testing.T) {
	heavytest.Mark(t)
	filler := strings.Repeat(`{"text": "some of the transcript"},`, 1<<12)
	text := head + `{"test_id": "a", "runs": [{"outcome": "pass", "transcript": [` + strings.Repeat(filler, 512) + `0]}]}]}`
	got, err := results.ReadOutline(strings.NewReader(text))
	if err != nil || len(text) < 65<<20 || len(got.Tasks) != 1 || len(got.Tasks[0].Trials) != 1 {
		t.Errorf("%d bytes: %+v, %v", len(text), got, err)
	}
}

func FuzzReadOutline(f *testing.F) {
	sample, err := os.ReadFile("testdata/results.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sample)
	f.Add([]byte(head + `{"test_id": "a\u001b[31m\u202e", "runs": [{"status": "passed", "duration_ms": 3, "models": {"cost": 0.5}}]}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := results.ReadOutline(bytes.NewReader(text))
		if err != nil {
			return
		}
		c := results.Compare([]results.Entry{{Outline: read}, {Outline: results.Outline{}}, {Outline: read}})
		if _, err := json.Marshal(c); err != nil {
			t.Fatal(err)
		}
		var table strings.Builder
		if err := terminal.Comparison(&table, c, 80); err != nil {
			t.Fatal(err)
		}
		if err := terminal.Pairs(&table, c, 80); err != nil {
			t.Fatal(err)
		}
		if at := strings.IndexFunc(table.String(), func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 }); at >= 0 {
			t.Fatalf("a control character in %q", table.String())
		}
	})
}
