package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// everyAgent is the executors that use models.
func everyAgent() []string { return append(adapter.Names(), "llm") }

// TestAgents_Every runs the example with every agent, but for a task that TestAgents_Keys runs. They name tools differently, but make the
// same calls and get the same grades. Their transcripts match, every call was requested by the
// model, and each agent finds the skills.
func TestAgents_Every(t *testing.T) {
	t.Parallel()
	p := newAgentsProject(t)
	c := p.start("run", "--isolate", "--executor", strings.Join(everyAgent(), ","), "--run-dir", "runs", "--format", "json", "eval.yaml", "--task", "files", "--task", "http", "--task", "error").waitFor(exitOK, time.Duration(len(everyAgent()))*runLimit)
	var all results.Comparison
	if err := json.Unmarshal([]byte(c.stdout.String()), &all); err != nil || len(all.Runs) != len(everyAgent()) || len(all.Differences) > 0 {
		t.Fatalf("%d runs, %v: %s", len(all.Runs), err, c.stdout.String())
	}
	first := seen(t, p.path(all.Runs[0].Path))
	names := map[string]bool{}
	for _, run := range all.Runs {
		t.Run(run.Agent, func(t *testing.T) {
			if run.Passed != 3 || run.MCPCalls != 5 || run.Models == nil || run.Models.Cost == nil || run.Models.OutputTokens == 0 {
				t.Errorf("in the comparison: %+v", run)
			}
			own := seen(t, p.path(run.Path))
			if diff := cmp.Diff(first, own, cmpopts.IgnoreFields(behaviour{}, "Names")); diff != "" {
				t.Errorf("otherwise than %s (-%[1]s +%s):\n%s", all.Runs[0].Agent, run.Agent, diff)
			}
			names[own["files"].Names[0]] = true
			if asked := p.read(run.Path, "trials", "files", "1", evidence.ModelsFile); !strings.Contains(asked, skillSays) {
				t.Error("the model is not told of the skill")
			}
			checkAltered(t, p, run.Path)
		})
	}
	if len(names) < 3 {
		t.Errorf("agents call the same tool %q: does this test test anything?", slices.Sorted(maps.Keys(names)))
	}
}

// TestAgents_Faults checks that two agents get a tool's error and a model's refusal to go on at once that waza
// makes, and that each asks its model again.
func TestAgents_Faults(t *testing.T) {
	t.Parallel()
	p := newAgentsProject(t)
	p.write("faults.yaml", `
faults:
  - {server: web, tool: echo, nth: 1, fault: tool_error, message: out of order}
  - {model: stub, nth: 1, fault: rate_limit}
`)
	two := []string{"claude", "codex"}
	p.start("run", "--isolate", "--executor", strings.Join(two, ","), "--run-dir", "runs", "--faults", "faults.yaml", "--task", "http", "eval.yaml").waitFor(exitFailed, time.Duration(len(two))*runLimit)
	for i, agent := range two {
		run := fmt.Sprintf("runs/%d-%s", i+1, agent)
		dir := evidence.Dir(p.path(run, "trials", "http", "1"))
		calls, err := dir.Calls()
		failed := slices.IndexFunc(calls, func(c evidence.Call) bool { return c.Fault == evidence.FaultToolError })
		if err != nil || failed < 0 || calls[failed].Outcome != evidence.OutcomeToolError {
			t.Errorf("%s: calls %+v, %v", agent, calls, err)
		}
		var faults []evidence.FaultKind
		for call, err := range dir.ModelCalls() {
			if err != nil {
				t.Fatal(err)
			}
			if call.IsTurn() {
				faults = append(faults, call.Fault)
			}
		}
		if len(faults) < 3 || faults[0] != evidence.FaultRateLimit || slices.Contains(faults[1:], evidence.FaultRateLimit) {
			t.Errorf("%s: model calls with faults %q", agent, faults)
		}
		if trial := p.resultsIn(run).Tasks[0].Runs[0]; !trial.Outcome.OfAgent() || !strings.Contains(trial.FinalOutput, "out of order") {
			t.Errorf("%s: %s, %s, %q", agent, trial.Outcome, trial.Message, trial.FinalOutput)
		}
	}
}

// skillSays is the description of the skill in newAgentsProject.
const skillSays = "Tells of zephyr tides in the harbour."

