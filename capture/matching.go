package capture

import "github.com/waza-isolate/waza/evidence"

// ambiguous pairs names of several tools with calls that nothing else tells of: a
// maximum matching, by augmenting paths.
func (p *Pairing) ambiguous() {
	m := newMatching(p)
	for i, t := range p.told {
		if t.means.Kind == NameAmbiguous {
			m.add(i)
		}
	}
	for call, telling := range m.teller {
		if telling != none {
			p.call[telling], p.taken[call] = call, true
		}
	}
}

// matching is a maximum matching under way.
type matching struct {
	*Pairing
	calls  map[evidence.ToolRef]*group
	same   map[withInput]*group // those that have these arguments too
	named  map[string][]*group  // of calls, by the name that is told
	open   [][2][]*group        // by telling, once it is added: its choices
	teller []int                // by call, or none; a call that has one never goes without again
	state  []callState          // by call
	seen   []int                // calls that this search came by
	search int                  // its number
	failed int                  // searches that found nothing
	looks  int                  // at calls, of all searches
}

type callState byte

const (
	unseen callState = iota
	seen             // by this search
	spent            // by one that found nothing: no later one will find anything there
)

// withInput is a tool called with arguments, in canonical form.
type withInput struct {
	evidence.ToolRef
	input string
}

// group is calls that a telling may be, any of them.
type group struct {
	free   []int // all that have no telling, behind some that have one
	calls  []int // all that are not spent, and those spent since failed was so many
	failed int
	rest   []int // all of calls that search has not seen, behind some that it has
	search int
}

func newMatching(p *Pairing) *matching {
	m := &matching{
		Pairing: p, calls: map[evidence.ToolRef]*group{}, same: map[withInput]*group{},
		named: map[string][]*group{}, open: make([][2][]*group, len(p.told)),
		teller: make([]int, len(p.calls)), state: make([]callState, len(p.calls)),
	}
	for i, call := range p.calls {
		m.teller[i] = none
		if p.taken[i] {
			continue
		}
		ref := evidence.ToolRef{Server: call.Server, Tool: call.Tool}
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

// add finds a call for a telling, if there is one.
func (m *matching) add(telling int) {
	m.open[telling] = m.choices(m.told[telling])
	m.search++
	after := unseen
	if !m.augment(telling) {
		m.failed++
		after = spent
	}
	for _, call := range m.seen {
		m.state[call] = after
	}
	m.seen = m.seen[:0]
}

// augment finds a call for a telling, where need be by giving others another one.
func (m *matching) augment(telling int) bool {
	for _, groups := range m.open[telling] {
		for _, g := range groups {
			if call := m.firstFree(g); call != none {
				m.teller[call] = telling
				return true
			}
		}
	}
	for _, groups := range m.open[telling] {
		for _, g := range groups {
			for call := m.firstUnseen(g); call != none; call = m.firstUnseen(g) {
				if m.augment(m.teller[call]) {
					m.teller[call] = telling
					return true
				}
			}
		}
	}
	return false
}

// firstFree is the first call of g that has no telling.
func (m *matching) firstFree(g *group) int {
	for ; len(g.free) > 0; g.free = g.free[1:] {
		m.looks++
		if call := g.free[0]; m.teller[call] == none {
			return call
		}
	}
	return none
}

// firstUnseen is the first call of g that this search has not come by, which it now has.
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

// choices are the calls that a telling may be: those with its arguments, and then any. A
// bare name need be no call, so others are none of its.
func (m *matching) choices(t telling) (groups [2][]*group) {
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
