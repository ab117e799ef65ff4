package proxy

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/mirror"
)

const (
	methodListTools = "tools/list"
	methodCallTool  = "tools/call"
)

// toolFilter is the set of tools that the agent sees; nil means all.
type toolFilter map[string]bool

// newToolFilter returns nil for nil, and an empty filter, which hides every tool, for an
// empty list.
func newToolFilter(tools []string) toolFilter {
	if tools == nil {
		return nil
	}
	f := toolFilter{}
	for _, name := range tools {
		f[name] = true
	}
	return f
}

// hides reports whether a tool object, or the parameters of a call, name a hidden tool.
// Every key that some parser may read as the name counts.
func (f toolFilter) hides(object []byte) bool {
	named := false
	for key, value := range jsontext.Members(object) {
		if !isText(key) {
			return true
		}
		if jsontext.FoldKey(key) != "name" {
			continue
		}
		if !f[jsontext.Word(value)] {
			return true
		}
		named = true
	}
	return !named
}

// callsHidden reports whether a message from the agent calls a hidden tool. A batch with such a
// call is refused as a whole.
func (f toolFilter) callsHidden(raw []byte, env envelope) bool {
	if !defence.HiddenTools || f == nil {
		return false
	}
	calls := func(object []byte) bool {
		call, hidden := false, false
		for key, value := range jsontext.Members(object) {
			switch key {
			case "method":
				call = call || mayCall(jsontext.Word(value))
			case "params":
				hidden = hidden || f.hides(value)
			}
		}
		return call && hidden
	}
	for object := range objects(raw, env.batch) {
		if calls(object) {
			return true
		}
	}
	return false
}

// mayCall reports whether some parser may read method as tools/call.
func mayCall(method string) bool {
	return !isText(method) || jsontext.FoldKey(method) == methodCallTool
}

// hiddenByHeader reports whether the headers of a call name a hidden tool. Servers must
// compare them with the body (2026-07-28 basic/transports/streamable-http, Server
// Validation), but one that does not may use them instead.
func (f toolFilter) hiddenByHeader(h http.Header, env envelope) bool {
	if !defence.HiddenInHeaders || f == nil || len(env.messages) == 0 {
		return false
	}
	calls := slices.Contains(h.Values(headerMethod), methodCallTool) ||
		slices.ContainsFunc(env.messages, func(m message) bool { return m.method == methodCallTool })
	return calls && slices.ContainsFunc(h.Values(headerName), func(value string) bool {
		name, ok := mirror.Decode(value)
		return !ok || !f[name]
	})
}

// removeHidden removes hidden tools from the tools/list results in a message. asked reports whether
// an id belongs to such a result. All bytes other than those of the tools and the commas
// between them are unchanged; if nothing is hidden, removeHidden returns raw itself.
func (f toolFilter) removeHidden(raw []byte, batch bool, asked func(jsonrpc.ID) bool) []byte {
	if f == nil {
		return raw
	}
	var gone []edit
	for object := range objects(raw, batch) {
		if answer, _ := jsonrpc.Read(object); asked(answer.ID) {
			gone = append(gone, f.hiddenTools(raw, object)...)
		}
	}
	return applyEdits(raw, gone)
}

// hiddenTools returns the ranges in raw of the hidden tools of a result. Keys that differ only
// in case count too, since some clients read them.
func (f toolFilter) hiddenTools(raw, object []byte) (gone []edit) {
	for key, result := range jsontext.Members(object) {
		if jsontext.FoldKey(key) != "result" {
			continue
		}
		for key, tools := range jsontext.Members(result) {
			if jsontext.FoldKey(key) == "tools" {
				gone = append(gone, f.hiddenElements(raw, tools)...)
			}
		}
	}
	return gone
}

// hiddenElements returns the ranges in raw of the hidden elements of a list, each with an adjacent
// comma. Adjacent ranges are merged, so that a list of many small elements takes little
// memory.
func (f toolFilter) hiddenElements(raw, tools []byte) (gone []edit) {
	var before edit // the previous element
	kept, any := false, false
	for tool := range jsontext.Elements(tools) {
		here := spanOf(raw, tool)
		shown := !f.hides(tool)
		switch last := len(gone) - 1; {
		case shown && any && !kept: // the range of the preceding elements extends to here
			gone[last].to = here.from
		case shown:
		case !any:
			gone = append(gone, here)
		case kept && (last < 0 || gone[last].to != before.to): // the range starts at the end of the preceding element
			gone = append(gone, edit{from: before.to, to: here.to})
		default:
			gone[last].to = here.to
		}
		before, any, kept = here, true, kept || shown
	}
	return gone
}

// isText reports whether text was valid UTF-8. Some parsers drop invalid bytes, and so read
// a different word.
func isText(text string) bool { return !strings.ContainsRune(text, utf8.RuneError) }
