package capture

import "github.com/waza-isolate/waza/evidence"

// matching is a maximum matching in progress, of uses with names that may be those of several
// tools. Which use has which call matters less than how many have one, so pairs have no
// weights, and calls are in groups: a hostile transcript may have many uses that fit many calls.
type matching struct {
	*Pairing
	calls  map[evidence.ToolRef]*group
	same   map[withInput]*group // those that have these arguments too
	named  map[string][]*group  // of calls, by reported name
	open   [][2][]*group        // by use, once it is added: its choices
	holder []int                // by call: its use, or none; a call that has one keeps having one
	state  []callState          // by call
	seen   []int                // calls that this search has visited
	search int                  // number of this search
	failed int                  // searches that found nothing
	looks  int                  // at calls, in all searches
}

type callState byte

const (
	unseen callState = iota
	seen             // by this search
	spent            // by a search that found nothing: no later one will find anything there
)

// withInput is a tool with the canonical form of arguments.
type withInput struct {
	evidence.ToolRef
	input string
}

// group is calls of which a use may be any.
type group struct {
	free   []int // begins with calls that may have a use; all that have none are in it
	calls  []int // all that are not spent, and some that are spent since failed was that number
	failed int
	rest   []int // all of calls that the search has not seen, and some that it has
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

// add finds a call for a use, if there is one.
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

// augment finds a call for a use, if need be by giving other uses another call.
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

// firstUnseen returns the first call of g that this search has not seen, and marks it as seen.
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

// choices returns the calls that a use may be: those with its arguments, and then any. A bare name
// may be no call at all, so it gets none with other arguments.
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
