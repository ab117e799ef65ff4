package stub

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// mark is what the ids of an answer carry: where in the script it comes from.
type mark struct {
	conversation, turn int
	nth                int // call of the turn, from 1; 0 is the answer as a whole
	there              bool
}

var markPattern = regexp.MustCompile(`_script_(\d{1,6})_(\d{1,6})_(\d{1,6})_`)

// of is the mark of the nth call of m's turn.
func (m mark) of(nth int) mark {
	m.nth = nth
	return m
}

// compare orders marks by turn, and by call in it.
func (m mark) compare(other mark) int {
	return cmp.Or(cmp.Compare(m.turn, other.turn), cmp.Compare(m.nth, other.nth))
}

// id is an id of m's in the answer to the request whose digest is given.
func (m mark) id(prefix, digest string) string {
	return fmt.Sprintf("%s_script_%d_%d_%d_%s", prefix, m.conversation, m.turn, m.nth, digest)
}

// readMark is the mark in an id, and whether there is one.
func readMark(id string) (mark, bool) {
	found := markPattern.FindStringSubmatch(id)
	if found == nil {
		return mark{}, false
	}
	var numbers [3]int
	for i := range numbers {
		numbers[i], _ = strconv.Atoi(found[i+1]) // digits, few enough
	}
	return mark{numbers[0], numbers[1], numbers[2], true}, true
}
