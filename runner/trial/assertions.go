package trial

import (
	_ "embed"
	"encoding/json"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/results"
)

// The scripts that evaluate assertions. They are passed as arguments of their interpreters, not
// as files, so that the workspace cannot replace them.
var (
	//go:embed assertions.py
	pythonScript string
	//go:embed assertions.js
	javascriptScript string
)

// assertionArgs returns the arguments for the interpreter of a language to evaluate the
// assertions that it reads from stdin. Python's -I keeps it from importing modules from the
// working directory, the environment and the user's packages.
func assertionArgs(language string) []string {
	if language == grading.JavaScript {
		return []string{"--eval", javascriptScript}
	}
	return []string{"-I", "-c", pythonScript}
}

// assertionInput is the input of the scripts, as JSON.
type assertionInput struct {
	Variables  assertionVariables `json:"variables"`
	Assertions []string           `json:"assertions"`
}

// assertionVariables are the variables of assertions, with upstream's names.
type assertionVariables struct {
	Output     string                    `json:"output"`
	Outcome    assertionOutcome          `json:"outcome"`
	Transcript []results.TranscriptEvent `json:"transcript"`
	ToolCalls  []assertionCall           `json:"tool_calls"`
	Errors     []string                  `json:"errors"`
	DurationMS int64                     `json:"duration_ms"`
	Workspace  string                    `json:"workspace"`
}

// assertionOutcome is how the agent's run ended.
type assertionOutcome struct {
	Class    evidence.Class  `json:"class"` // timeout, agent_error or ""
	Reason   evidence.Reason `json:"reason"`
	ExitCode *int            `json:"exit_code"`
}

// assertionCall is a captured call, or the use of a built-in tool according to the transcript.
type assertionCall struct {
	Name      string              `json:"name"`
	Source    string              `json:"source"`
	Server    string              `json:"mcp_server"`
	Arguments json.RawMessage     `json:"arguments"`
	Result    *results.ToolResult `json:"result"`
	Success   bool                `json:"success"`
}

// assertionsOver returns the input of the assertions. It is read from the evidence on disk,
// except for the outcome and the output, so that the evidence shows what the assertions saw.
func (p *programs) assertionsOver(assertions []string, workspace string) ([]byte, error) {
	captured, err := p.captured()
	if err != nil {
		return nil, err
	}
	transcript, err := evidence.Dir(p.rec.Dir()).Transcript()
	if err != nil {
		return nil, err
	}
	record := p.trial
	v := assertionVariables{
		Output: record.FinalOutput, Workspace: workspace, Transcript: []results.TranscriptEvent{},
		Outcome:   assertionOutcome{Class: record.Class, Reason: record.Reason, ExitCode: record.ExitCode},
		ToolCalls: []assertionCall{}, Errors: []string{},
	}
	if took, known := record.AgentTime(); known {
		v.DurationMS = took.Milliseconds()
	}
	for _, e := range transcript {
		v.Transcript = append(v.Transcript, results.TranscriptEventOf(e))
	}
	if record.Message != "" {
		v.Errors = append(v.Errors, record.Message)
	}
	var servers []string
	for _, s := range p.plan.Servers {
		servers = append(servers, s.Name)
	}
	paired := capture.Pair(capture.Tools(servers, captured), captured.Calls, transcript)
	if err := paired.Err(); err != nil {
		return nil, err
	}
	for _, use := range paired.Counted() {
		call, err := assertionCallOf(use)
		if err != nil {
			return nil, err
		}
		v.ToolCalls = append(v.ToolCalls, call)
	}
	return json.Marshal(assertionInput{v, assertions})
}

func assertionCallOf(use capture.Use) (assertionCall, error) {
	result, err := results.ResultOf(use)
	call := assertionCall{Name: use.FullName(), Source: use.Source, Result: result, Success: use.OK}
	if use.Call != nil {
		call.Server = use.Call.Server
	}
	call.Arguments = assertionArguments(use.Arguments)
	return call, err
}

// assertionArguments adds the argument names that upstream's expressions rely on, with empty
// strings as values, if they are missing.
func assertionArguments(given json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if len(given) > 0 && json.Unmarshal(given, &all) != nil {
		return given // not an object
	}
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	for _, name := range []string{"path", "file_text", "command", "description", "skill"} {
		if _, ok := all[name]; !ok {
			all[name] = json.RawMessage(`""`)
		}
	}
	filled, err := json.Marshal(all)
	if err != nil {
		return given
	}
	return filled
}
