package capture

import (
	"iter"

	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/runner/evidence"
)

// ambiguous pairs names of several tools with calls that nothing else tells of: a
// maximum matching, by augmenting paths.
func (p *pairing) ambiguous() {
	m := newMatching(p)
	for i, t := range p.told {
		if t.means.Kind != NameAmbiguous {
			continue
		}
		seen := map[int]bool{}
		if !m.augment(i, seen) && len(seen) > 0 {
			m.drop(seen)
		}
	}
	for call, telling := range m.teller {
		p.call[telling], p.taken[call] = call, true
	}
}

// matching is a maximum matching under way.
type matching struct {
	*pairing
	calls  map[evidence.ToolRef][]int
	same   map[withInput][]int // those that have these arguments too
	teller map[int]int         // by call
}

// withInput is a tool called with arguments, in canonical form.
type withInput struct {
	evidence.ToolRef
	input string
}

func newMatching(p *pairing) *matching {
	m := &matching{pairing: p, calls: map[evidence.ToolRef][]int{}, same: map[withInput][]int{}, teller: map[int]int{}}
	for i, call := range p.calls {
		if p.taken[i] {
			continue
		}
		ref := evidence.ToolRef{Server: call.Server, Tool: call.Tool}
		m.calls[ref] = append(m.calls[ref], i)
		m.same[withInput{ref, p.input[i]}] = append(m.same[withInput{ref, p.input[i]}], i)
	}
	return m
}

// augment finds a call for a telling, where need be by giving others another one.
func (m *matching) augment(telling int, seen map[int]bool) bool {
	for call := range m.candidates(telling) {
		if _, used := m.teller[call]; !used {
			m.teller[call] = telling
			return true
		}
	}
	for call := range m.candidates(telling) {
		if seen[call] {
			continue
		}
		seen[call] = true
		if m.augment(m.teller[call], seen) {
			m.teller[call] = telling
			return true
		}
	}
	return false
}

// drop takes calls out that a search came by which found nothing: no later one will
// find anything there.
func (m *matching) drop(seen map[int]bool) {
	left := func(i int) bool { return !seen[i] }
	for ref, calls := range m.calls {
		m.calls[ref] = only(calls, left)
	}
	for key, calls := range m.same {
		m.same[key] = only(calls, left)
	}
}

// candidates are the calls that a telling may be, those with its arguments first. A
// bare name need be no call, so others are none of its.
func (m *matching) candidates(telling int) iter.Seq[int] {
	t := m.told[telling]
	form, known := jsonvalue.Canonical(t.input())
	return func(yield func(int) bool) {
		for _, ref := range t.means.Tools {
			for _, call := range m.same[withInput{ref, form}] {
				if known && !yield(call) {
					return
				}
			}
		}
		for _, ref := range t.means.Tools {
			for _, call := range m.calls[ref] {
				if (!t.means.Bare || m.namesTools) && !yield(call) {
					return
				}
			}
		}
	}
}
