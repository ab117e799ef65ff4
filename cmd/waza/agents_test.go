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
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// everyAgent is the executors that use models.
func everyAgent() []string { return append(adapter.Names(), "llm") }

// TestAgents_Every runs the example with every agent, but for a task that TestAgents_Keys runs. They name tools differently, but make the
// same calls and get the same grades. Their transcripts match, every call was requested by the
// model, and each agent finds the skills. Their runs play.
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
			p := p.in(t)
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
			checkPlays(t, p, run.Path, run.Agent, own)
			checkAltered(t, p, run.Path)
		})
	}
	if len(names) < 3 {
		t.Errorf("agents call the same tool %q: does this test test anything?", slices.Sorted(maps.Keys(names)))
	}
}

// checkPlays checks that tasks of an agent's run play, servers and model, from the cassette that is made of it. Agents make
// parallel calls in any order.
func checkPlays(t *testing.T, p *project, run, agent string, live map[string]behaviour) {
	t.Helper()
	recorded, played := "recorded-"+agent, "played-"+agent
	p.start("record", run, "-o", recorded).wait(exitOK)
	p.start("run", "--isolate", "--executor", agent, "--cassette", recorded, "--run-dir", played, "--task", "files", "--task", "http", "eval.yaml").wait(exitOK)
	want := map[string]behaviour{"files": live["files"], "http": live["http"]}
	if diff := cmp.Diff(want, seen(t, p.path(played)), cmpopts.IgnoreFields(behaviour{}, "Names")); diff != "" {
		t.Errorf("played (-live +played):\n%s", diff)
	}
	for _, trial := range p.trialsOf(played, len(want)) {
		for call, err := range evidence.Dir(p.path(played, "trials", trial)).ModelCalls() {
			if err != nil || call.IsTurn() && !call.Played {
				t.Errorf("%s: model call %d was not played, %v", trial, call.Seq, err)
			}
		}
	}
}

// TestAgents_Faults checks that faults of every kind reach two agents, that they are on record as waza's, that graders and the
// server's figures blame nobody for them, and that the agent goes on.
func TestAgents_Faults(t *testing.T) {
	t.Parallel()
	p := newAgentsProject(t)
	going, waiting := p.writeFaults()
	two := []string{"claude", "codex"}
	start := func(dir string, tasks []string) *command {
		args := []string{"run", "--isolate", "--executor", strings.Join(two, ","), "--workers", "2", "--run-dir", dir, "eval.yaml"}
		for _, task := range tasks {
			args = append(args, "--task", task)
		}
		return p.start(args...)
	}
	// Trials that wait need no processor, so they have workers of their own.
	goes, waits := start("going", going), start("waiting", waiting)
	limit := time.Duration(len(two)) * runLimit
	goes.waitFor(exitOK, limit)
	waits.waitFor(exitFailed, limit)
	for i, agent := range two {
		for dir, tasks := range map[string][]string{"going": going, "waiting": waiting} {
			run := fmt.Sprintf("%s/%d-%s", dir, i+1, agent)
			all := p.resultsIn(run)
			if len(all.Tasks) != len(tasks) {
				t.Errorf("%s: %d tasks, want %d", run, len(all.Tasks), len(tasks))
			}
			for _, task := range all.Tasks {
				t.Run(agent+"/"+task.TestID, func(t *testing.T) {
					checkGoesOn(t, evidence.Dir(p.path(run, "trials", task.TestID, "1")), task.TestID, task.Runs[0], slices.Contains(waiting, task.TestID))
				})
			}
		}
	}
}

// writeFaults writes a task for each kind of fault, and returns the names of those in which agents go on, and of those in
// which they wait: they get no sign that anything is wrong, and have no limit of their own that is shorter than the trial's.
func (p *project) writeFaults() (going, waiting []string) {
	p.t.Helper()
	of := func(side cassette.Kind, which string) {
		for _, kind := range faultKinds(p.t, side) {
			task, limit, more := strings.TrimSuffix(string(side), "s")+"-"+string(kind), 600, ""
			switch kind {
			case evidence.FaultStall, evidence.FaultWrongID:
				waiting, limit = append(waiting, task), 30
			case evidence.FaultDelay, evidence.FaultSlow, evidence.FaultLate:
				more = ", delay_ms: 300"
				fallthrough
			default:
				going = append(going, task)
			}
			p.write("tasks/"+task+".yaml", fmt.Sprintf(`
id: %s
timeout_seconds: %d
mcp_servers: {web: {command: mcp-server-everything, args: [stdio]}}
faults: [{%s, fault: %s%s}]
inputs: {prompt: "Let the server web echo héllo wörld and add 2 and 40, and say both."}
graders:
  - {type: recovery, name: recovery}
  - type: mcp_compliance
    name: blameless
    config: {server: web, max_tool_errors: 0, wire: {unbacked_claims: fail, unreported_calls: fail}}
`, task, limit, which, kind, more))
		}
	}
	of(cassette.Servers, "server: web, tool: echo, nth: 1")
	of(cassette.Models, "model: stub, nth: 2")
	return going, waiting
}

// checkGoesOn checks a trial with a fault, of a task of writeFaults.
func checkGoesOn(t *testing.T, dir evidence.Dir, task string, r results.RunResult, waits bool) {
	t.Helper()
	side, name, _ := strings.Cut(task, "-")
	kind := evidence.FaultKind(name)
	calls, err := dir.Calls()
	if err != nil {
		t.Fatal(err)
	}
	broken := slices.DeleteFunc(calls, func(c evidence.Call) bool { return c.Fault == "" })
	if side == "server" {
		if len(broken) == 0 || len(broken) > 1 && kind != evidence.FaultKill { // which the parallel call may have too
			t.Errorf("%d calls have the fault", len(broken))
		}
		for _, call := range broken {
			if call.Fault != kind || call.Outcome != serverFaults[kind] {
				t.Errorf("%s has the fault %s, and ended as %s", call.Tool, call.Fault, call.Outcome)
			}
		}
		checkFaultEvent(t, dir, "web", kind)
	} else if after := checkModelFault(t, dir, kind); len(broken) > 0 || (after > 0) != (kind != evidence.FaultDelay && !waits) {
		t.Errorf("%d turns after the fault, and calls with faults: %+v", after, broken)
	}
	want := evidence.ClassPass
	if waits {
		want = evidence.ClassTimeout
	}
	if r.Outcome != want || r.Faults != max(1, len(broken)) || len(r.Validations) != 2 || (r.FinalOutput == "") != waits {
		t.Errorf("%s, %s, %d faults, %q, %+v", r.Outcome, r.Message, r.Faults, r.FinalOutput, r.Validations)
	}
	for _, s := range r.Servers {
		if len(s.Ends) > 0 || s.Outcomes[evidence.OutcomeOK]+s.Outcomes[evidence.OutcomeCancelled] != s.Calls {
			t.Errorf("the server is blamed: %+v", s)
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
	if err != nil || narration.Reported != len(calls) || capture.Describe(narration, calls) != nil || len(narration.Gaps) > 0 {
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
