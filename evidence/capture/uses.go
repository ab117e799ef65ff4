package capture

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// Sources of a use other than "mcp:NAME".
const (
	SourceBuiltin = "builtin"
	SourceSkill   = "skill"
)

// Use is one use of a tool: a captured MCP call, or a use of a builtin tool from the agent's transcript.
type Use struct {
	Source    string         // "builtin", "skill" or "mcp:NAME"
	Call      *evidence.Call // the captured call; nil for a use that is only in the transcript
	ID        string         // the agent's ID of a builtin use
	Reported  int            // number of the use in the transcript, from 1; 0 if unknown
	Tool      string
	Arguments json.RawMessage
	Result    evidence.Result
	OK        bool // it succeeded
	Failed    bool // it failed; for a builtin use, both may be false because the outcome is unknown

	Marks map[string][]string // as in [evidence.Call]
}

// FullName returns the tool's name prefixed by its server's, as upstream waza writes MCP calls: SERVER-TOOL.
// For other uses it returns only the tool's name.
func (u Use) FullName() string {
	if u.Call == nil {
		return u.Tool
	}
	return u.Call.Server + "-" + u.Tool
}

// Names returns the names of a use: the tool's own, and its full name.
func (u Use) Names() []string {
	return slices.Compact([]string{u.Tool, u.FullName()})
}

// Uses returns the agent's tool uses, in the order in which they were made as far as that is known. Captured
// calls keep their order. Builtin tools keep the order of the transcript, and are placed among the calls
// where the transcript reports them. Claims about MCP calls in the transcript are ignored, since they are not
// evidence. A bare name of a server's tool without a matching call counts as a builtin tool.
func (p *Pairing) Uses() []Use {
	var own, all []Use
	for i, t := range p.reported {
		if p.builtin(i) && t.name != reportIntent {
			own = append(own, Use{
				Source: source(t.name), ID: t.id, Reported: i + 1, Tool: t.name,
				Arguments: t.arguments, Result: evidence.NewResult(t.result), OK: t.success != nil && *t.success, Failed: t.success != nil && !*t.success,
				Marks: t.marks,
			})
		}
	}
	places := p.places()
	about := p.about(places)
	for i := range p.calls {
		call := &p.calls[i]
		for len(own) > 0 && own[0].Reported < about[i] {
			all, own = append(all, own[0]), own[1:]
		}
		use := Use{
			Source: "mcp:" + call.Server, Call: call, Reported: places[i], Tool: call.Tool,
			Arguments: call.Arguments, Result: call.Result, OK: call.Outcome == evidence.OutcomeOK, Failed: call.Outcome.Failed(),
			Marks: call.Marks,
		}
		all = append(all, use)
	}
	return append(all, own...)
}

// Counted returns the uses without those of superseded calls.
func (p *Pairing) Counted() []Use {
	return slices.DeleteFunc(p.Uses(), func(use Use) bool { return use.Call != nil && Superseded(*use.Call) })
}

// about returns the position of each call in the transcript: its place or, if that is unknown, the position
// of the use that it was paired with, but not after the place of a later call.
func (p *Pairing) about(places []int) []int {
	about := make([]int, len(p.calls))
	for i, call := range p.call {
		if call != none {
			about[call] = i + 1
		}
	}
	last := len(p.reported) + 1
	for i := len(about) - 1; i >= 0; i-- {
		last = cmp.Or(places[i], last)
		about[i] = cmp.Or(places[i], min(about[i], last))
	}
	return about
}

// reportIntent is a tool with which Copilot announces its next actions. As in upstream waza, it does not
// count as a use.
const reportIntent = "report_intent"

func source(tool string) string {
	if tool == "skill" {
		return SourceSkill
	}
	return SourceBuiltin
}

// places returns the position of each call in the transcript: the number of the reported
// use, or 0. Equal calls are assigned in order, but only if there are exactly as many uses,
// none of which may be another call.
func (p *Pairing) places() []int {
	alike := map[withInput][]int{}
	for i, form := range p.input {
		if form != "" {
			key := withInput{p.calls[i].ToolRef(), form}
			alike[key] = append(alike[key], i)
		}
	}
	reported, unclear := map[withInput][]int{}, map[withInput]bool{}
	for i, t := range p.reported {
		form := t.form
		if len(t.input()) == 0 {
			form = "{}"
		}
		if form == "" {
			continue
		}
		for _, ref := range t.means.Tools {
			key := withInput{ref, form}
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

// reportedUse is a use of a tool in the transcript.
type reportedUse struct {
	id        string
	name      string
	arguments json.RawMessage // nil if none are reported
	result    json.RawMessage // nil if not reported
	success   *bool           // nil if not reported
	means     Resolution
	form      string // canonical input, with its marks; empty if the input is not JSON
	marks     map[string][]string
}

// reportedUses lists the tool uses of a transcript: each start, with the end that has the same ID.
func reportedUses(catalogs map[string][]string, transcript []evidence.TranscriptEvent) []reportedUse {
	var reported []reportedUse
	open := map[string]int{}
	for _, event := range transcript {
		switch event.Type {
		case "tool.execution_start":
			open[event.ToolCallID] = len(reported)
			reported = append(reported, reportedUse{id: event.ToolCallID, name: event.ToolName, arguments: event.Arguments, marks: event.Marks})
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
		reported[i].form = inputForm(reported[i].input(), reported[i].marks)
	}
	return reported
}

// inputForm returns the canonical form of arguments, with their marks, or "" if they are not JSON.
func inputForm(arguments json.RawMessage, marks map[string][]string) string {
	form, _ := jsontext.Canonical(arguments)
	if form == "" {
		return ""
	}
	return form + marksForm(marks)
}

// input returns the reported arguments, or an empty object for null.
func (u reportedUse) input() json.RawMessage {
	if isNull(u.arguments) {
		return json.RawMessage("{}")
	}
	return u.arguments
}

// Tools lists the known tools of each server of a trial: those that the server listed, even if they were
// hidden from the agent, and those that were called. It includes declared servers without tools.
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
	for _, catalog := range captured.Catalogs {
		for _, tool := range catalog.Tools {
			add(catalog.Server, tool.Name)
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
