package capture

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/runner/evidence"
)

// Sources of a use besides "mcp:NAME".
const (
	SourceBuiltin = "builtin"
	SourceSkill   = "skill"
)

// Use is one use of a tool: an MCP call as captured, or a builtin tool as the
// agent's transcript tells of it.
type Use struct {
	Source    string         // "builtin", "skill" or "mcp:NAME"
	Call      *evidence.Call // the captured call; nil for what only the transcript tells
	ID        string         // the agent's id of a builtin use
	Told      int            // its place among the tool uses that the transcript tells, from 1; 0 where it is not clear
	Tool      string
	Arguments json.RawMessage
	Result    json.RawMessage
	OK        bool // it ended, and with success
}

// Names are the names a use goes by: the tool's, and for an MCP call the server's
// before it too, as agents write it.
func (u Use) Names() []string {
	if u.Call == nil {
		return []string{u.Tool}
	}
	return []string{u.Tool, u.Call.Server + "-" + u.Tool}
}

// Uses lists what the agent used: the captured calls in their order, then the
// builtin uses in the transcript's. What the transcript tells of an MCP call is
// no use of its own: calls are captured, claims are not evidence of them.
func Uses(servers []string, calls []evidence.Call, transcript []evidence.TranscriptEvent) []Use {
	var uses []Use
	for i := range calls {
		call := &calls[i]
		uses = append(uses, Use{
			Source: "mcp:" + call.Server, Call: call, Tool: call.Tool,
			Arguments: call.Arguments, Result: call.Result, OK: call.Outcome == evidence.OutcomeOK,
		})
	}
	told := told(transcript)
	place(uses, servers, told)
	return append(uses, builtin(servers, calls, told)...)
}

func builtin(servers []string, calls []evidence.Call, told []Use) []Use {
	var own []Use
	unclaimed := map[string][]json.RawMessage{} // by tool: arguments of calls no prefixed name claims
	for _, call := range calls {
		unclaimed[call.Tool] = append(unclaimed[call.Tool], call.Arguments)
	}
	for _, use := range told {
		tool, claims := claimed(servers, use.Tool)
		if !claims {
			own = append(own, use)
			continue
		}
		if left := unclaimed[tool]; len(left) > 0 {
			i := max(slices.IndexFunc(left, func(a json.RawMessage) bool { return Equal(a, use.Arguments) }), 0)
			unclaimed[tool] = slices.Delete(left, i, i+1)
		}
	}
	// A bare name that repeats a call which nothing else claims is that call.
	return slices.DeleteFunc(own, func(use Use) bool {
		left := unclaimed[use.Tool]
		i := slices.IndexFunc(left, func(a json.RawMessage) bool { return Equal(a, use.Arguments) })
		if i < 0 {
			return false
		}
		unclaimed[use.Tool] = slices.Delete(left, i, i+1)
		return true
	})
}

// claimed reports whether name, as an agent writes it, is that of a declared
// server's tool, and the tool's own name.
func claimed(servers []string, name string) (tool string, ok bool) {
	for _, server := range servers {
		if tools := toolsOf(server, name); len(tools) > 0 {
			return tools[0], true
		}
	}
	return "", false
}

// toolsOf lists the tools of server that name may stand for, as agents write it.
func toolsOf(server, name string) []string {
	var tools []string
	for _, written := range []string{server, strings.ReplaceAll(server, "-", "_")} {
		for _, prefix := range []string{"mcp__" + written + "__", "mcp_" + written + "_", written + "__", written + "-", written + ".", written + "/"} {
			if tool, ok := strings.CutPrefix(name, prefix); ok && tool != "" {
				tools = append(tools, tool)
			}
		}
	}
	return tools
}

// told lists the tool uses of a transcript: each start with the end of its id.
func told(transcript []evidence.TranscriptEvent) []Use {
	var uses []Use
	open := map[string]int{}
	for _, event := range transcript {
		switch event.Type {
		case "tool.execution_start":
			open[event.ToolCallID] = len(uses)
			uses = append(uses, Use{
				Source: source(event.ToolName), ID: event.ToolCallID, Told: len(uses) + 1,
				Tool: event.ToolName, Arguments: event.Arguments,
			})
		case "tool.execution_complete":
			i, ok := open[event.ToolCallID]
			if !ok {
				continue
			}
			delete(open, event.ToolCallID)
			uses[i].Result = event.ToolResult
			uses[i].OK = event.Success != nil && *event.Success
		}
	}
	return uses
}

func source(tool string) string {
	if tool == "skill" {
		return SourceSkill
	}
	return SourceBuiltin
}
