package stub

import (
	"slices"
	"strings"

	"github.com/waza-isolate/waza/model/dialect"
)

// maxUnmarked bounds the turns without ids that are looked into: each may take looking
// at all before it.
const maxUnmarked = 1000

// position is the turn of c that the request asks for: the one after all that its
// history shows. The ids of calls tell; where there are none, a turn counts that calls
// what the script calls next, or says what it says next.
func (c conversation) position(r *request) int {
	next := 0
	if r.previous.there {
		next = r.previous.turn + 1
	}
	for _, m := range r.referenced {
		next = max(next, m.turn+1)
	}
	unmarked := 0
	for i, item := range r.Items {
		if item.Role != dialect.Assistant {
			continue
		}
		if turn, marked := latest(item.Uses); marked {
			next = max(next, turn+1)
			continue
		}
		unmarked++
		if next < len(c.steps) && unmarked < maxUnmarked && c.steps[next].made(r, i) {
			next++
		}
	}
	return next
}

// latest is the last turn that the ids of uses tell of.
func latest(uses []dialect.Use) (turn int, marked bool) {
	for _, use := range uses {
		if m, ok := readMark(use.ID); ok {
			turn, marked = max(turn, m.turn), true
		}
	}
	return turn, marked
}

// made reports whether the nth item looks like what s answers there.
func (s step) made(r *request, nth int) bool {
	item := r.Items[nth]
	switch {
	case s.answer == nil:
		return false
	case len(s.answer.calls) > 0:
		return slices.ContainsFunc(item.Uses, func(use dialect.Use) bool {
			surely, perhaps := s.answer.calls[0].fitting([]offered{{name: use.Name}})
			return len(surely)+len(perhaps) > 0
		})
	}
	text, err := s.answer.say.text(r.results(nth))
	return err == nil && len(item.Uses) == 0 && strings.TrimSpace(item.Text) == strings.TrimSpace(text)
}
