package results_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/results"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func trial(task string, number, attempt int, class evidence.Class, scores ...float64) results.Trial {
	t := results.Trial{Trial: evidence.Trial{
		Task: task, Number: number, Attempt: attempt, FinalOutput: "Done.",
		Started: epoch, AgentStart: epoch.Add(time.Second), AgentEnd: epoch.Add(2500 * time.Millisecond), Ended: epoch.Add(time.Minute),
	}}
	t.Verdicts = evidence.Verdicts{Class: class}
	if class != evidence.ClassPass {
		t.Verdicts.Message = "because of " + string(class)
	}
	for i, score := range scores {
		result := evidence.VerdictPass
		if score < 1 {
			result = evidence.VerdictFail
		}
		t.Verdicts.Verdicts = append(t.Verdicts.Verdicts, evidence.Verdict{
			Name: string(rune('a' + i)), Type: []string{"text", "behavior"}[i%2], Result: result, Score: score, Weight: float64(i + 1),
			Feedback: "said so", Details: map[string]any{"calls": []int{1}},
		})
	}
	return t
}

// session is a trial that used tools of every source.
func session() results.Trial {
	t := trial("first", 1, 1, evidence.ClassPass, 1, 1)
	yes := true
	t.Servers = []evidence.ServerRecord{{Name: "inventory"}, {Name: "web"}}
	t.Calls = []evidence.Call{
		{
			Seq: 1, Server: "inventory", ID: json.RawMessage(`"x"`), Tool: "list", Arguments: json.RawMessage(`{"n":9007199254740993,"path":"a"}`),
			Result:  evidence.NewResult(json.RawMessage(`{"content":[{"type":"text","text":"one"},{"type":"image"},{"type":"text","text":"two"}]}`)),
			Outcome: evidence.OutcomeOK, Start: epoch, End: epoch.Add(12 * time.Millisecond),
		},
		{
			Seq: 2, Server: "inventory", ID: json.RawMessage(`7`), Tool: "add", Arguments: json.RawMessage(`{}`),
			Error: json.RawMessage(`{"code":-32602,"message":"no such item"}`), Outcome: evidence.OutcomeProtocolError, Start: epoch, End: epoch,
		},
		{Seq: 3, Server: "inventory", ID: json.RawMessage(`8`), Tool: "add", Arguments: json.RawMessage(`{}`), Outcome: evidence.OutcomeTransportError, Start: epoch},
	}
	t.Narration = &evidence.Narration{
		Reported: 1, Tools: map[string][]string{"inventory": {"add", "list"}, "web": {}}, Unreported: []int{2, 3},
	}
	t.Transcript = []evidence.TranscriptEvent{
		{Type: "assistant.message", Content: "Looking."},
		{Type: "tool.execution_start", ToolCallID: "1", ToolName: "mcp__inventory__list"},
		{Type: "tool.execution_start", ToolCallID: "2", ToolName: "run_command", Arguments: json.RawMessage(`{"command":"ls"}`)},
		{Type: "tool.execution_complete", ToolCallID: "2", Success: &yes, ToolResult: json.RawMessage(`"a.txt"`)},
	}
	return t
}

func run() results.Run {
	return results.Run{
		Results: results.Results{
			EvalID: "20260102-030405-demo", EvalName: "demo", Skill: "inventory", Timestamp: epoch,
			Config: results.Config{ModelID: "m", EngineType: "script", TimeoutSec: 90, RunsPerTest: 2, Isolated: true},
			Tasks:  []results.Task{{TestID: "first", DisplayName: "First of all"}, {TestID: "second"}, {TestID: "third"}},
		},
		Ended: epoch.Add(3 * time.Minute),
		Specs: []results.MetricSpec{{Name: "task_completion", Weight: 0.5, Threshold: 0.25}, {Name: "behavior_quality", Weight: 0.5, Threshold: 0.9}},
	}
}

func build(t *testing.T, run results.Run, trials ...results.Trial) results.Results {
	t.Helper()
	b := results.NewBuilder(run)
	for _, trial := range trials {
		if err := b.Add(trial); err != nil {
			t.Fatal(err)
		}
	}
	return b.Results()
}

