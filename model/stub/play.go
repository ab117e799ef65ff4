package stub

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/template"
	"github.com/waza-isolate/waza/model/dialect"
)

// played is the result for a request: a response or a failure, with a description for the
// log.
type played struct {
	answer  dialect.Answer
	line    *line // with the answer's delay; nil for an aside
	trouble *trouble
	what    string
}

// neutral is the answer if the script has none.
const neutral = "OK."

// play decides what r gets. An error is for the agent: the script does not fit the request.
func (s *Script) play(r *request, troubles *memory) (played, error) {
	found := -1
	if given, miss := s.when.Ask(r.members()); miss == nil {
		found = given.Entry
	}
	if said, is := s.asideFor(r, found); is {
		return played{answer: newAnswer(r, mark{}, said), what: "aside"}, nil
	}
	number, err := s.conversationFor(r, found-len(s.asides))
	if err != nil {
		return played{}, err
	}
	c := s.conversations[number]
	turn := c.position(r)
	name := fmt.Sprintf("turn %d%s", turn+1, c.suffix())
	if turn >= len(c.steps) {
		return played{}, fmt.Errorf("the script is at its end: %s is asked for and there are %d", name, len(c.steps))
	}
	current := c.steps[turn]
	m := mark{conversation: number, turn: turn, there: true}
	made := played{line: current.answer, what: name}
	if nth := troubles.next(m.id("", r.digest()), len(current.troubles)); nth < len(current.troubles) {
		made.trouble = &current.troubles[nth]
		made.what += ", " + made.trouble.String()
	}
	if current.answer == nil {
		if made.trouble == nil {
			return played{}, fmt.Errorf("the script has ended: %s has only troubles, and no response after them", name)
		}
		made.answer = newAnswer(r, m, neutral)
		return made, nil
	}
	if made.answer, err = current.answer.answer(r, m); err != nil {
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

// conversationFor returns the number of the conversation that r goes on with, or else found, the first
// whose conditions it meets; negative for none.
func (s *Script) conversationFor(r *request, found int) (int, error) {
	switch {
	case r.previous.there && r.previous.conversation < len(s.conversations):
		return r.previous.conversation, nil
	case found < 0:
		return 0, fmt.Errorf("no conversation of the script has a when that holds for this request; the user said: %s", excerpt(r.prompt))
	}
	return found, nil
}

// asideFor reports whether r is not part of a task, and returns its response. That includes
// requests that the script declares as asides, of which found is the first that it meets, that
// demand JSON of a schema, that offer no tools although the script calls some, and that agents send
// to warm up or to check a key.
func (s *Script) asideFor(r *request, found int) (string, bool) {
	if found >= 0 && found < len(s.asides) {
		return s.asides[found].Say, true
	}
	if r.Format != nil {
		return example(r.Format), true
	}
	last := strings.TrimSpace(r.last())
	warming := !r.previous.there && len(r.Items) <= 1 && (last == "" || strings.EqualFold(last, "warmup"))
	if warming || r.MaxTokens == 1 || len(r.tools) == 0 && s.callsTools() {
		return neutral, true
	}
	return "", false
}

// callsTools reports whether any turn calls a tool.
func (s *Script) callsTools() bool {
	for _, c := range s.conversations {
		for _, step := range c.steps {
			if step.answer != nil && len(step.answer.calls) > 0 {
				return true
			}
		}
	}
	return false
}

// answer returns l as an answer to r.
func (l *line) answer(r *request, m mark) (dialect.Answer, error) {
	results := r.results(len(r.Items))
	text, err := l.say.String(results)
	if err != nil {
		return dialect.Answer{}, err
	}
	a := newAnswer(r, m, text)
	for _, c := range l.calls {
		made, err := c.use(r.tools, results)
		if err != nil {
			return dialect.Answer{}, err
		}
		a.Uses = append(a.Uses, made)
	}
	a.Usage = usageOf(r, a)
	if l.usage != nil {
		a.Usage = *l.usage
	}
	return a, nil
}

func (c call) use(tools []dialect.ToolName, results []string) (dialect.AnswerUse, error) {
	tool, err := c.pick(tools)
	if err != nil {
		return dialect.AnswerUse{}, err
	}
	filled, err := template.Fill(c.arguments, results)
	if err != nil {
		return dialect.AnswerUse{}, err
	}
	encoded, err := evidence.Marshal(filled)
	return dialect.AnswerUse{Tool: tool, Arguments: encoded}, err
}

// String names t for a log.
func (t *trouble) String() string {
	switch {
	case t.fail != nil:
		return fmt.Sprintf("fail %d", t.fail.Status)
	case t.stall != 0:
		return "stall"
	default:
		return "cut"
	}
}

// maxUnmarked is how many turns without ids are compared with the script. Each comparison may
// read all turns before it.
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
		if next < len(c.steps) && unmarked < maxUnmarked && c.steps[next].made(r, i) {
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

// made reports whether the nth item looks like the answer of s.
func (s step) made(r *request, nth int) bool {
	item := r.Items[nth]
	switch {
	case s.answer == nil:
		return false
	case len(s.answer.calls) > 0:
		return slices.ContainsFunc(item.Uses, func(use dialect.Use) bool {
			surely, perhaps := s.answer.calls[0].fitting([]dialect.ToolName{{Local: use.Name}})
			return len(surely)+len(perhaps) > 0
		})
	}
	text, err := s.answer.say.String(r.results(nth))
	return err == nil && len(item.Uses) == 0 && strings.TrimSpace(item.Text) == strings.TrimSpace(text)
}

// mark is a position in the script, which the ids of an answer carry.
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

// id returns an id that carries m, for the answer to the request with a digest.
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
		numbers[i], _ = strconv.Atoi(found[i+1]) // digits, few enough
	}
	return mark{numbers[0], numbers[1], numbers[2], true}, true
}

// memory counts the troubles that requests have had, by digest, since they leave no trace in a
// conversation.
type memory struct {
	mu   sync.Mutex
	seen map[string]int // guarded by mu
}

// maxRemembered is how many requests a memory has.
const maxRemembered = 100_000

// next returns how many of total troubles the request has had, and counts one more.
func (m *memory) next(key string, total int) int {
	if total == 0 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	had, known := m.seen[key]
	if had < total && (known || len(m.seen) < maxRemembered) {
		m.seen[key] = had + 1
	}
	return had
}
