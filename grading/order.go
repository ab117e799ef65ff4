package grading

import (
	"slices"

	"github.com/waza-isolate/waza/capture"
)

// order is what is known of the order of uses. MCP calls are in the order of the wire, and builtin
// uses in that of the transcript. The place of a call among builtin uses is known where the
// transcript has the call too: between the builtin uses around it there. Any other call is
// somewhere between its neighbours.
type order struct {
	calls, own []capture.Use
	// By call: how many of own come before it, at least and at most. Both rise.
	least, most []int
}

// newOrder orders uses, which are calls and then builtin uses. A transcript whose order of calls
// contradicts the wire says nothing about the places of calls among builtin uses.
func newOrder(uses []capture.Use) order {
	o := order{}
	for _, use := range uses {
		if use.Call != nil {
			o.calls = append(o.calls, use)
		} else {
			o.own = append(o.own, use)
		}
	}
	if !o.bound() {
		for i := range o.calls {
			o.least[i], o.most[i] = 0, len(o.own)
		}
	}
	return o
}

// bound sets least and most, and reports whether they make sense.
func (o *order) bound() bool {
	o.least, o.most = make([]int, len(o.calls)), make([]int, len(o.calls))
	before := 0
	for i, call := range o.calls {
		if call.Reported > 0 {
			place, _ := slices.BinarySearchFunc(o.own, call.Reported, func(use capture.Use, at int) int { return use.Reported - at })
			if place < before {
				return false
			}
			before = place
		}
		o.least[i] = before
	}
	after := len(o.own)
	for i := len(o.calls) - 1; i >= 0; i-- {
		if o.calls[i].Reported > 0 {
			after = o.least[i]
		}
		o.most[i] = after
	}
	return true
}

// unknown returns the first call whose place among builtin uses is not known; there is one where
// orders differ.
func (o *order) unknown() (call capture.Use) {
	for i := range o.calls {
		if o.least[i] < o.most[i] {
			return o.calls[i]
		}
	}
	return call
}

// possible returns one order that the uses may have had.
func (o *order) possible() []capture.Use {
	var all []capture.Use
	done := 0
	for i, call := range o.calls {
		all = append(all, o.own[done:o.least[i]]...)
		done = o.least[i]
		all = append(all, call)
	}
	return append(all, o.own[done:]...)
}

// reach is how far a walk got at a place that may be reached in several orders: in the worst and in
// the best of them.
type reach struct {
	worst, best int
	there       bool
}

func (r reach) or(other reach) reach {
	switch {
	case !r.there:
		return other
	case !other.there:
		return r
	}
	return reach{min(r.worst, other.worst), max(r.best, other.best), true}
}

// walk goes through the uses in every order that they may have had, and returns how far it gets at
// least and at most. step returns how far a walk that has come to k gets with the next use, which
// is at a position from 0; it must not return less for a larger k.
//
// It visits each pair of a call and a builtin use once, not each order: how far later steps get
// does not depend on the way by which k was reached.
func (o *order) walk(step func(k, position int, use capture.Use) int) (worst, best int) {
	row := make([]reach, len(o.own)+1) // by builtin uses so far, for the calls so far
	row[0].there = true
	next := func(r reach, position int, use capture.Use) reach {
		return reach{step(r.worst, position, use), step(r.best, position, use), r.there}
	}
	first := 0
	for i := range len(o.calls) + 1 {
		last := len(o.own)
		if i < len(o.calls) {
			last = o.most[i]
		}
		for j := first; j < last; j++ {
			row[j+1] = row[j+1].or(next(row[j], i+j, o.own[j]))
		}
		if i == len(o.calls) {
			break
		}
		first = o.least[i]
		for j := first; j <= last; j++ {
			row[j] = next(row[j], i+j, o.calls[i])
		}
	}
	end := row[len(o.own)]
	return end.worst, end.best
}
