package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// Most of what is taken of one list. A server that lists more has a list that is not
// whole.
const (
	maxPages       = 100
	maxListed      = 10_000
	maxListedBytes = 32 << 20
	maxNested      = 100 // objects and arrays of one entry within each other
)

// lists says how a list is asked for, and where in the result it stands.
func lists(k catalog.Kind) (method, at string) {
	switch k {
	case catalog.Resources:
		return "resources/list", "resources"
	case catalog.Templates:
		return "resources/templates/list", "resourceTemplates"
	case catalog.Prompts:
		return "prompts/list", "prompts"
	}
	return methodListTools, "tools"
}

// Offer is what the server said of itself when the conversation began, without lists.
func (q *ClientSession) Offer() catalog.Catalog {
	hello, _ := jsonrpc.Read(q.hello)
	result := hello.Result
	return catalog.Catalog{
		Server:       catalog.Server{Name: q.info.Name, Version: q.info.Version, Protocol: q.info.ProtocolVersion},
		Instructions: jsontext.Text(jsontext.Member(result, "instructions")),
		Capabilities: capabilitiesOf(result),
	}
}

// capabilitiesOf is what a server says that it can do; nothing where that is nested too
// deep for anybody to read.
func capabilitiesOf(result []byte) json.RawMessage {
	said := jsontext.Member(result, "capabilities")
	if jsontext.Depth(said) > maxNested {
		return nil
	}
	return bytes.Clone(said)
}

// List asks for a list, page by page, as far as it goes within the bounds of this
// package and of ctx; why it goes no further is in the list.
func (q *ClientSession) List(ctx context.Context, k catalog.Kind) catalog.List {
	l, err := q.list(ctx, q.era, q.talk, k)
	if err != nil {
		l.Partial = why(err)
	}
	return l
}

// Read asks for a resource, and Get for a prompt; see [ClientSession.Call]. Arguments are an
// object, or nothing.
func (q *ClientSession) Read(ctx context.Context, uri string) (Reply, error) {
	text, _ := json.Marshal(uri)
	return q.put(ctx, "resources/read", `"uri":`+string(text))
}

func (q *ClientSession) Get(ctx context.Context, prompt string, arguments json.RawMessage) (Reply, error) {
	name, _ := json.Marshal(prompt)
	params := []string{`"name":` + string(name)}
	if len(arguments) > 0 {
		params = append(params, `"arguments":`+string(arguments))
	}
	return q.put(ctx, "prompts/get", params...)
}

// Listen hears the server while nothing is asked of it, until ctx ends. The error says
// how it ended before that.
func (q *ClientSession) Listen(ctx context.Context) error { return q.talk.listen(ctx) }

// list is a list of the server's. The error is of the conversation; what the server
// did not answer well is in the list.
func (p *prober) list(ctx context.Context, era Era, t talk, k catalog.Kind) (catalog.List, error) {
	l := catalog.List{Kind: k, Entries: []catalog.Entry{}}
	method, at := lists(k)
	seen := map[string]bool{}
	for cursor, pages := "", 0; ; pages++ {
		if pages == maxPages {
			l.Partial = fmt.Sprintf("more than %d pages", maxPages)
			return l, nil
		}
		p.listed++
		raw, err := t.ask(ctx, requestText(era, probeID+"-"+strconv.Itoa(p.listed), method, page(cursor)), false)
		if err != nil {
			return l, err
		}
		f, _ := jsonrpc.Read(raw)
		if f.Result == nil {
			refused(&l, f.Error)
			return l, nil
		}
		if cursor = take(&l, f.Result, at); cursor == "" || l.Partial != "" {
			return l, nil
		}
		if seen[cursor] {
			l.Partial = "a cursor came twice"
			return l, nil
		}
		seen[cursor] = true
	}
}

func page(cursor string) []string {
	if cursor == "" {
		return nil
	}
	text, _ := json.Marshal(cursor)
	return []string{`"cursor":` + string(text)}
}

// take adds a page to l, and returns the cursor of the next one.
func take(l *catalog.List, result []byte, at string) (cursor string) {
	entries := jsontext.Member(result, at)
	if len(entries) == 0 || entries[0] != '[' {
		l.Partial = "an answer has no list"
		return ""
	}
	for raw := range jsontext.Elements(entries) {
		if len(l.Entries) == maxListed {
			l.Partial = fmt.Sprintf("more than %d entries", maxListed)
			return ""
		}
		if l.Bytes += len(raw); l.Bytes > maxListedBytes {
			l.Partial = fmt.Sprintf("more than %d MiB", maxListedBytes>>20)
			return ""
		}
		if jsontext.Depth(raw) > maxNested {
			l.Partial = fmt.Sprintf("an entry is nested more than %d deep", maxNested)
			continue
		}
		l.Entries = append(l.Entries, catalog.NewEntry(l.Kind, bytes.Clone(raw)))
	}
	return jsontext.Text(jsontext.Member(result, "nextCursor"))
}

// refused says what an error in the place of a list means.
func refused(l *catalog.List, e []byte) {
	if string(jsontext.Member(e, "code")) == strconv.Itoa(codeNoMethod) && len(l.Entries) == 0 {
		l.Absent = true
		return
	}
	l.Partial = fmt.Sprintf("it was refused: %s %s", jsontext.Member(e, "code"), clip([]byte(jsontext.Text(jsontext.Member(e, "message")))))
}
