package match

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Call is one call of a tool.
type Call struct {
	Server, Tool string
	Arguments    json.RawMessage // empty for none
	OK           bool            // the call succeeded
	ReadOnly     bool            // the call is known to change nothing
	Unanswered   bool            // not OK, but may have had its effect: it fills no slot, and may be an excess call
	Excused      bool            // it may fill a slot, and is never an excess call
}

// Result says which call matches which expectation. Both are given by their index in the
// arguments of [Match].
type Result struct {
	Pairs   []Pair      // in order of calls
	Missing []Missing   // in order of expectations
	Unsure  []Pair      // unanswered calls that match a slot which no other call fills
	TooMuch []Unmatched // excess calls: the mode does not allow them in addition to the expected ones
}

// Pair is a call that matches an expectation.
type Pair struct {
	Expected, Call int
	// Optional is true for a call beyond the Min of the expectation, and always with Subset. Such a call
	// satisfies all constraints.
	Optional bool
	Fit
}

// Missing counts slots of an expectation that no call fills.
type Missing struct {
	Expected int
	Count    int
	Nearest  *Nearest // nil if no call is close
}

// Unmatched is a call that matches no expectation.
type Unmatched struct {
	Call int
	// Expected is an expectation that names the call's tool, or -1. Other calls match it already, or it
	// expects other arguments.
	Expected int
	Fit      // to that expectation
}

// Match pairs calls with expectations. Among all pairings, which with [InOrder] and [Exact] must keep both
// orders, it chooses one that
//
//   - fills the most required slots,
//   - then has the largest sum, over these slots, of the share of constraints that the arguments satisfy,
//   - then leaves the fewest excess calls,
//   - then fills the most optional slots.
//
// A call of the expected tool fills a required slot whatever its arguments are. An optional slot, which is
// one beyond Min and every slot with [Subset], is filled only by a call that satisfies all constraints. The
// result does not depend on the order of the expectations, nor, in modes without order, on the order of the
// calls, except for the choice between equal calls.
//
// An unanswered call whose arguments satisfy all constraints may match a slot that no other call fills. Then
// it is not an excess call, but the slot is still unfilled.
func Match(mode Mode, expected []Expected, calls []Call) Result {
	m := newMatching(mode, expected, calls)
	if mode.ordered() {
		m.inOrder()
	} else {
		m.anyOrder()
	}
	return m.result()
}

// matching is a Match in progress.
type matching struct {
	mode     Mode
	expected []Expected
	all      []Call
	given    []any            // decoded arguments, by index in all
	live     []int            // indexes in all of the calls that succeeded or were not answered
	shares   [][]int64        // by expectation and call: share of satisfied constraints, or none
	slots    []quota          // by expectation
	paired   map[int]standing // by index in all
}

// none in shares means that the expectation does not name the tool.
const none = -1

// quota is the number of calls that an expectation can take in this mode.
type quota struct {
	required int
	optional int  // calls beyond the required ones
	free     bool // there are enough optional slots for all calls that fit one
}

type standing struct {
	expected int
	optional bool
}

func newMatching(mode Mode, expected []Expected, calls []Call) *matching {
	m := &matching{
		mode: mode, expected: expected, all: calls,
		given: make([]any, len(calls)), paired: map[int]standing{},
	}
	for i, call := range calls {
		m.given[i] = decode(call.Arguments)
		if call.OK || call.Unanswered {
			m.live = append(m.live, i)
		}
	}
	if !mode.ordered() {
		m.arrange()
	}
	for e := range expected {
		m.shares = append(m.shares, m.sharesOf(e))
		m.slots = append(m.slots, m.quotaOf(e))
	}
	return m
}

// arrange sorts the calls, so that the result does not depend on their order.
func (m *matching) arrange() {
	forms := make([]string, len(m.all))
	for _, i := range m.live {
		forms[i] = jsontext.Form(m.given[i])
	}
	slices.SortStableFunc(m.live, func(i, j int) int {
		a, b := m.all[i], m.all[j]
		return cmp.Or(cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool), cmp.Compare(forms[i], forms[j]),
			cmp.Compare(Effects.unmatchedWeight(a), Effects.unmatchedWeight(b)))
	})
}

