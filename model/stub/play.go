package stub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/template"
	"github.com/waza-isolate/waza/model/dialect"
)

// played is the response to a request: an answer, and the line that it comes from, with a
// description for the log.
type played struct {
	answer dialect.Answer
	line   line
	delay  time.Duration
	what   string
}

// neutral is the answer if the script has none.
const neutral = "OK."

// play determines the response to r. Its error is sent to the agent: the request does not match the
// script.
func (h *handler) play(r *request) (played, error) {
	begins, miss := h.player.Ask("", r.members())
	first := lineOf(begins)
	if miss == nil && first.Conversation == nil {
		return played{answer: newAnswer(r, mark{}, first.text()), what: "aside"}, nil
	}
	if said, is := h.script.asideFor(r); is {
		return played{answer: newAnswer(r, mark{}, said), what: "aside"}, nil
	}
	m := mark{conversation: r.previous.conversation, there: true}
	if !r.previous.there || m.conversation >= len(h.script.conversations) {
		if miss != nil {
			return played{}, fmt.Errorf("no conversation of the script has a when that holds for this request; the user said: %s", excerpt(r.prompt))
		}
		m.conversation = *first.Conversation
	}
	c := h.script.conversations[m.conversation]
	m.turn = c.position(r)
	name := fmt.Sprintf("turn %d%s", m.turn+1, c.suffix())
	if m.turn >= len(c.turns) {
		return played{}, fmt.Errorf("the script is at its end: %s is asked for and there are %d", name, len(c.turns))
	}
	asked := r.results(len(r.Items))
	asked[memberConversation], asked[memberTurn] = number(m.conversation), number(m.turn+1)
	given, miss := h.player.Ask(m.id("", r.digest()), asked)
	switch {
	case miss == nil:
	case miss.Unfilled != nil:
		return played{}, fmt.Errorf("%s: %w", name, miss.Unfilled)
	default:
		return played{}, fmt.Errorf("the script has ended: %s has only troubles, and no response after them", name)
	}
	made := played{line: lineOf(given), delay: given.Delay}
	made.what = name + made.line.trouble()
	if made.line.Fail != nil {
		return made, nil
	}
	var err error
	if made.answer, err = made.line.answer(r, m); err != nil {
		return played{}, fmt.Errorf("%s: %w", name, err)
	}
	return made, nil
}

func (c conversation) suffix() string {
	if c.name == "" {
		return ""
	}
	return " of " + c.name
}

// asideFor reports whether r is not part of a task, although the script has no matching aside, and
// returns its response. This applies to requests that require JSON with a schema, that offer no
// tools although the script calls some, and that agents send to warm up or to check a key.
func (s *Script) asideFor(r *request) (string, bool) {
	if r.Format != nil {
		return example(r.Format), true
	}
	last := strings.TrimSpace(r.last())
	warming := !r.previous.there && len(r.Items) <= 1 && (last == "" || strings.EqualFold(last, "warmup"))
	if warming || r.MaxTokens == 1 || len(r.tools) == 0 && s.callsTools {
		return neutral, true
	}
	return "", false
}

// lineOf decodes the value of an entry, which the script has encoded.
func lineOf(given cassette.Given) (l line) {
	_ = jsontext.Unmarshal(given.Value, &l)
	return l
}

// text returns the text of the line. A value that is not a string is returned as JSON.
func (l line) text() string {
	if len(l.Say) == 0 {
		return ""
	}
	if text, is := jsontext.Decode(l.Say).(string); is {
		return text
	}
	return string(l.Say)
}

// answer returns l as an answer to r.
func (l line) answer(r *request, m mark) (dialect.Answer, error) {
	a := newAnswer(r, m, l.text())
	for _, c := range l.Calls {
		tool, err := c.pick(r.tools)
		if err != nil {
			return dialect.Answer{}, err
		}
		if c.Arguments == nil {
			c.Arguments = json.RawMessage("{}")
		}
		a.Uses = append(a.Uses, dialect.AnswerUse{Tool: tool, Arguments: c.Arguments})
	}
	a.Usage = usageOf(r, a)
	if l.Usage != nil {
		a.Usage = dialect.Usage{Input: l.Usage.Input, Output: l.Usage.Output, Cached: l.Usage.Cached}
	}
	return a, nil
}

// trouble names what happens in place of an answer, for a log.
func (l line) trouble() string {
	switch {
	case l.Fail != nil:
		return fmt.Sprintf(", fail %d", l.Fail.Status)
	case l.StallMS > 0:
		return ", stall"
	case l.Cut != "":
		return ", cut"
	}
	return ""
}

// maxUnmarked is the maximum number of turns without ids that are compared with the script. Each
// comparison may read all earlier turns.
const maxUnmarked = 1000

// position returns the turn of c that follows the turns in the request's history. IDs of
// calls contain their turn. A turn without IDs counts if it matches the next turn of the
// script.
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
		if next < len(c.turns) && unmarked < maxUnmarked && c.turns[next].made(r, i) {
			next++
		}
	}
	return next
}

// latest returns the last turn in the ids of uses, and whether any has one.
func latest(uses []dialect.Use) (turn int, marked bool) {
	for _, use := range uses {
		if m, ok := readMark(use.ID); ok {
			turn, marked = max(turn, m.turn), true
		}
	}
	return turn, marked
}

// made reports whether the nth item looks like the answer of t.
func (t turn) made(r *request, nth int) bool {
	item := r.Items[nth]
	switch {
	case t.end:
		return false
	case t.call != nil:
		return slices.ContainsFunc(item.Uses, func(use dialect.Use) bool {
			surely, perhaps := t.call.fitting([]dialect.ToolName{{Local: use.Name}})
			return len(surely)+len(perhaps) > 0
		})
	}
	values := template.NewVariables()
	for name, value := range r.results(nth) {
		values.Bind(name, value)
	}
	text, err := t.say.String(values)
	return err == nil && len(item.Uses) == 0 && strings.TrimSpace(item.Text) == strings.TrimSpace(text)
}

// mark is a position in the script, which the ids of an answer contain.
type mark struct {
	conversation, turn int
	nth                int // call of the turn, from 1; 0 is the answer as a whole
	there              bool
}

var markPattern = regexp.MustCompile(`_script_(\d{1,6})_(\d{1,6})_(\d{1,6})_`)

// of returns the mark of the nth call of m's turn.
func (m mark) of(nth int) mark {
	m.nth = nth
	return m
}

// compare orders marks by turn, and by call in it.
func (m mark) compare(other mark) int {
	return cmp.Or(cmp.Compare(m.turn, other.turn), cmp.Compare(m.nth, other.nth))
}

// id returns an id that contains m, for the answer to the request with the given digest.
func (m mark) id(prefix, digest string) string {
	return fmt.Sprintf("%s_script_%d_%d_%d_%s", prefix, m.conversation, m.turn, m.nth, digest)
}

// readMark returns the mark in an id, and whether it has one.
func readMark(id string) (mark, bool) {
	found := markPattern.FindStringSubmatch(id)
	if found == nil {
		return mark{}, false
	}
	var numbers [3]int
	for i := range numbers {
		numbers[i], _ = strconv.Atoi(found[i+1]) // the digits are few enough
	}
	return mark{numbers[0], numbers[1], numbers[2], true}, true
}
