package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// Limits of one list. A list that exceeds them is partial.
const (
	maxPages       = 100
	maxListed      = 10_000
	maxListedBytes = 32 << 20
	maxNested      = 100 // nesting depth of an entry
)

// grace is the time that a server gets to answer a request for a list that it does not
// declare.
const grace = time.Second

// List requests all pages of a list, within patience and the limits of this package. If the
// list is partial it says why. A list that is not among the server's capabilities is absent
// unless the server answers soon: some servers ignore unknown methods. Once a server has
// ignored such a request, other undeclared lists are not requested.
func (s *Session) List(ctx context.Context, k catalog.Kind, patience time.Duration) catalog.List {
	declared := k == catalog.Tools || s.declares(k)
	if !declared {
		if s.ignores {
			return catalog.List{Kind: k, Entries: []catalog.Entry{}, Absent: true}
		}
		patience = min(patience, grace)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%v have passed", patience))
	defer cancel()
	l, err := s.list(bounded, k)
	if !declared && len(l.Entries) == 0 && errors.Is(err, ErrNoAnswer) && ctx.Err() == nil {
		s.ignores, l.Absent = true, true
		return l
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		l.Partial = failed.reason()
	} else if err != nil {
		l.Partial = err.Error()
	}
	return l
}

// declares reports whether the server declares the capability for a list.
func (s *Session) declares(k catalog.Kind) bool {
	_, at := k.Request()
	if k == catalog.Templates {
		_, at = catalog.Resources.Request()
	}
	return jsontext.Member(capabilitiesOf(s.hello), at) != nil
}

// list requests a list. It returns an error if the conversation failed; other reasons for a
// partial list are in the list.
func (s *Session) list(ctx context.Context, k catalog.Kind) (catalog.List, error) {
	l := catalog.List{Kind: k, Entries: []catalog.Entry{}}
	_, at := k.Request()
	seen := map[string]bool{}
	cursor := ""
	for range maxPages {
		m, err := s.Page(ctx, k, cursor)
		if err != nil {
			return l, err
		}
		switch {
		case m.Result != nil:
			cursor = addPage(&l, m.Result, at)
		case jsonrpc.Code(m.Error) == jsonrpc.MethodNotFound && len(l.Entries) == 0:
			l.Absent = true
			return l, nil
		default:
			l.Partial = "the server answered with an error: " + describe(m.Error)
		}
		if cursor == "" || l.Partial != "" {
			return l, nil
		}
		if seen[cursor] {
			l.Partial = "the server sent the same cursor twice"
			return l, nil
		}
		seen[cursor] = true
	}
	l.Partial = fmt.Sprintf("more than %d pages", maxPages)
	return l, nil
}

// Page requests a page of a list, the first if cursor is empty, and returns the response as
// received.
func (s *Session) Page(ctx context.Context, k catalog.Kind, cursor string) (jsonrpc.Message, error) {
	method, _ := k.Request()
	page := params{}
	if cursor != "" {
		page["cursor"] = cursor
	}
	return s.request(ctx, method, page)
}

// addPage adds a page to l and returns the cursor of the next page.
func addPage(l *catalog.List, result []byte, at string) (cursor string) {
	entries := jsontext.Member(result, at)
	if len(entries) == 0 || entries[0] != '[' {
		l.Partial = "a response has no list"
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

// capabilitiesOf returns the server's capabilities, or nil if they are nested too deeply.
func capabilitiesOf(result []byte) json.RawMessage {
	said := jsontext.Member(result, "capabilities")
	if jsontext.Depth(said) > maxNested {
		return nil
	}
	return bytes.Clone(said)
}
