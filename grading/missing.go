package grading

import (
	"slices"

	"github.com/waza-isolate/waza/capture"
)

// missing lists the expected entries that no use is left for, each use standing for
// one entry. As many entries as possible get one, so the count does not depend on
// the order of either.
func (q *sequence) missing() []string {
	a := assignment{taken: map[string][]int{}, room: map[string]int{}, fits: make([][]string, len(q.expected))}
	kinds := map[string]capture.Use{} // one use of each name: all of a name fit alike
	for _, use := range q.all() {
		a.room[q.name(use)]++
		kinds[q.name(use)] = use
	}
	names := sortedKeys(kinds)
	var missing []string
	for i, expected := range q.expected {
		for _, name := range names {
			if q.is(expected, kinds[name]) {
				a.fits[i] = append(a.fits[i], name)
			}
		}
		if !a.place(i, map[string]bool{}) {
			missing = append(missing, expected)
		}
	}
	return missing
}

// assignment gives each entry a use of a name that fits it.
type assignment struct {
	fits  [][]string       // by entry: names that fit it
	room  map[string]int   // by name: how many uses there are
	taken map[string][]int // by name: the entries that have one
}

// place finds a use for entry i, and moves others to another use of theirs where
// that makes room.
func (a *assignment) place(i int, tried map[string]bool) bool {
	for _, name := range a.fits[i] {
		if tried[name] {
			continue
		}
		tried[name] = true
		if len(a.taken[name]) < a.room[name] {
			a.taken[name] = append(a.taken[name], i)
			return true
		}
		for n, other := range a.taken[name] {
			if a.place(other, tried) {
				a.taken[name] = slices.Replace(a.taken[name], n, n+1, i)
				return true
			}
		}
	}
	return false
}