// written is results.json of trials.
func written(t *testing.T, run results.Run, trials ...results.Trial) []byte {
	t.Helper()
	var out bytes.Buffer
	err := build(t, run, trials...).Write(&out, func(task string, number int) (results.Trial, error) {
		var last results.Trial
		for _, trial := range trials {
			if trial.Task == task && trial.Number == number {
				last = trial
			}
		}
		return last, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestGolden(t *testing.T) {
	again := trial("second", 1, 2, evidence.ClassFail, 0.5, 1)
	again.Earlier = []evidence.Trial{{Attempt: 1, Class: evidence.ClassInfra, Message: "because of infra"}}
	trials := []results.Trial{
		session(),
		trial("first", 2, 1, evidence.ClassPass, 1, 1),
		again,
		trial("second", 2, 1, evidence.ClassTimeout, 0, 1),
	}
	data := written(t, run(), trials...)
	golden.Check(t, "testdata/results.json", string(data))

	var table bytes.Buffer
	if err := terminal.Run(&table, build(t, run(), trials...), 80); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/table.txt", table.String())

	slices.Reverse(trials)
	if !bytes.Equal(data, written(t, run(), trials...)) {
		t.Error("the order of trials changes the results")
	}
}

func TestTaskOfNoRun(t *testing.T) {
	if err := results.NewBuilder(run()).Add(trial("fourth", 1, 1, evidence.ClassPass)); err == nil {
		t.Error("no error")
	}
}

func TestStatusAndExitCode(t *testing.T) {
	const pass, fail = evidence.ClassPass, evidence.ClassFail
	for _, test := range []struct {
		name    string
		classes []evidence.Class
		status  results.Status
		rate    float64
		exit    int
	}{
		{"none ran", nil, results.StatusNone, 0, 3},
		{"all pass", []evidence.Class{pass, pass}, results.StatusPassed, 1, 0},
		{"one fails", []evidence.Class{pass, fail}, results.StatusFailed, 0.5, 1},
		{"one fails, one times out", []evidence.Class{evidence.ClassTimeout, fail}, results.StatusFailed, 0, 1},
		{"one times out", []evidence.Class{evidence.ClassTimeout, pass}, results.StatusError, 0.5, 1},
		{"the agent breaks", []evidence.Class{evidence.ClassAgentError}, results.StatusError, 0, 1},
		{"evidence is missing", []evidence.Class{evidence.ClassError}, results.StatusError, 0, 1},
		{"infra is not counted", []evidence.Class{pass, evidence.ClassInfra}, results.StatusPassed, 1, 3},
		{"infra alone", []evidence.Class{evidence.ClassInfra, evidence.ClassInfra}, results.StatusError, 0, 3},
		{"infra, and one to go", []evidence.Class{evidence.ClassInfra}, results.StatusNone, 0, 3},
		{"one passed, and one to go", []evidence.Class{pass}, results.StatusNone, 1, 0},
		{"one failed, and one to go", []evidence.Class{fail}, results.StatusFailed, 0, 1},
		{"a server broke, and one to go", []evidence.Class{evidence.ClassServerError}, results.StatusError, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := run()
			r.Specs, r.Tasks = nil, r.Tasks[:1]
			var trials []results.Trial
			for i, class := range test.classes {
				trials = append(trials, trial("first", i+1, 1, class))
			}
			got := build(t, r, trials...)
			rate := 0.0
			if stats := got.Tasks[0].Stats; stats != nil {
				rate = stats.PassRate
			}
			if got.Tasks[0].Status != test.status || rate != test.rate || got.ExitCode(0, false) != test.exit {
				t.Errorf("status %s, rate %v, exit %d; want %s, %v, %d",
					got.Tasks[0].Status, rate, got.ExitCode(0, false), test.status, test.rate, test.exit)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	r := run()
	got := build(t, r, trial("first", 1, 1, evidence.ClassFail, 1, 0.5), trial("second", 1, 1, evidence.ClassPass))
	if m := got.Metrics["behavior_quality"]; m.Value != 0.5 || m.Passed || got.ExitCode(0, false) != 1 {
		t.Errorf("under its threshold: %+v, exit %d", m, got.ExitCode(0, false))
	}
	got = build(t, r, trial("first", 1, 1, evidence.ClassPass, 1))
	if _, ok := got.Metrics["behavior_quality"]; ok || got.ExitCode(0, false) != 0 {
		t.Errorf("nothing to measure: %+v, exit %d", got.Metrics, got.ExitCode(0, false))
	}
	// One trial of first is missing, and both of the others: no task has ended.
	if m, ok := got.Metrics["task_completion"]; ok || got.Summary.SuccessRate != 0 || got.Summary.PassedTasks() != nil {
		t.Errorf("task_completion: %+v", m)
	}
	// A trial that did not pass decides a task, so two have ended.
	got = build(t, r, trial("first", 1, 1, evidence.ClassPass, 1), trial("first", 2, 1, evidence.ClassPass, 1), trial("second", 1, 1, evidence.ClassFail))
	passed := got.Summary.PassedTasks()
	if m, rate := got.Metrics["task_completion"], got.Summary.SuccessRate; m.Value != 0.5 || rate != 0.5 || !m.Passed || passed.Count != 1 || passed.Of != 2 {
		t.Errorf("task_completion: %+v, passed %+v", m, passed)
	}
}

func TestTableWidth(t *testing.T) {
	r := run()
	r.Tasks = []results.Task{{TestID: "a-task-with-quite-a-long-name-that-does-not-fit-in-the-column-at-all"}, {TestID: "b"}}
	long, short := r.Tasks[0].TestID, r.Tasks[1].TestID
	got := build(t, r, trial(long, 1, 1, evidence.ClassTimeout), trial(long, 2, 1, evidence.ClassAgentError), trial(short, 1, 1, evidence.ClassPass))
	for name, width := range map[string]int{"table-72.txt": 72, "table-wide.txt": 0} {
		var table bytes.Buffer
		if err := terminal.Run(&table, got, width); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/"+name, table.String())
	}
}

// A task is flaky by first attempts, however later ones end.
func TestCountedFlaky(t *testing.T) {
	t.Parallel()
	again := results.RunResult{Outcome: evidence.ClassPass, Earlier: []results.Attempt{{Outcome: evidence.ClassInfra}, {Outcome: evidence.ClassFail}}}
	r := results.Results{Tasks: []results.Task{{Runs: []results.RunResult{again, {Outcome: evidence.ClassPass}}}, {Runs: []results.RunResult{{Outcome: evidence.ClassFail}}}}}
	if c := r.Counted(); c.Trials != 3 || c.Passed != 2 || c.Failed != 1 || c.Flaky != 1 {
		t.Errorf("counted %+v", c)
	}
}

// A trial that a server kept from being made counts against the server and in no rate of the
// agent's; the run has failed.
func TestServerError(t *testing.T) {
	broke := trial("first", 2, 1, evidence.ClassServerError)
	broke.FailedServer = "stock"
	r := build(t, run(), trial("first", 1, 1, evidence.ClassPass, 1), broke)
	first := r.Tasks[0]
	if first.Status != results.StatusError || first.Stats.TotalRuns != 1 || first.Stats.PassRate != 1 || r.ExitCode(0, false) != 1 {
		t.Errorf("%s, %+v, exit %d", first.Status, first.Stats, r.ExitCode(0, false))
	}
	if len(r.Servers) != 1 || r.Servers[0].Failed != 1 || r.Servers[0].Trials != 0 {
		t.Errorf("servers %+v", r.Servers)
	}
	if c := r.Counted(); c.Trials != 1 || c.Passed != 1 || c.Tasks != 1 || c.Failed+c.Flaky+len(c.Others) != 0 {
		t.Errorf("counted %+v", c)
	}
	var table bytes.Buffer
	if err := terminal.Run(&table, r, 0); err != nil || !strings.Contains(table.String(), "server stock: its crash ended 1 trial") {
		t.Errorf("%s, %v", table.String(), err)
	}
}
