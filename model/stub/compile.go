package stub

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/model/dialect"
)

// conversation is what is said in one, in order.
type conversation struct {
	name  string
	when  condition
	steps []step
}

// step is one answer, and what befalls those who ask for it before they get it.
type step struct {
	troubles []trouble
	answer   *line // nil: nothing follows the troubles
}

// line is what the model says and calls in one turn.
type line struct {
	say   template
	calls []call
	usage *dialect.Usage // nil: counted
	delay time.Duration
}

// call is a tool that is to be called.
type call struct {
	tool, server string
	arguments    any // a JSON value with templates for strings
}

// trouble is what happens in place of an answer, once.
type trouble struct {
	delay time.Duration
	fail  *failure
	stall time.Duration // begin the answer, and stop in the middle for so long
	cut   string        // begin the answer, and break off
}

// failure is an error that a provider would send.
type failure struct {
	status     int
	message    string
	retryAfter *float64 // seconds
}

// aside answers what is no part of a task.
type aside struct {
	when condition
	say  string
}

// defaultModel is what a script's model is called that names none.
const defaultModel = "stub-1"

type compiler struct{ doc *strictyaml.Document }

func (c compiler) script(d document) *Script {
	s := &Script{models: d.Models}
	for i, name := range d.Models {
		if name == "" {
			c.doc.Problemf(strictyaml.Path{"models", i}, "models[%d] must not be empty", i)
		}
	}
	if len(s.models) == 0 {
		s.models = []string{defaultModel}
	}
	switch {
	case c.doc.Has("turns") && c.doc.Has("conversations"):
		c.doc.KeyProblemf(strictyaml.Path{"turns"}, "turns and conversations are both here; put these turns last under conversations, without when")
	case len(d.Turns) == 0 && len(d.Conversations) == 0:
		c.doc.Problemf(strictyaml.Path{}, "nothing is scripted; write turns, or conversations with turns")
	}
	if len(d.Turns) > 0 {
		s.conversations = []conversation{{steps: c.steps(strictyaml.Path{"turns"}, d.Turns)}}
	}
	for i, entry := range d.Conversations {
		path := strictyaml.Path{"conversations", i}
		if entry.When == (condition{}) && i+1 < len(d.Conversations) {
			c.doc.Problemf(path, "conversations[%d] has no when, so those after it are never played; put it last", i)
		}
		steps := c.steps(strictyaml.Path{"conversations", i, "turns"}, entry.Turns)
		s.conversations = append(s.conversations, conversation{entry.Name, entry.When, steps})
	}
	for i, entry := range d.Asides {
		if entry.When == (condition{}) {
			c.doc.Problemf(strictyaml.Path{"asides", i, "when"}, "asides[%d].when has no condition, so nothing else would be played; add one", i)
		}
		s.asides = append(s.asides, aside{entry.When, entry.Say})
	}
	return s
}

// steps gathers turns: each answer with the troubles before it.
func (c compiler) steps(path strictyaml.Path, turns []turnEntry) []step {
	var steps []step
	var troubles []trouble
	for i, entry := range turns {
		at := append(slices.Clone(path), i)
		if !c.oneKind(at, entry) {
			continue
		}
		if entry.isTrouble() {
			troubles = append(troubles, c.trouble(entry))
			continue
		}
		steps = append(steps, step{troubles, c.line(at, entry)})
		troubles = nil
	}
	if troubles != nil {
		steps = append(steps, step{troubles: troubles})
	}
	return steps
}

func (t turnEntry) isTrouble() bool { return t.Fail != nil || t.Stall != 0 || t.Cut != "" }

// oneKind reports whether a turn is one thing, and complains where it is not.
func (c compiler) oneKind(at strictyaml.Path, t turnEntry) bool {
	count := func(keys ...string) (found int) {
		for _, key := range keys {
			if c.doc.Has(append(slices.Clone(at), key)...) {
				found++
			}
		}
		return found
	}
	troubles, calls := count("fail", "stall", "cut"), count("call", "calls")
	switch {
	case troubles > 1 || troubles == 1 && calls+count("say", "usage") > 0:
		c.doc.Problemf(at, "%s does more than one thing; write fail, stall and cut as turns of their own, before the answer", at)
	case troubles+calls+count("say") == 0:
		c.doc.Problemf(at, "%s does nothing; give it one of say, call, calls, fail, stall, cut", at)
	case calls > 1:
		c.doc.Problemf(at, "%s has both call and calls; put all into calls", at)
	case t.Calls != nil && len(t.Calls) == 0:
		c.doc.Problemf(at, "%s.calls must not be empty", at)
	default:
		return true
	}
	return false
}

func (c compiler) trouble(t turnEntry) trouble {
	made := trouble{delay: time.Duration(t.Delay), stall: time.Duration(t.Stall), cut: t.Cut}
	if t.Fail != nil {
		made.fail = &failure{t.Fail.Status, t.Fail.Message, t.Fail.RetryAfter}
		if made.fail.message == "" {
			made.fail.message = fmt.Sprintf("the script fails this request: %s", http.StatusText(t.Fail.Status))
		}
	}
	return made
}

func (c compiler) line(at strictyaml.Path, t turnEntry) *line {
	made := &line{delay: time.Duration(t.Delay)}
	if t.Say != nil {
		made.say = c.template(append(slices.Clone(at), "say"), *t.Say)
	}
	if t.Usage != nil {
		made.usage = &dialect.Usage{Input: t.Usage.Input, Output: t.Usage.Output, Cached: t.Usage.Cached}
		if t.Usage.Cached > t.Usage.Input {
			c.doc.Problemf(at, "%s.usage: cached is a part of input and must not be more", at)
		}
	}
	if t.Call != nil {
		made.calls = []call{c.call(append(slices.Clone(at), "call"), *t.Call)}
	}
	for i, entry := range t.Calls {
		made.calls = append(made.calls, c.call(append(slices.Clone(at), "calls", i), entry))
	}
	return made
}

func (c compiler) call(at strictyaml.Path, entry callEntry) call {
	made := call{tool: entry.Tool, server: entry.Server, arguments: map[string]any{}}
	if entry.Arguments == nil {
		return made
	}
	at = append(slices.Clone(at), "arguments")
	arguments, err := jsonvalue.Parse(entry.Arguments)
	if _, object := arguments.(map[string]any); err != nil || !object {
		c.doc.Problemf(at, "%s must be a mapping", at)
		return made
	}
	made.arguments = c.templates(at, arguments)
	return made
}
