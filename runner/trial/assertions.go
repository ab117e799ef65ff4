package trial

import (
	_ "embed"
	"encoding/json"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/results"
)

// The scripts that evaluate assertions. They are arguments of their interpreters,
// so that no file is theirs that the workspace could hold too.
var (
	//go:embed assertions.py
	pythonScript string
	//go:embed assertions.js
	javascriptScript string
)

// assertionArgs have the interpreter of a language evaluate the assertions that it reads
// from stdin. Python's -I leaves the working directory, the environment and the user's
// packages out of what is imported.
func assertionArgs(language string) []string {
	if language == grading.JavaScript {
		return []string{"--eval", javascriptScript}
	}
	return []string{"-I", "-c", pythonScript}
}

// assertionInput is what the scripts read.
type assertionInput struct {
	Variables  assertionVariables `json:"variables"`
	Assertions []string           `json:"assertions"`
}

// assertionVariables are what assertions are over, as waza names them.
type assertionVariables struct {
	Output     string                    `json:"output"`
	Outcome    assertionOutcome          `json:"outcome"`
	Transcript []results.TranscriptEvent `json:"transcript"`
	ToolCalls  []assertionCall           `json:"tool_calls"`
	Errors     []string                  `json:"errors"`
	DurationMS int64                     `json:"duration_ms"`
	Workspace  string                    `json:"workspace"`
}

// assertionOutcome is how the agent ended.
type assertionOutcome struct {
	Class    evidence.Class  `json:"class"` // timeout, agent_error or empty
	Reason   evidence.Reason `json:"reason"`
	ExitCode *int            `json:"exit_code"`
}

// assertionCall is a captured call, or the use of a builtin tool by the transcript.
type assertionCall struct {
	Name      string              `json:"name"`
	Source    string              `json:"source"`
	Server    string              `json:"mcp_server"`
	Arguments json.RawMessage     `json:"arguments"`
	Result    *results.ToolResult `json:"result"`
	Success   bool                `json:"success"`
}

// assertionsOver returns the input of the assertions. Except for the outcome and the output it
// is made of the evidence on disk, so that this shows what they saw.
func (p programs) assertionsOver(assertions []string, workspace string) ([]byte, error) {
	captured, err := p.captured()
	if err != nil {
		return nil, err
	}
	transcript, err := evidence.Dir(p.rec.Dir()).Transcript()
	if err != nil {
		return nil, err
	}
	record := p.redacted()
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
	for _, use := range paired.Uses() {
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

// assertionArguments are arguments with those that waza knows by name, which are empty
// texts where they are not given: expressions are written against that.
func assertionArguments(given json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if len(given) > 0 && json.Unmarshal(given, &all) != nil {
		return given // no object
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
