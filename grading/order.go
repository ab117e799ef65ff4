package grading

import (
	"slices"

	"github.com/waza-isolate/waza/evidence/capture"
)

// order is the known order of uses. MCP calls are ordered as on the wire, and builtin uses
// as in the transcript. The position of a call among the builtin uses is known only if the
// transcript contains the call. Otherwise it is only limited by the neighboring calls.
type order struct {
	all        []capture.Use // in one of the possible orders
	calls, own []capture.Use
	// Minimum and maximum number of entries of own before each call. Both increase.
	least, most []int
}

// newOrder orders uses. If the transcript contradicts the order of calls on the wire, the
// positions of calls among builtin uses are unknown.
func newOrder(uses []capture.Use) order {
	o := order{all: uses}
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

// unknown returns the first call whose position among builtin uses is unknown.
func (o *order) unknown() (call capture.Use) {
	for i := range o.calls {
		if o.least[i] < o.most[i] {
			return o.calls[i]
		}
	}
	return call
}

// reach is the progress of a walk at a place that several orders may reach: the least and the most.
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

// walk goes through the uses in every possible order, and returns the minimum and maximum
// progress. step returns the progress after the next use, given progress k and the position
// of the use, from 0. It must be monotonic in k.
//
// It visits each pair of a call and a builtin use once rather than each order, since later
// progress depends on k only.
func (o *order) walk(step func(k, position int, use capture.Use) int) (worst, best int) {
	row := make([]reach, len(o.own)+1) // indexed by the number of builtin uses so far, for the calls so far
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
