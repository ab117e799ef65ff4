package results

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/runner/capture"
	"github.com/waza-isolate/waza/runner/evidence"
)

func uses(trial Trial) []capture.Use {
	var tools map[string][]string
	if trial.Narration != nil {
		tools = trial.Narration.Tools
	}
	return capture.Uses(tools, trial.Calls, trial.Transcript)
}

func digest(trial Trial) SessionDigest {
	d := SessionDigest{ToolsUsed: []string{}, MCPServersUsed: []string{}, Errors: []string{}}
	for _, use := range uses(trial) {
		d.ToolCallCount++
		if !slices.Contains(d.ToolsUsed, use.Tool) {
			d.ToolsUsed = append(d.ToolsUsed, use.Tool)
		}
		server := serverOf(use)
		if use.Call != nil {
			d.MCPToolCalls++
			d.MCPServersUsed = append(d.MCPServersUsed, server)
		}
		d.ToolCalls = append(d.ToolCalls, ToolCall{
			Name: use.Tool, Source: use.Source, MCPServer: server,
			Arguments: toolArguments(use.Arguments), Result: toolResult(use), Success: use.OK,
		})
	}
	slices.Sort(d.MCPServersUsed)
	d.MCPServersUsed = slices.Compact(d.MCPServersUsed)
	switch trial.Verdicts.Class {
	case evidence.ClassTimeout, evidence.ClassAgentError, evidence.ClassInfra:
		d.Errors = append(d.Errors, cmp.Or(trial.Verdicts.Message, string(trial.Verdicts.Class)))
	}
	return d
}

func toolEvents(trial Trial) []ToolEvent {
	var events []ToolEvent
	for i, use := range uses(trial) {
		event := ToolEvent{
			Sequence: i + 1, ToolCallID: use.ID, ToolName: use.Tool,
			Source: use.Source, MCPServer: serverOf(use),
			Args: use.Arguments, Result: use.Result, Success: use.OK,
		}
		if call := use.Call; call != nil {
			event.ToolCallID, event.Outcome = idText(call.ID), call.Outcome
			event.DurationMS = milliseconds(call.Start, call.End)
			if !use.OK {
				event.Error = errorText(*call)
			}
		}
		events = append(events, event)
	}
	return events
}

func serverOf(use capture.Use) string {
	if use.Call == nil {
		return ""
	}
	return use.Call.Server
}

func toolArguments(raw json.RawMessage) ToolArguments {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields) // what is no object has no arguments
	return ToolArguments{
		Path: stringOf(fields["path"]), FileText: stringOf(fields["file_text"]),
		Command: stringOf(fields["command"]), Description: stringOf(fields["description"]),
		Skill: stringOf(fields["skill"]),
	}
}

func toolResult(use capture.Use) *ToolResult {
	switch {
	case len(use.Result) == 0:
		return nil
	case use.Call != nil:
		return &ToolResult{Content: contentText(use.Result)}
	}
	return &ToolResult{Content: cmp.Or(stringOf(use.Result), string(use.Result))}
}

// contentText joins the text of an MCP tool result's content.
func contentText(result json.RawMessage) string {
	var fields map[string]json.RawMessage
	var blocks []map[string]json.RawMessage
	_ = json.Unmarshal(result, &fields) // a server's mistakes leave no text
	_ = json.Unmarshal(fields["content"], &blocks)
	var texts []string
	for _, block := range blocks {
		if stringOf(block["type"]) == "text" {
			texts = append(texts, stringOf(block["text"]))
		}
	}
	return strings.Join(texts, "\n")
}

// errorText is what a call that is no success says for itself.
func errorText(call evidence.Call) string {
	if len(call.Error) > 0 {
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(call.Error, &fields) // else the error as it came
		return cmp.Or(stringOf(fields["message"]), string(call.Error))
	}
	return cmp.Or(contentText(call.Result), string(call.Outcome))
}

func idText(id json.RawMessage) string { return cmp.Or(stringOf(id), string(id)) }

// stringOf is a JSON string's value, or empty for anything else.
func stringOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}
