package capture

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// telling is one use of a tool as the transcript has it.
type telling struct {
	id        string
	name      string
	arguments json.RawMessage // nil where it has none
	result    json.RawMessage // likewise
	success   *bool           // likewise
	means     Resolution
	form      string // of input, which is canonical; empty where that is no JSON
}

// tellings lists the tool uses of a transcript: each start with the end of its id.
func tellings(catalogs map[string][]string, transcript []evidence.TranscriptEvent) []telling {
	var reported []telling
	open := map[string]int{}
	for _, event := range transcript {
		switch event.Type {
		case "tool.execution_start":
			open[event.ToolCallID] = len(reported)
			reported = append(reported, telling{id: event.ToolCallID, name: event.ToolName, arguments: event.Arguments})
		case "tool.execution_complete":
			i, ok := open[event.ToolCallID]
			if !ok {
				continue
			}
			delete(open, event.ToolCallID)
			reported[i].result, reported[i].success = event.ToolResult, event.Success
		}
	}
	names := make([]string, len(reported))
	for i := range reported {
		names[i] = reported[i].name
	}
	for i, means := range Resolve(catalogs, names...) {
		reported[i].means = means
		reported[i].form, _ = jsonvalue.Canonical(reported[i].input())
	}
	return reported
}

// input is the arguments that are told; null is none, as a call without arguments has
// none.
func (t telling) input() json.RawMessage {
	if isNull(t.arguments) {
		return json.RawMessage("{}")
	}
	return t.arguments
}

// Tools lists what tools each server of a trial is known to have: those it listed on
// record, also those kept from the agent, and those that were called. A declared
// server that is known to have none is there too.
func Tools(servers []string, captured Result) map[string][]string {
	known := map[string]map[string]bool{}
	for _, server := range servers {
		known[server] = map[string]bool{}
	}
	add := func(server, tool string) {
		if known[server] == nil {
			known[server] = map[string]bool{}
		}
		known[server][tool] = true
	}
	for server, tools := range captured.Catalog {
		for _, tool := range tools {
			add(server, tool.Name)
		}
	}
	for _, call := range captured.Calls {
		add(call.Server, call.Tool)
	}
	tools := map[string][]string{}
	for server, names := range known {
		tools[server] = slices.Sorted(maps.Keys(names))
	}
	return tools
}
