package capture

import (
	"encoding/json"
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// Sources of a use besides "mcp:NAME".
const (
	SourceBuiltin = "builtin"
	SourceSkill   = "skill"
)

// Use is one use of a tool: an MCP call as captured, or a builtin tool as in the agent's
// transcript.
type Use struct {
	Source    string         // "builtin", "skill" or "mcp:NAME"
	Call      *evidence.Call // the captured call; nil for what is in the transcript alone
	ID        string         // the agent's id of a builtin use
	Reported  int            // its place among the tool uses of the transcript, from 1; 0 where it is not clear
	Tool      string
	Arguments json.RawMessage
	Result    json.RawMessage
	OK        bool // it ended, and with success
	Failed    bool // it ended, and without; of a builtin use neither may be known
}

// FullName is the tool's name with its server's before it, as upstream waza writes an MCP
// call: SERVER-TOOL. Other uses have the tool's name alone.
func (u Use) FullName() string {
	if u.Call == nil {
		return u.Tool
	}
	return u.Call.Server + "-" + u.Tool
}

// Names are the names a use goes by: the tool's own, and its full name.
func (u Use) Names() []string {
	return slices.Compact([]string{u.Tool, u.FullName()})
}

// Uses lists what the agent used: the captured calls in their order, then its own
// tools in the transcript's. An MCP call in the transcript is no use of its
// own: calls are captured, claims are not evidence of them. A bare name that a server's
// tool has too, and that no call is known by, counts as a tool of the agent's own.
func (p *Pairing) Uses() []Use {
	var uses []Use
	for i := range p.calls {
		call := &p.calls[i]
		uses = append(uses, Use{
			Source: "mcp:" + call.Server, Call: call, Tool: call.Tool,
			Arguments: call.Arguments, Result: call.Result, OK: call.Outcome == evidence.OutcomeOK, Failed: call.Outcome.Failed(),
		})
	}
	for i, place := range p.places() {
		uses[i].Reported = place
	}
	for i, t := range p.reported {
		if p.builtin(i) && t.name != reportIntent {
			uses = append(uses, Use{
				Source: source(t.name), ID: t.id, Reported: i + 1, Tool: t.name,
				Arguments: t.arguments, Result: t.result, OK: t.success != nil && *t.success, Failed: t.success != nil && !*t.success,
			})
		}
	}
	return uses
}

// reportIntent is a tool by which Copilot says what it is about to do. It is no use of a tool, as
// in upstream waza.
const reportIntent = "report_intent"

func source(tool string) string {
	if tool == "skill" {
		return SourceSkill
	}
	return SourceBuiltin
}

// sameCall is what makes calls indistinguishable to a transcript.
type sameCall struct {
	tool      evidence.ToolRef
	arguments string
}

// places returns where each call is in the transcript: the telling's number, or
// 0. Calls alike are there in their order, and only if exactly as many tellings say them
// and none of these may be about another call: otherwise which is whose would be a
// guess.
func (p *Pairing) places() []int {
	alike := map[sameCall][]int{}
	for i, form := range p.input {
		if form != "" {
			key := sameCall{evidence.ToolRef{Server: p.calls[i].Server, Tool: p.calls[i].Tool}, form}
			alike[key] = append(alike[key], i)
		}
	}
	reported, unclear := map[sameCall][]int{}, map[sameCall]bool{}
	for i, t := range p.reported {
		form := t.form
		if len(t.input()) == 0 {
			form = "{}"
		}
		if form == "" {
			continue
		}
		for _, ref := range t.means.Tools {
			key := sameCall{ref, form}
			reported[key] = append(reported[key], i+1)
			unclear[key] = unclear[key] || t.means.Kind != NameTool
		}
	}
	places := make([]int, len(p.calls))
	for key, calls := range alike {
		if unclear[key] || len(reported[key]) != len(calls) {
			continue
		}
		for n, i := range calls {
			places[i] = reported[key][n]
		}
	}
	return places
}
