package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
)

// serverFaults and modelFaults are what agents get of each kind of fault.
var (
	serverFaults = map[evidence.FaultKind]evidence.Outcome{
		evidence.FaultToolError: evidence.OutcomeToolError, evidence.FaultError: evidence.OutcomeProtocolError, evidence.FaultKill: evidence.OutcomeTransportError,
		evidence.FaultDelay: evidence.OutcomeOK, evidence.FaultDrop: evidence.OutcomeTransportError, evidence.FaultTruncate: evidence.OutcomeTransportError,
		evidence.FaultInvalid: evidence.OutcomeTransportError, evidence.FaultWrongID: evidence.OutcomeTransportError, evidence.FaultSlow: evidence.OutcomeOK,
		evidence.FaultLate: evidence.OutcomeTimeout, evidence.FaultChanged: evidence.OutcomeOK,
	}
	modelFaults = map[evidence.FaultKind]string{
		evidence.FaultRateLimit: evidence.ModelRefused, evidence.FaultServerError: evidence.ModelRefused, evidence.FaultDelay: evidence.ModelOK,
		evidence.FaultStall: evidence.ModelCancelled, evidence.FaultCut: evidence.ModelTransport,
	}
)

// faultKinds returns the kinds of faults of servers or models. It fails the test if it is not known what agents get of one.
func faultKinds(t *testing.T, of cassette.Kind) []evidence.FaultKind {
	t.Helper()
	kinds := cassette.FaultKinds(of)
	for _, kind := range kinds {
		if serverFaults[kind] == "" && of == cassette.Servers || modelFaults[kind] == "" && of == cassette.Models {
			t.Fatalf("%s: what do agents get of the fault %s?", of, kind)
		}
	}
	return kinds
}

