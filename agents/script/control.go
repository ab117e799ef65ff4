package script

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/waza-isolate/waza/internal/retry"
)

// sayStep is an assistant's message.
type sayStep struct{ text text }

func (p *parser) say(n node) action { return sayStep{p.text(n)} }

func (s sayStep) run(_ context.Context, r *runner) (any, error) {
	said, err := s.text.string(r.variables)
	if err != nil {
		return nil, err
	}
	r.transcript.Say(said)
	r.said = said
	return nil, nil
}

// failStep ends the run with an error.
type failStep struct{ message text }

func (p *parser) fail(n node) action { return failStep{p.filledText(n)} }

func (s failStep) run(_ context.Context, r *runner) (any, error) {
	message, err := s.message.string(r.variables)
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %s", ErrFailed, message)
}

// sleepStep does nothing for a while.
type sleepStep struct{ duration time.Duration }

func (p *parser) sleep(n node) action { return sleepStep{p.duration(n)} }

func (s sleepStep) run(ctx context.Context, _ *runner) (any, error) {
	return nil, retry.Sleep(ctx, s.duration)
}

// awaitStep ends a turn, and waits for the next prompt.
type awaitStep struct{}

func (p *parser) await(n node) action {
	if what := p.plainString(n); what != "prompt" && what != "" {
		p.failf(n.path, `must be "prompt", the one thing that can be waited for`)
	}
	return awaitStep{}
}

// errOver is that no further prompt comes: the run ends, and has not failed.
var errOver = errors.New("the conversation is over")

func (awaitStep) run(_ context.Context, r *runner) (any, error) {
	if r.next == nil {
		return nil, errOver
	}
	if err := r.endTurn(); err != nil {
		return nil, err
	}
	prompt, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, errOver
	}
	if err == nil {
		r.transcript.Prompt(prompt)
	}
	return prompt, err
}

// endTurn writes what was said last in the turn.
func (r *runner) endTurn() error {
	_, err := io.WriteString(r.stdout, r.said)
	r.said = ""
	return err
}

// loopStep repeats steps: a number of times, or over a list.
type loopStep struct {
	times int
	over  value // nil with times
	as    string
	steps []step
	named bool // keep what the iterations give
}

func (p *parser) loop(n node) action {
	f := p.fields(n, "times", "over", "as", "steps")
	s := loopStep{named: n.named}
	switch {
	case f.values == nil:
	case f.has("times") == f.has("over"):
		p.failf(n.path, `needs exactly one of "times" and "over"`)
	case f.has("times"):
		s.times = p.times(f.get("times"))
	default:
		s.over = p.over(f.get("over"))
	}
	if p.depth == maxLoopDepth {
		p.failf(n.path, "loops inside loops, more than %d deep", maxLoopDepth)
		return s
	}
	mark := len(p.names)
	p.depth++
	if f.has("as") {
		s.as = p.newName(f.get("as"))
	}
	s.steps = p.steps(f.need("steps"))
	p.depth--
	p.names = p.names[:mark]
	return s
}

func (p *parser) times(n node) int {
	var times int
	if p.decode(n, &times, "a whole number") && (times < 0 || times > maxIterations) {
		p.failf(n.path, "must be from 0 to %d", maxIterations)
	}
	return times
}

func (p *parser) over(n node) value {
	over := p.value(n)
	switch over.(type) {
	case list, text:
	default:
		p.failf(n.path, "must be a list or an expression")
	}
	return over
}

// run returns the list of what each iteration's last step gave, where that has a
// name: a long loop must not hold every result.
func (s loopStep) run(ctx context.Context, r *runner) (any, error) {
	items, err := s.items(r.variables)
	if err != nil {
		return nil, err
	}
	results := []any{}
	for _, item := range items {
		result, err := s.iterate(ctx, r, item)
		if err != nil {
			return nil, err
		}
		if s.named {
			results = append(results, result)
		}
	}
	return results, nil
}

func (s loopStep) items(v *variables) ([]any, error) {
	if s.over == nil {
		return countTo(s.times), nil
	}
	value, err := s.over.eval(v)
	if err != nil {
		return nil, err
	}
	items, ok := value.([]any)
	if !ok {
		return nil, fmt.Errorf("over must be a list and is %s", kindOf(value))
	}
	return items, nil
}

func countTo(n int) []any {
	numbers := make([]any, n)
	for i := range numbers {
		numbers[i] = number(i + 1)
	}
	return numbers
}

func (s loopStep) iterate(ctx context.Context, r *runner, item any) (any, error) {
	if r.iterations++; r.iterations > maxIterations {
		return nil, fmt.Errorf("more than %d iterations in all", maxIterations)
	}
	mark := r.variables.mark()
	defer r.variables.release(mark)
	if s.as != "" {
		r.variables.bind(s.as, item)
	}
	return r.steps(ctx, s.steps)
}
