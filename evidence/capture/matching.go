package capture

import "github.com/waza-isolate/waza/evidence"

// matching is a maximum matching in progress, of uses whose names may refer to several tools. It matters more
// how many uses have a call than which call they have, so pairs have no weights. Calls are in groups, since a
// hostile transcript may have many uses that fit many calls.
type matching struct {
	*Pairing
	calls  map[evidence.ToolRef]*group
	same   map[withInput]*group // calls of the tool with these arguments
	named  map[string][]*group  // of calls, by reported name
	open   [][2][]*group        // choices of each use, set when it is added
	holder []int                // use of each call, or none; a call that has a use always keeps one
	state  []callState          // state of each call
	seen   []int                // calls that the current search has visited
	search int                  // number of the current search
	failed int                  // number of searches without a result
	looks  int                  // number of calls looked at, in all searches
}

type callState byte

const (
	unseen callState = iota
	seen             // by the current search
	spent            // by a search without a result: later searches cannot succeed there either
)

// withInput is a tool with the canonical form of arguments.
type withInput struct {
	evidence.ToolRef
	input string
}

// group is a set of calls, each of which may be that of a use.
type group struct {
	free   []int // all calls without a use, perhaps after some that have one
	calls  []int // all calls that are not spent, perhaps with some spent since failed was updated
	failed int
	rest   []int // all of calls that the current search has not seen, perhaps with some that it has
	search int
}

func newMatching(p *Pairing) *matching {
	m := &matching{
		Pairing: p, calls: map[evidence.ToolRef]*group{}, same: map[withInput]*group{},
		named: map[string][]*group{}, open: make([][2][]*group, len(p.reported)),
		holder: make([]int, len(p.calls)), state: make([]callState, len(p.calls)),
	}
	for i, call := range p.calls {
		m.holder[i] = none
		if p.taken[i] {
			continue
		}
		ref := call.ToolRef()
		put(m.calls, ref, i)
		put(m.same, withInput{ref, p.input[i]}, i)
	}
	return m
}

func put[K comparable](groups map[K]*group, key K, call int) {
	g := groups[key]
	if g == nil {
		g = &group{}
		groups[key] = g
	}
	g.free, g.calls = append(g.free, call), append(g.calls, call)
}

// add pairs a use with a call, if possible.
func (m *matching) add(use int) {
	m.open[use] = m.choices(m.reported[use])
	m.search++
	after := unseen
	if !m.augment(use) {
		m.failed++
		after = spent
	}
	for _, call := range m.seen {
		m.state[call] = after
	}
	m.seen = m.seen[:0]
}

// augment finds a call for a use; if necessary, it gives other uses another call.
func (m *matching) augment(use int) bool {
	for _, groups := range m.open[use] {
		for _, g := range groups {
			if call := m.firstFree(g); call != none {
				m.holder[call] = use
				return true
			}
		}
	}
	for _, groups := range m.open[use] {
		for _, g := range groups {
			for call := m.firstUnseen(g); call != none; call = m.firstUnseen(g) {
				if m.augment(m.holder[call]) {
					m.holder[call] = use
					return true
				}
			}
		}
	}
	return false
}

// firstFree returns the first unpaired call of g, or none.
func (m *matching) firstFree(g *group) int {
	for ; len(g.free) > 0; g.free = g.free[1:] {
		m.looks++
		if call := g.free[0]; m.holder[call] == none {
			return call
		}
	}
	return none
}

// firstUnseen returns the first call of g that the current search has not seen, and marks it as seen.
func (m *matching) firstUnseen(g *group) int {
	if g.search != m.search {
		if g.failed != m.failed {
			m.looks += len(g.calls)
			g.calls, g.failed = only(g.calls, func(i int) bool { return m.state[i] != spent }), m.failed
		}
		g.rest, g.search = g.calls, m.search
	}
	for len(g.rest) > 0 {
		m.looks++
		call := g.rest[0]
		g.rest = g.rest[1:]
		if m.state[call] == unseen {
			m.state[call] = seen
			m.seen = append(m.seen, call)
			return call
		}
	}
	return none
}

// choices returns the calls that a use may refer to: first those with its arguments, then any. A bare name
// may refer to a builtin tool, so it gets only calls with its arguments.
func (m *matching) choices(t reportedUse) (groups [2][]*group) {
	if t.form != "" {
		for _, ref := range t.means.Tools {
			if g := m.same[withInput{ref, t.form}]; g != nil {
				groups[0] = append(groups[0], g)
			}
		}
	}
	if t.means.Bare && !m.namesTools {
		return groups
	}
	if _, known := m.named[t.name]; !known {
		m.named[t.name] = nil
		for _, ref := range t.means.Tools {
			if g := m.calls[ref]; g != nil {
				m.named[t.name] = append(m.named[t.name], g)
			}
		}
	}
	groups[1] = m.named[t.name]
	return groups
}