// newAgentsProject returns the example with its own name and a skill. It needs the images of
// all agents.
func newAgentsProject(t *testing.T) *project {
	t.Helper()
	p := newProject(t, "", npmServers)
	if err := os.CopyFS(p.dir, os.DirFS("../../examples/agents")); err != nil {
		t.Fatal(err)
	}
	p.write("skills/tides/SKILL.md", "---\nname: tides\ndescription: "+skillSays+"\n---\nRead the table.\n")
	changes := strings.NewReplacer("name: agents", "name: "+p.name, "\nconfig:\n", "\nconfig:\n  skill_directories: [skills]\n",
		"timeout_seconds: 120", "timeout_seconds: 600") // many start at once, on few processors
	p.write("eval.yaml", changes.Replace(p.read("eval.yaml")))
	plan := p.start("run", "--isolate", "--executor", strings.Join(everyAgent(), ","), "--task", "files", "--dry-run", "eval.yaml").wait(exitOK)
	images := regexp.MustCompile(`image (waza-agent:\S+),`).FindAllStringSubmatch(plan.stdout.String(), -1)
	if len(images) != len(adapter.Names()) {
		t.Fatalf("%d images of agents in the plan:\n%s", len(images), plan.stdout.String())
	}
	for _, image := range images {
		dockertest.Image(t, image[1])
	}
	return p
}

// behaviour is what is observed of an agent in a trial.
type behaviour struct {
	Outcome  evidence.Class
	Verdicts map[string]evidence.VerdictResult
	Scores   map[string]float64
	Calls    []string // server, tool and arguments, sorted
	Names    []string // by which the agent told of them, in its order
}

// seen returns what is observed in each trial of a run. It fails the test if transcript and
// record differ, or the model did not request a call.
func seen(t *testing.T, run string) map[string]behaviour {
	t.Helper()
	dirs, err := runner.Trials(run)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]behaviour{}
	for _, dir := range dirs {
		task := filepath.Base(filepath.Dir(string(dir)))
		all[task] = seenIn(t, dir)
	}
	return all
}

func seenIn(t *testing.T, dir evidence.Dir) behaviour {
	t.Helper()
	verdicts, err := dir.Verdicts()
	if err != nil {
		t.Fatal(err)
	}
	b := behaviour{Outcome: verdicts.Class, Verdicts: map[string]evidence.VerdictResult{}, Scores: map[string]float64{}}
	for _, v := range verdicts.Verdicts {
		b.Verdicts[v.Name], b.Scores[v.Name] = v.Result, v.Score
	}
	calls, err := dir.Calls()
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		arguments, ok := jsontext.Canonical(call.Arguments)
		if !ok {
			t.Fatalf("%s: call %d has the arguments %s", dir, call.Seq, call.Arguments)
		}
		b.Calls = append(b.Calls, call.Server+" "+call.Tool+" "+arguments)
		if call.Origin != evidence.OriginModel || call.Turn == 0 {
			t.Errorf("%s: call %d of %s: origin %q, turn %d", dir, call.Seq, call.Tool, call.Origin, call.Turn)
		}
	}
	slices.Sort(b.Calls)
	narration, err := dir.Narration()
	if err != nil || narration.Reported != len(calls) || !narration.Agrees() || len(narration.Gaps) > 0 {
		t.Errorf("%s: of %d calls the agent tells %+v, %v", dir, len(calls), narration, err)
	}
	transcript, err := dir.Transcript()
	if err != nil {
		t.Fatal(err)
	}
	for _, event := range transcript {
		if event.Type == "tool.execution_start" {
			b.Names = append(b.Names, event.ToolName)
		}
	}
	return b
}

// checkAltered removes a call from the agent's transcript, and checks that this is detected.
func checkAltered(t *testing.T, p *project, run string) {
	t.Helper()
	file := filepath.Join(run, "trials", "files", "1", evidence.TranscriptFile)
	lines := slices.DeleteFunc(strings.SplitAfter(p.read(file), "\n"), func(line string) bool {
		return strings.Contains(line, `"tool.execution_start"`) && strings.Contains(line, "edit_file")
	})
	p.write(file, strings.Join(lines, ""))
	c := p.start("grade", run).wait(exitFailed)
	if said := c.stdout.String(); !strings.Contains(said, `it does not report call 1 ("edit_file" of files: ok)`) {
		t.Errorf("grading an altered transcript says %s", said)
	}
}