// faultyProject has a task for each kind of fault of servers, and of models.
func faultyProject(t *testing.T) *project {
	t.Helper()
	var tasks strings.Builder
	for _, kind := range faultKinds(t, cassette.Servers) {
		delay := ""
		if slices.Contains([]evidence.FaultKind{evidence.FaultDelay, evidence.FaultSlow, evidence.FaultLate}, kind) {
			delay = ", delay_ms: 200"
		}
		fmt.Fprintf(&tasks, `
-- tasks/server-%[1]s.yaml --
id: server-%[1]s
inputs: {prompt: What does it cost?}
faults: [{server: shop, tool: price, match: {arguments.sku: {regex: ^A}}, nth: 1, fault: %[1]s%[2]s}]
script:
  - call: {server: shop, tool: price, arguments: {sku: A-1}, expect: any}
  - call: {server: shop, tool: price, arguments: {sku: A-1}}
    as: last
  - say: "{{ last.text }}"
`, kind, delay)
	}
	for _, kind := range faultKinds(t, cassette.Models) {
		fmt.Fprintf(&tasks, `
-- tasks/model-%[1]s.yaml --
id: model-%[1]s
inputs: {prompt: What does it cost?}
timeout_seconds: %[2]d
faults: [{model: stub, nth: 1, fault: %[1]s}]
script: [{say: "5"}]
`, kind, map[bool]int{true: 5, false: 60}[kind == evidence.FaultStall])
	}
	return newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 60
  parallel: true
  executor: script
  models: {stub: {script: model.yaml}}
mcp_mocks:
  - {name: shop, tools: {price: {responses: [{match_regex: {sku: "."}, return: 5}]}}}
graders: [{type: text, name: answer, config: {contains: ["5"]}}]
tasks: [tasks/*.yaml]
-- model.yaml --
turns:
  - call: {tool: price, server: shop, arguments: {sku: A-1}}
  - call: {tool: price, server: shop, arguments: {sku: A-1}}
  - say: "{{ results[1] }}"
`+tasks.String())
}

// Every kind of fault reaches executors script and llm, is recorded as ours, and ends no trial as infra or
// server_error.
func TestFaultKinds(t *testing.T) {
	t.Parallel()
	p := faultyProject(t)
	p.startLocal().wait(exitOK)
	for kind, outcome := range serverFaults {
		checkFault(t, p.trial("server-"+string(kind)), kind, outcome)
	}
	p.start("run", "eval.yaml", "--executor", "llm", "--run-dir", "llm").wait(exitFailed) // for the one that stalls
	for _, task := range p.resultsIn("llm").Tasks {
		want := evidence.ClassPass
		if task.TestID == "model-stall" {
			want = evidence.ClassTimeout
		}
		if r := task.Runs[0]; r.Outcome != want || r.Faults != 1 {
			t.Errorf("%s: %s, %s, %d faults", task.TestID, r.Outcome, r.Message, r.Faults)
		}
		for _, server := range task.Runs[0].Servers {
			if len(server.Ends) > 0 || server.Outcomes[evidence.OutcomeOK] != server.Calls {
				t.Errorf("%s: the server is blamed: %+v", task.TestID, server)
			}
		}
	}
	for kind := range modelFaults {
		checkModelFault(t, evidence.Dir(p.path("llm", "trials", "model-"+string(kind), "1")), kind)
	}
	for kind, outcome := range serverFaults {
		checkFault(t, evidence.Dir(p.path("llm", "trials", "server-"+string(kind), "1")), kind, outcome)
	}
	said := p.start("show", "llm", "server-drop").wait(exitOK).stdout.String()
	if !strings.Contains(said, "fault: drop") || strings.Count(said, "fault: ") != 1 {
		t.Errorf("show says\n%s", said)
	}
}

func checkFault(t *testing.T, dir evidence.Dir, kind evidence.FaultKind, outcome evidence.Outcome) {
	t.Helper()
	calls, err := dir.Calls()
	if err != nil || len(calls) != 2 || calls[0].Fault != kind || calls[0].Outcome != outcome || calls[1].Fault != "" || calls[1].Outcome != evidence.OutcomeOK {
		t.Errorf("%s: calls %+v, %v", dir, calls, err)
	}
	checkFaultEvent(t, dir, "shop", kind)
}

// checkModelFault checks that one model call has the fault, and returns how many turns came after it.
func checkModelFault(t *testing.T, dir evidence.Dir, kind evidence.FaultKind) (after int) {
	t.Helper()
	n := 0
	for call, err := range dir.ModelCalls() {
		switch {
		case err != nil:
			t.Fatal(err)
		case call.Fault == kind && call.Outcome == modelFaults[kind]:
			n++
		case call.Fault != "":
			t.Errorf("%s: model call %d has the fault %s, and ended as %s", dir, call.Seq, call.Fault, call.Outcome)
		case call.IsTurn() && n > 0:
			after++
		}
	}
	if n != 1 {
		t.Errorf("%s: %d model calls have the fault", kind, n)
	}
	checkFaultEvent(t, dir, "stub", kind)
	return after
}

func checkFaultEvent(t *testing.T, dir evidence.Dir, where string, kind evidence.FaultKind) {
	t.Helper()
	events, err := dir.Events()
	made := slices.DeleteFunc(events, func(e evidence.Event) bool { return e.Kind != evidence.EventFault })
	if err != nil || len(made) != 1 || made[0].Where != where || made[0].Data["fault"] != string(kind) {
		t.Errorf("%s: events %+v, %v", dir, made, err)
	}
}

// A baseline runs every trial without faults, and results compare the two. --faults takes the place of all
// that is written, and a cassette's faults are made of what it plays.
func TestFaultsCompared(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  executor: script
  trials_per_task: 2
  faults: [{server: shop, fault: tool_error, message: out of order}]
mcp_mocks:
  - {name: shop, tools: {price: {responses: [{match: {}, return: 5}]}}}
tasks: [tasks/*.yaml]
graders: [{type: behavior, name: called, config: {max_mcp_calls: 9}}]
-- tasks/fragile.yaml --
id: fragile
inputs: {prompt: x}
script: [{call: {server: shop, tool: price}}]
-- tasks/none.yaml --
id: none
inputs: {prompt: x}
faults: []
script: [{call: {server: shop, tool: price}}]
-- faults.yaml --
faults: [{server: shop, nth: 1, fault: delay, delay_ms: 1}]
-- bad.yaml --
faults:
  - {server: shop, fault: dorp}
-- cassette/cassette.yaml --
version: 1
-- cassette/servers/shop.yaml --
entries:
- {kind: {tool: price}, times: 1, fault: drop}
`)
	said := p.startLocal("--baseline").wait(exitFailed).stdout.String()
	for _, want := range []string{"faults: of trials with 2 faults, 0 of 2 passed", "; without: 2 of 2 passed"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	f := p.results().Summary.Faults
	if f == nil || f.Made != 2 || f.With.Count != 0 || f.Without.Count != 2 || f.Without.Of != 2 {
		t.Errorf("results have %+v", f)
	}
	r := p.results().Tasks[0].Runs[0]
	if r.Outcome != evidence.ClassFail || r.Reason != evidence.ReasonFault || !strings.Contains(r.Message, "waza made the fault tool_error of this call") {
		t.Errorf("%s, %s, %s", r.Outcome, r.Reason, r.Message)
	}
	before := p.read("run", "results.json")
	p.start("grade", "run").wait(exitFailed)
	if p.read("run", "results.json") != before {
		t.Error("grading again gives other results")
	}
	p.start("run", "eval.yaml", "--run-dir", "off", "--faults", "none").wait(exitOK)
	if p.resultsIn("off").Summary.Faults != nil {
		t.Error("--faults none makes faults")
	}
	compared := p.start("compare", "off", "run").wait(exitOK).stdout.String()
	if !strings.Contains(compared, "faults") {
		t.Errorf("compare does not say that faults differ:\n%s", compared)
	}
	p.start("run", "eval.yaml", "--run-dir", "file", "--faults", "faults.yaml").wait(exitOK)
	if f := p.resultsIn("file").Summary.Faults; f == nil || f.Made != 4 {
		t.Errorf("with a file, results have %+v", f)
	}
	p.start("run", "eval.yaml", "--run-dir", "played", "--task", "none", "--cassette", "cassette").wait(exitFailed)
	if r := p.resultsIn("played").Tasks[0].Runs[0]; r.Reason != evidence.ReasonFault || !strings.Contains(r.Message, "the fault drop") {
		t.Errorf("with the cassette: %s, %s", r.Outcome, r.Message)
	}
	bad := p.start("run", "eval.yaml", "--run-dir", "bad", "--faults", "bad.yaml").wait(exitUsage).stderr.String()
	if !strings.Contains(bad, "bad.yaml:2") || !strings.Contains(bad, `did you mean "drop"?`) {
		t.Error(bad)
	}
}
