package proxy

import (
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

const (
	methodListTools = "tools/list"
	methodCallTool  = "tools/call"
)

// toolFilter is which of a server's tools the agent sees; nil is all of them.
type toolFilter map[string]bool

// newToolFilter keeps nil apart from an empty list, which shows no tool.
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

// hides reports whether a tool's object, or the parameters of a call, name a tool that
// the agent does not see. Every key that any parser may take for the name counts.
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

// hidden returns the calls in a message of the agent's that the filter refuses. Where
// there is one in a batch the whole batch is: its parts cannot be told apart on
// the way.
func (f toolFilter) hidden(raw []byte, env envelope) bool {
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

// mayCall reports whether some parser takes a method for a call of a tool.
func mayCall(method string) bool {
	return !isText(method) || jsontext.FoldKey(method) == methodCallTool
}

// hiddenByHeader reports whether the headers of a call name a tool that the agent does
// not see. A server holds them against the body (2026-07-28
// basic/transports/streamable-http, Server Validation), and one that does not may
// go by them.
func (f toolFilter) hiddenByHeader(h http.Header, env envelope) bool {
	if !defence.HiddenInHeaders || f == nil || len(env.messages) == 0 {
		return false
	}
	calls := slices.Contains(h.Values(headerMethod), methodCallTool) ||
		slices.ContainsFunc(env.messages, func(m message) bool { return m.method == methodCallTool })
	return calls && slices.ContainsFunc(h.Values(headerName), func(value string) bool {
		name, ok := decodeHeader(value)
		return !ok || !f[name]
	})
}

// cut takes the hidden tools out of the tools/list results in a message. asked says
// which answers are such results. Every byte but those of the tools and the commas
// between them stays, and the message itself does where nothing is hidden.
func (f toolFilter) cut(raw []byte, batch bool, asked func(jsonrpc.ID) bool) []byte {
	if f == nil {
		return raw
	}
	var gone []edit
	for object := range objects(raw, batch) {
		if answer, _ := jsonrpc.Read(object); asked(answer.ID) {
			gone = append(gone, f.listed(raw, object)...)
		}
	}
	return edited(raw, gone)
}

// listed returns where the hidden tools of a result lie in raw. Keys that differ in case
// alone count too, since some clients read them.
func (f toolFilter) listed(raw, object []byte) (gone []edit) {
	for key, result := range jsontext.Members(object) {
		if jsontext.FoldKey(key) != "result" {
			continue
		}
		for key, tools := range jsontext.Members(result) {
			if jsontext.FoldKey(key) == "tools" {
				gone = append(gone, f.unseen(raw, tools)...)
			}
		}
	}
	return gone
}

// unseen returns where the hidden elements of a list lie in raw, each with one of the
// commas beside it. What lies side by side is one span, so that a list of many
// small elements costs no more than its bytes.
func (f toolFilter) unseen(raw, tools []byte) (gone []edit) {
	var before edit // the element before
	kept, any := false, false
	for tool := range jsontext.Elements(tools) {
		here := place(raw, tool)
		shown := !f.hides(tool)
		switch last := len(gone) - 1; {
		case shown && any && !kept: // those before go up to here
			gone[last].to = here.from
		case shown:
		case !any:
			gone = append(gone, here)
		case kept && (last < 0 || gone[last].to != before.to): // from the end of the one before
			gone = append(gone, edit{from: before.to, to: here.to})
		default:
			gone[last].to = here.to
		}
		before, any, kept = here, true, kept || shown
	}
	return gone
}

// isText reports whether text was UTF-8. Some parsers leave out the bytes that are not, and
// so read a word that is not there.
func isText(text string) bool { return !strings.ContainsRune(text, utf8.RuneError) }
