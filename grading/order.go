package grading

import "github.com/waza-isolate/waza/capture"

// order is what is known of the order of uses. MCP calls follow each other as on the
// wire, and builtin uses as in the transcript. How the two mix is known where the
// transcript has a call as well: it stands between the builtin uses around it there. Any
// other call stands somewhere between its neighbours.
type order struct {
	calls, own []capture.Use
	// By call: how many of own come before it, at least and at most. Both rise.
	least, most []int
}

// newOrder orders uses, which hold calls and then builtin uses. A transcript whose order
// of calls contradicts the wire says nothing about the mix.
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
			place := o.reportedBefore(call.Reported)
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

// reportedBefore counts the builtin uses before a place in the transcript.
func (o *order) reportedBefore(place int) int {
	low, high := 0, len(o.own)
	for low < high {
		if mid := (low + high) / 2; o.own[mid].Reported < place {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// unknown is the first call whose place among builtin uses is not known.
func (o *order) unknown() (call capture.Use, found bool) {
	for i := range o.calls {
		if o.least[i] < o.most[i] {
			return o.calls[i], true
		}
	}
	return capture.Use{}, false
}

// possible is one order that the uses may have had.
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

// reach is how far a walk got at a place that may be reached in several orders: in
// the worst of them and in the best.
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

// walk goes through the uses in every order that they may have had and returns how
// far it gets at least and at most. step says how far k becomes with the next use,
// the one at a position from 0; it must not fall behind for a larger k.
//
// It visits each pair of a call and a builtin use once, not each order: what a later
// step makes of where an earlier one got to does not depend on the way there.
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
