package proxy

import (
	"fmt"
	"iter"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// answers looks up the requests that a message from the server answers, by ID.
type answers struct {
	lists  func(jsonrpc.ID) bool       // reports whether the request was tools/list
	called func(jsonrpc.ID) injections // returns the injections for the result of a tools/call
	fault  *fault                      // of the call that it answers alone; nil for none
}

// change records a message from the server and returns the message for the agent. If the
// two differ, both are recorded.
func (s *server) change(raw []byte, batch bool, a answers, record func(evidence.Frame)) []byte {
	if a.fault.hides() && !batch {
		record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Side: evidence.SideServer})
		seen, injected := inject(raw, batch, a.called)
		s.recordInjected(injected)
		a.fault.answered(seen, injected)
		return seen
	}
	if s.tools == nil && len(s.Inject) == 0 {
		record(evidence.Frame{Dir: evidence.ToClient, Raw: raw})
		return raw
	}
	seen, injected := inject(s.tools.removeHidden(raw, batch, a.lists), batch, a.called)
	if len(seen) == len(raw) && len(injected) == 0 {
		record(evidence.Frame{Dir: evidence.ToClient, Raw: raw})
		return raw
	}
	record(evidence.Frame{Dir: evidence.ToClient, Raw: raw, Side: evidence.SideServer})
	record(evidence.Frame{Dir: evidence.ToClient, Raw: seen, Side: evidence.SideAgent, Injected: injected})
	s.recordInjected(injected)
	return seen
}

// recordInjected records an event for each injection added to a result.
func (s *server) recordInjected(numbers []int) {
	for _, number := range numbers {
		i := slices.IndexFunc(s.Inject, func(one Injection) bool { return one.Number == number })
		s.events.Add(evidence.EventInjection, fmt.Sprintf("injection %d is in a result of tool %q", number, s.Inject[i].Tool),
			map[string]any{evidence.DataInjection: number, "tool": s.Inject[i].Tool})
	}
}

// objects yields the elements of a batch, or the body itself if it is not a batch.
func objects(raw []byte, batch bool) iter.Seq[[]byte] {
	if batch {
		return jsontext.Elements(raw)
	}
	return func(yield func([]byte) bool) { yield(raw) }
}

// edit replaces the bytes [from, to) of a message with text.
type edit struct {
	from, to int
	text     []byte
}

// spanOf returns the range of part within whole. part must be a slice of whole.
func spanOf(whole, part []byte) edit {
	from := cap(whole) - cap(part)
	return edit{from: from, to: from + len(part)}
}

// applyEdits returns raw with edits applied, which must not overlap. Without edits it returns
// raw itself.
func applyEdits(raw []byte, edits []edit) []byte {
	if len(edits) == 0 {
		return raw
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	size := len(raw)
	for _, e := range edits {
		size += len(e.text) + e.from - e.to
	}
	out := make([]byte, 0, size)
	at := 0
	for _, e := range edits {
		out = append(append(out, raw[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, raw[at:]...)
}
