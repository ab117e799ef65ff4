package capture

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// Pairing says which captured call each use in the transcript is. As many are paired as can be,
// of those as many as can be with equal arguments, of those with the outcome and the
// result that is told, and what is then alike in order. So in whatever order a
// transcript tells of calls made at once, the same are left over.
type Pairing struct {
	tools    map[string][]string
	reported []telling
	calls    []evidence.Call
	call     []int // by telling: index of its call, or none
	taken    []bool

	input []string // by call: its arguments in canonical form; none where nothing is told
	// namesServers is set where the transcript has names with a server's in them, so
	// that a bare one is the agent's own tool; namesTools where it has none of those
	// and bare ones that are captured calls, so that a bare one is a server's.
	namesServers, namesTools bool
}

const none = -1

// Pair compares the uses of tools in a transcript with the calls that were captured.
// tools is as of [Tools].
func Pair(tools map[string][]string, calls []evidence.Call, transcript []evidence.TranscriptEvent) *Pairing {
	reported := tellings(tools, transcript)
	p := &Pairing{tools: tools, reported: reported, calls: calls, taken: make([]bool, len(calls))}
	if len(reported) == 0 {
		return p
	}
	for range reported {
		p.call = append(p.call, none)
	}
	for _, call := range calls {
		form, _ := jsonvalue.Canonical(call.Arguments)
		p.input = append(p.input, form)
	}
	p.exact()
	for i, t := range reported {
		if t.means.claims() && !t.means.Bare {
			p.namesServers = true
		} else if p.call[i] != none {
			p.namesTools = true
		}
	}
	p.namesTools = p.namesTools && !p.namesServers
	if p.namesTools {
		p.remaining(func(t telling) bool { return t.means.Bare })
	}
	p.ambiguous()
	return p
}

// exact pairs what names one tool: names that say their server first, since a bare
// one is a call only where its arguments are.
func (p *Pairing) exact() {
	p.within(func(reported, calls []int) {
		qualified := func(i int) bool { return !p.reported[i].means.Bare }
		p.refine(only(reported, qualified), calls, levels())
		p.refine(only(reported, func(i int) bool { return !qualified(i) }), p.free(calls), levels())
	})
	p.remaining(func(t telling) bool { return !t.means.Bare })
}

// remaining pairs in order what is left of those that qualify.
func (p *Pairing) remaining(qualifies func(telling) bool) {
	p.within(func(reported, calls []int) {
		reported = only(reported, func(i int) bool { return p.call[i] == none && qualifies(p.reported[i]) })
		p.inOrder(reported, p.free(calls))
	})
}

// within takes up each tool that is named without doubt, with its tellings and calls.
func (p *Pairing) within(take func(reported, calls []int)) {
	calls := map[evidence.ToolRef][]int{}
	for i, call := range p.calls {
		ref := evidence.ToolRef{Server: call.Server, Tool: call.Tool}
		calls[ref] = append(calls[ref], i)
	}
	reported := map[evidence.ToolRef][]int{}
	for i, t := range p.reported {
		if t.means.Kind == NameTool {
			reported[t.means.Tools[0]] = append(reported[t.means.Tools[0]], i)
		}
	}
	for ref, some := range reported {
		take(some, calls[ref])
	}
}

// level is something that a telling and a call may have the same of: they do where
// both have a key and it is one.
type level struct {
	reported func(*Pairing, int) (string, bool)
	call     func(*Pairing, int) (string, bool)
}

// levels are from the coarsest. Each divides the classes of the one before, so pairing
// the finest first loses no pair of a coarser.
func levels() []level {
	return []level{
		{
			reported: func(p *Pairing, i int) (string, bool) { return p.reported[i].form, p.reported[i].form != "" },
			call:     func(p *Pairing, i int) (string, bool) { return p.input[i], p.input[i] != "" },
		}, {
			reported: func(p *Pairing, i int) (string, bool) {
				return outcomeKey(p.reported[i].success != nil && *p.reported[i].success), p.reported[i].success != nil
			},
			call: func(p *Pairing, i int) (string, bool) {
				return outcomeKey(p.calls[i].Outcome == evidence.OutcomeOK), true
			},
		}, {
			reported: func(p *Pairing, i int) (string, bool) {
				return reportedText(p.reported[i].result), len(p.reported[i].result) > 0
			},
			call: func(p *Pairing, i int) (string, bool) {
				return readContent(p.calls[i].Result).text, len(p.calls[i].Result) > 0
			},
		},
	}
}

func outcomeKey(ok bool) string {
	if ok {
		return "ok"
	}
	return "failed"
}

// refine pairs those that share the first level's key, and of them first those that
// share the next one's too.
func (p *Pairing) refine(reported, calls []int, levels []level) {
	if len(reported) == 0 || len(calls) == 0 {
		return
	}
	reportedBy, callsBy := map[string][]int{}, map[string][]int{}
	for _, i := range reported {
		if key, ok := levels[0].reported(p, i); ok {
			reportedBy[key] = append(reportedBy[key], i)
		}
	}
	for _, i := range calls {
		if key, ok := levels[0].call(p, i); ok {
			callsBy[key] = append(callsBy[key], i)
		}
	}
	for key, some := range reportedBy {
		calls := callsBy[key]
		if len(levels) > 1 && len(some)+len(calls) > 2 {
			p.refine(some, calls, levels[1:])
		}
		p.inOrder(only(some, func(i int) bool { return p.call[i] == none }), p.free(calls))
	}
}

func (p *Pairing) inOrder(reported, calls []int) {
	for i := range min(len(reported), len(calls)) {
		p.call[reported[i]], p.taken[calls[i]] = calls[i], true
	}
}

func (p *Pairing) free(calls []int) []int {
	return only(calls, func(i int) bool { return !p.taken[i] })
}

func only(all []int, keep func(int) bool) []int {
	return slices.DeleteFunc(slices.Clone(all), func(i int) bool { return !keep(i) })
}

// builtin reports whether a telling may be of a tool of the agent's own.
func (p *Pairing) builtin(i int) bool {
	means := p.reported[i].means
	return !means.claims() || means.Bare && p.call[i] == none && !p.namesTools
}

// claim is a telling for the record.
func (p *Pairing) claim(i int) evidence.Claim {
	t := p.reported[i]
	c := evidence.Claim{Number: i + 1, ID: t.id, Name: t.name, Arguments: validJSON(t.arguments), Tools: t.means.Tools}
	if p.call[i] != none {
		c.Call = p.calls[p.call[i]].Seq
	}
	return c
}

func validJSON(raw json.RawMessage) json.RawMessage {
	if jsontext.Valid(raw) {
		return raw
	}
	return nil
}

// unreported returns the numbers of the calls that are not in the transcript.
func (p *Pairing) unreported() []int {
	var seqs []int
	for i, call := range p.calls {
		if !p.taken[i] {
			seqs = append(seqs, call.Seq)
		}
	}
	slices.SortFunc(seqs, cmp.Compare)
	return seqs
}

// ambiguous pairs names of several tools with calls that have no other telling: a
// maximum matching, by augmenting paths.
func (p *Pairing) ambiguous() {
	m := newMatching(p)
	for i, t := range p.reported {
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
		named: map[string][]*group{}, open: make([][2][]*group, len(p.reported)),
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
	m.open[telling] = m.choices(m.reported[telling])
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
