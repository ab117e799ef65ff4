package modelstub

import (
	"fmt"
	"regexp"
	"strconv"
)

// mark is what the ids of an answer carry: where in the script it comes from.
type mark struct {
	conversation, turn int
	there              bool
}

var markPattern = regexp.MustCompile(`_waza_(\d{1,6})_(\d{1,6})_`)

// id is an id for the nth thing of the answer to the request whose digest is given.
func (m mark) id(prefix string, n int, digest string) string {
	return fmt.Sprintf("%s_waza_%d_%d_%d_%s", prefix, m.conversation, m.turn, n, digest)
}

// readMark is the mark in an id, and whether there is one.
func readMark(id string) (mark, bool) {
	found := markPattern.FindStringSubmatch(id)
	if found == nil {
		return mark{}, false
	}
	conversation, _ := strconv.Atoi(found[1])
	turn, _ := strconv.Atoi(found[2])
	return mark{conversation, turn, true}, true
}
