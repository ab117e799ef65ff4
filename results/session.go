package results

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

func uses(trial Trial) []capture.Use {
	var tools map[string][]string
	if trial.Narration != nil {
		tools = trial.Narration.Tools
	}
	return capture.Pair(tools, trial.Calls, trial.Transcript).Uses()
}

func digest(trial Trial) SessionDigest {
	d := SessionDigest{ToolsUsed: []string{}, MCPServersUsed: []string{}, Errors: []string{}}
	for _, use := range uses(trial) {
		d.ToolCallCount++
		if name := use.FullName(); !slices.Contains(d.ToolsUsed, name) {
			d.ToolsUsed = append(d.ToolsUsed, name)
		}
		if use.Call != nil {
			d.MCPToolCalls++
			d.MCPServersUsed = append(d.MCPServersUsed, use.Call.Server)
		}
	}
	slices.Sort(d.MCPServersUsed)
	d.MCPServersUsed = slices.Compact(d.MCPServersUsed)
	switch trial.Verdicts.Class {
	case evidence.ClassTimeout, evidence.ClassAgentError, evidence.ClassServerError, evidence.ClassInfra:
		d.Errors = append(d.Errors, cmp.Or(trial.Verdicts.Message, string(trial.Verdicts.Class)))
	}
	d.Usage = usageOf(trial)
	return d
}

func toolCalls(uses []capture.Use, room *room) (calls []ToolCall) {
	for _, use := range uses {
		calls = append(calls, ToolCall{
			Name: use.FullName(), Source: use.Source, MCPServer: serverOf(use), Success: use.OK,
			Arguments: toolArguments(use, room), Result: shortResult(use, room),
		})
	}
	return calls
}

func shortResult(use capture.Use, room *room) *ToolResult {
	return room.result(ResultOf(use), resultAt(use))
}

func toolEvents(uses []capture.Use, room *room) []ToolEvent {
	var events []ToolEvent
	for i, use := range uses {
		event := ToolEvent{
			Sequence: i + 1, ToolCallID: use.ID, ToolName: use.FullName(),
			Source: use.Source, MCPServer: serverOf(use),
			Args: room.json(use.Arguments, argumentsAt(use)), Result: room.json(use.Result, resultAt(use)), Success: use.OK,
		}
		if call := use.Call; call != nil {
			event.ToolCallID, event.Outcome = idText(call.ID), call.Outcome
			event.Turn, event.Origin = call.Turn, call.Origin
			event.DurationMS = milliseconds(call.Start, call.End)
			if !use.OK {
				event.Error = room.text(errorText(*call), resultAt(use))
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

func toolArguments(use capture.Use, room *room) ToolArguments {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(use.Arguments, &fields) // what is no object has no arguments
	field := func(name string) string { return room.text(stringOf(fields[name]), argumentsAt(use)) }
	return ToolArguments{
		Path: field("path"), FileText: field("file_text"), Command: field("command"), Description: field("description"), Skill: field("skill"),
	}
}

// ResultOf is what came of a use as waza has it: text alone; nil where nothing came.
func ResultOf(use capture.Use) *ToolResult {
	if use.Call != nil && len(use.Result) > 0 {
		return &ToolResult{Content: capture.Text(use.Result)}
	}
	return toldResult(use.Result)
}

// Told is an event of an agent's as waza has it.
func Told(e evidence.TranscriptEvent) TranscriptEvent {
	return TranscriptEvent{TranscriptEvent: e, ToolResult: toldResult(e.ToolResult)}
}

// toldResult is a result that an agent tells, as text: a string, an object with a string
// in content, an MCP result or its content alone, or anything else as its JSON; nil for
// nothing.
func toldResult(raw json.RawMessage) *ToolResult {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(raw, &fields) // else it is no object
	content := cmp.Or(stringOf(raw), stringOf(fields["content"]), capture.Text(raw), capture.BlockText(raw))
	if content == "" && raw[0] != '"' && stringOf(fields["detailedContent"]) == "" {
		content = string(raw)
	}
	return &ToolResult{Content: content, DetailedContent: stringOf(fields["detailedContent"])}
}

// errorText is what a call that is no success says for itself.
func errorText(call evidence.Call) string {
	if len(call.Error) > 0 {
		var fields map[string]json.RawMessage
		_ = json.Unmarshal(call.Error, &fields) // else the error as it came
		return cmp.Or(stringOf(fields["message"]), string(call.Error))
	}
	return cmp.Or(capture.Text(call.Result), string(call.Outcome))
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
