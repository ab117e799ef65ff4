package proxy

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
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

// hides says whether a tool's object, or the parameters of a call, name a tool that
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

// hidden are the calls in a message of the agent's that the filter refuses. Where
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
	if !env.batch {
		return calls(raw)
	}
	return slices.ContainsFunc(slices.Collect(jsontext.Elements(raw)), calls)
}

// mayCall says whether some parser takes a method for a call of a tool.
func mayCall(method string) bool {
	return !isText(method) || jsontext.FoldKey(method) == methodCallTool
}

// hiddenByHeader says whether the headers of a call name a tool that the agent does
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

// span is a part of a message, from one byte to before another.
type span struct{ from, to int }

// place is where part lies in whole, of which it is a slice.
func place(whole, part []byte) span {
	from := cap(whole) - cap(part)
	return span{from, from + len(part)}
}

// cut takes the hidden tools out of the tools/list results in a message. asked says
// which answers are such results. Every byte but those of the tools and the commas
// between them stays, and the message itself does where nothing is hidden.
func (f toolFilter) cut(raw []byte, batch bool, asked func(jsonrpc.ID) bool) []byte {
	if f == nil {
		return raw
	}
	var gone []span
	one := func(object []byte) {
		if answer, _ := jsonrpc.Read(object); asked(answer.ID) {
			gone = append(gone, f.listed(raw, object)...)
		}
	}
	if batch {
		for object := range jsontext.Elements(raw) {
			one(object)
		}
	} else {
		one(raw)
	}
	return without(raw, gone)
}

// listed is where the hidden tools of a result lie in raw. Keys that differ in case
// alone count too, since some clients read them.
func (f toolFilter) listed(raw, object []byte) (gone []span) {
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

// unseen is where the hidden elements of a list lie in raw, each with one of the
// commas beside it. What lies side by side is one span, so that a list of many
// small elements costs no more than its bytes.
func (f toolFilter) unseen(raw, tools []byte) (gone []span) {
	var before span // the element before
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
			gone = append(gone, span{before.to, here.to})
		default:
			gone[last].to = here.to
		}
		before, any, kept = here, true, kept || shown
	}
	return gone
}

func without(raw []byte, gone []span) []byte {
	if len(gone) == 0 {
		return raw
	}
	slices.SortFunc(gone, func(a, b span) int { return a.from - b.from })
	left := make([]byte, 0, len(raw))
	at := 0
	for _, g := range gone {
		left = append(left, raw[at:g.from]...)
		at = g.to
	}
	return append(left, raw[at:]...)
}

// answers says what a message of the server's answers, by the ids in it.
type answers struct {
	lists  func(jsonrpc.ID) bool       // the request was for tools
	called func(jsonrpc.ID) injections // what is to be added to the result of a call
}

// change records a message of the server's, and returns what the agent gets in its
// place. Where that is another message both are on record.
func (s *server) change(raw []byte, batch bool, a answers, record func(evidence.Frame)) []byte {
	if s.tools == nil && len(s.injects) == 0 {
		record(evidence.Frame{Dir: evidence.ToClient, Raw: raw})
		return raw
	}
	seen, injected := inject(s.tools.cut(raw, batch, a.lists), batch, a.called)
	if len(seen) == len(raw) && len(injected) == 0 {
		record(evidence.Frame{Dir: evidence.ToClient, Raw: raw})
		return raw
	}
	record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Side: evidence.SideServer})
	record(evidence.Frame{Dir: evidence.ToClient, Raw: seen, Side: evidence.SideAgent, Injected: injected})
	s.tellInjected(injected)
	return seen
}

// refuseHidden answers a message that calls a tool which the agent does not see, as
// a server does that has no such tool.
func (s *server) refuseHidden(w http.ResponseWriter, c call, record func(evidence.Frame)) {
	s.refused.Lock()
	record(evidence.Frame{Dir: evidence.ToServer, Raw: c.raw, Side: evidence.SideAgent, Peer: &c.peer})
	var answers [][]byte
	for _, m := range c.env.of(request) {
		raw := errorResponse(m.id.Raw, codeInvalidParams, unknownTool(m.name))
		record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Side: evidence.SideAgent, Synthetic: evidence.SyntheticHidden})
		answers = append(answers, raw)
	}
	s.refused.Unlock()
	switch {
	case len(answers) == 0:
		w.WriteHeader(http.StatusAccepted)
	case c.env.batch:
		s.writeJSON(w, http.StatusOK, slices.Concat([]byte("["), bytes.Join(answers, []byte(",")), []byte("]")))
	default:
		s.writeJSON(w, http.StatusOK, answers[0])
	}
}

// unknownTool is the text of the error for a tool that there is none of;
// 2025-11-25 server/tools, Error Handling.
func unknownTool(name string) string { return "Unknown tool: " + strings.ToValidUTF8(name, "\uFFFD") }

// isText reports whether text was UTF-8. Some parsers leave out the bytes that are not, and
// so read a word that is not there.
func isText(text string) bool { return !strings.ContainsRune(text, utf8.RuneError) }
