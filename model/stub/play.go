package stub

import (
	"fmt"
	"strings"
)

// played is what a request is given: an answer, or trouble, with words for a log.
type played struct {
	answer  answer
	line    *line // with the answer's delay; nil where no turn is played
	trouble *trouble
	what    string
}

// neutral is said where nothing else is asked for.
const neutral = "OK."

// play decides what r gets. Errors are for the agent: the script and the request do not
// go together.
func (s *Script) play(r *request, troubles *memory) (played, error) {
	if said, is := s.asideFor(r); is {
		return played{answer: newAnswer(r, mark{}, said), what: "aside"}, nil
	}
	number, err := s.conversationFor(r)
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
			return played{}, fmt.Errorf("the script is at its end: %s has troubles alone, and no answer behind them", name)
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

// conversationFor is the number of the first conversation whose conditions hold.
func (s *Script) conversationFor(r *request) (int, error) {
	if r.previous.there && r.previous.conversation < len(s.conversations) {
		return r.previous.conversation, nil
	}
	for i, c := range s.conversations {
		if c.when.holds(r) {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no conversation of the script has a when that holds for this request; the user said: %s", excerpt(r.prompt))
}

// asideFor is what is said to a question that is no part of a task, and whether r is
// one: what the script says is one; what asks for JSON of a kind; what offers no tool
// where the script calls some; and what agents send to warm up or to see whether a key
// works.
func (s *Script) asideFor(r *request) (string, bool) {
	for _, a := range s.asides {
		if a.when.holds(r) {
			return a.say, true
		}
	}
	if r.format != nil {
		return example(r.format), true
	}
	last := strings.TrimSpace(r.last())
	warming := !r.previous.there && len(r.Items) <= 1 && (last == "" || strings.EqualFold(last, "warmup"))
	if warming || r.maxTokens == 1 || len(r.tools) == 0 && s.callsTools() {
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

// answer is l as an answer to r.
func (l *line) answer(r *request, m mark) (answer, error) {
	results := r.results(len(r.Items))
	text, err := l.say.text(results)
	if err != nil {
		return answer{}, err
	}
	a := newAnswer(r, m, text)
	for _, c := range l.calls {
		made, err := c.use(r.tools, results)
		if err != nil {
			return answer{}, err
		}
		a.uses = append(a.uses, made)
	}
	a = a.counted(r)
	if l.usage != nil {
		a.usage = *l.usage
	}
	return a, nil
}

func (c call) use(tools []offered, results []string) (use, error) {
	tool, err := c.pick(tools)
	if err != nil {
		return use{}, err
	}
	filled, err := fill(c.arguments, results)
	if err != nil {
		return use{}, err
	}
	encoded, err := encode(filled)
	return use{tool, encoded}, err
}

// String names t for a log.
func (t *trouble) String() string {
	switch {
	case t.fail != nil:
		return fmt.Sprintf("fail %d", t.fail.status)
	case t.stall != 0:
		return "stall"
	default:
		return "cut"
	}
}