func (m *matching) sharesOf(e int) []int64 {
	shares := make([]int64, len(m.all))
	for i, call := range m.all {
		shares[i] = none
		for _, target := range m.expected[e].Targets {
			if target.Names(call.Server, call.Tool) {
				shares[i] = max(shares[i], shareOf(target.Args.fit(m.given[i], false)))
			}
		}
	}
	return shares
}

func (m *matching) quotaOf(e int) quota {
	would := 0
	for _, i := range m.live {
		if m.shares[e][i] == whole {
			would++
		}
	}
	q := quota{required: m.expected[e].Min, optional: m.expected[e].Max - m.expected[e].Min}
	if m.mode == Subset {
		q = quota{optional: m.expected[e].Max}
	}
	q.free = m.expected[e].Max == Unlimited || q.optional >= would
	return q
}

// weightOf returns the weight of matching call j with expectation e, and false if it does not
// match.
func (m *matching) weightOf(e, j int, optional bool) (weight, bool) {
	call := m.all[m.live[j]]
	share := m.shares[e][m.live[j]]
	spared := m.mode.unmatchedWeight(call)
	switch {
	case !call.OK:
		return weight{spared: spared}, share == whole && spared > fine
	case optional:
		return weight{spared: spared + 1}, share == whole
	}
	return weight{1, share, spared}, share != none
}

// inOrder pairs calls with expectations by a longest common subsequence.
func (m *matching) inOrder() {
	var slots []slot
	var stands []standing
	add := func(e int, optional, loops bool) {
		slots = append(slots, slot{loops, func(j int) (weight, bool) { return m.weightOf(e, j, optional) }})
		stands = append(stands, standing{e, optional})
	}
	for e, q := range m.slots {
		for range q.required {
			add(e, false, false)
		}
		if q.free {
			add(e, true, true)
			continue
		}
		for range q.optional {
			add(e, true, false)
		}
	}
	for j, s := range align(slots, len(m.live)) {
		if s >= 0 {
			m.paired[m.live[j]] = stands[s]
		}
	}
}

// anyOrder pairs calls with expectations by a bipartite matching.
func (m *matching) anyOrder() {
	order := m.expectations()
	free := m.free(order)
	var rows []row
	var stands []standing
	add := func(e, capacity int, optional bool) {
		made := row{capacity: capacity}
		for j := range m.live {
			value, ok := m.weightOf(e, j, optional)
			if free[j] >= 0 { // the call is not in excess without this slot
				value.spared = -1
				ok = ok && !optional && m.all[m.live[j]].OK
			}
			if ok {
				made.edges = append(made.edges, edge{j, value})
			}
		}
		rows = append(rows, made)
		stands = append(stands, standing{e, optional})
	}
	for _, e := range order {
		add(e, m.slots[e].required, false)
		if !m.slots[e].free {
			add(e, m.slots[e].optional, true)
		}
	}
	for j, r := range assign(rows, len(m.live)) {
		switch {
		case r >= 0:
			m.paired[m.live[j]] = stands[r]
		case free[j] >= 0:
			m.paired[m.live[j]] = standing{free[j], true}
		}
	}
}

// expectations returns the indexes of the expectations in an order that does not depend on the order in which
// they were listed.
func (m *matching) expectations() []int {
	order := make([]int, len(m.expected))
	for e := range order {
		order[e] = e
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(m.expected[a].key(), m.expected[b].key()) })
	return order
}

// free returns, for each live call, the first expectation in order whose optional slots suffice for all calls
// that fit it, if the call does; otherwise -1.
func (m *matching) free(order []int) []int {
	found := make([]int, len(m.live))
	for j, i := range m.live {
		found[j] = -1
		for _, e := range order {
			if m.slots[e].free && m.shares[e][i] == whole {
				found[j] = e
				break
			}
		}
	}
	return found
}
