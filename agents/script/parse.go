package script

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/template"
)

// Check checks the script at a path of a document: its steps, their keys, their expressions and
// the names in them. It reports mistakes to the document.
func Check(doc *strictyaml.Document, at ...any) { read(doc, at) }

// Parse parses a script and checks it as [Check] does.
func Parse(raw json.RawMessage) (Script, error) {
	doc, err := strictyaml.FromJSON("script", raw)
	if err != nil {
		return Script{}, err
	}
	steps := read(doc, strictyaml.Path{"script"})
	if err := doc.Err(); err != nil {
		return Script{}, err
	}
	return Script{steps}, nil
}

func read(doc *strictyaml.Document, at strictyaml.Path) []step {
	var steps []step
	// Check no further after a mistake in a key, since it would cause other errors, such as unknown names.
	if doc.DecodeAt(&steps, at...) {
		c := compiler{doc, []string{"context", "prompt"}}
		c.steps(at, steps)
	}
	return steps
}

// step is one item of a list of steps: an action, and the name of its value.
type step struct {
	As    *text      `json:"as,omitempty"`
	Call  *callStep  `json:"call,omitempty"`
	Tools *toolsStep `json:"tools,omitempty"`
	Read  *readStep  `json:"read,omitempty"`
	Write *writeStep `json:"write,omitempty"`
	Run   *runStep   `json:"run,omitempty"`
	Say   *sayStep   `json:"say,omitempty"`
	Claim *claimStep `json:"claim,omitempty"`
	Sleep *sleepStep `json:"sleep,omitempty"`
	Await *awaitStep `json:"await,omitempty" enum:"prompt"`
	Loop  *loopStep  `json:"loop,omitempty"`
	Fail  *failStep  `json:"fail,omitempty"`

	path   string // position, such as script[3].loop.steps[0].call
	action action
}

// action is what a step does.
type action interface {
	// compile checks the fields that were decoded, and sets the others.
	compile(*compiler, strictyaml.Path)
	// run returns a JSON value; see [template.Variables].
	run(context.Context, *runner) (any, error)
}

// kind is a kind of step.
type kind struct {
	name   string
	action action // a nil pointer unless the step is of this kind
	valued bool   // has a value that `as` can name
}

func (s *step) kinds() []kind {
	return []kind{
		{"call", s.Call, true},
		{"tools", s.Tools, true},
		{"read", s.Read, true},
		{"write", s.Write, false},
		{"run", s.Run, true},
		{"say", s.Say, false},
		{"claim", s.Claim, false},
		{"sleep", s.Sleep, false},
		{"await", s.Await, true},
		{"loop", s.Loop, true},
		{"fail", s.Fail, false},
	}
}

// compiler makes the checks that tags of steps cannot express, and compiles expressions.
type compiler struct {
	doc   *strictyaml.Document
	names []string // names that expressions may use here
}

func (c *compiler) steps(at strictyaml.Path, steps []step) {
	if len(steps) == 0 {
		c.doc.Problemf(at, "%s needs at least one step", at)
	}
	for i := range steps {
		c.step(at.With(i), &steps[i])
	}
}

func (c *compiler) step(at strictyaml.Path, s *step) {
	var names []string
	var found []kind
	for _, k := range s.kinds() {
		names = append(names, k.name)
		if c.doc.Has(at.With(k.name)...) {
			found = append(found, k)
		}
	}
	if len(found) != 1 {
		c.doc.Problemf(at, "%s needs exactly one of %s", at, strings.Join(names, ", "))
		return
	}
	k := found[0]
	s.path, s.action = at.With(k.name).String(), k.action
	s.action.compile(c, at.With(k.name))
	if s.Loop != nil {
		s.Loop.named = s.As != nil
	}
	switch as := at.With("as"); {
	case s.As == nil:
	case !k.valued:
		c.doc.Problemf(as, "%s: %s gives no value to name", as, k.name)
	default:
		c.name(as, *s.As)
	}
}

// name declares a name that following steps may use.
func (c *compiler) name(at strictyaml.Path, name text) {
	switch {
	case !template.IsName(name.written):
		c.doc.Problemf(at, "%s: %q is not a name: letters, digits and _, no leading digit, no word of the expression language", at, name.written)
	case slices.Contains(c.names, name.written):
		c.doc.Problemf(at, "%s: the name %q is taken", at, name.written)
	default:
		c.names = append(c.names, name.written)
	}
}

// text is a string of a script, which may contain expressions.
type text struct {
	written string
	template.Text
}

// UnmarshalJSON accepts only strings, since a number could be written in several ways.
func (t *text) UnmarshalJSON(b []byte) error {
	if b[0] != '"' {
		return errors.New("must be a string")
	}
	return jsontext.Unmarshal(b, &t.written)
}

func (c *compiler) text(at strictyaml.Path, t *text) { t.Text = c.expressions(at, t.written) }

// filled is like text, but the text must not be empty.
func (c *compiler) filled(at strictyaml.Path, t *text) {
	if t.written == "" {
		c.doc.Problemf(at, "%s must not be empty", at)
	}
	c.text(at, t)
}

func (c *compiler) expressions(at strictyaml.Path, written string) template.Text {
	made, err := template.Parse(written, c.names)
	if err != nil {
		c.doc.Problemf(at, "%s: %v", at, err)
	}
	return made
}

// value compiles the strings of a JSON value. It returns nil if raw is nil.
func (c *compiler) value(at strictyaml.Path, raw json.RawMessage) any {
	if raw == nil {
		return nil
	}
	return template.Read(at, jsontext.Decode(raw), c.expressions)
}

// valueOf is like value for a value of type T, or an expression that gives one.
func valueOf[T any](c *compiler, at strictyaml.Path, raw json.RawMessage, what string) any {
	v := c.value(at, raw)
	switch v.(type) {
	case T, template.Text:
	default:
		c.doc.Problemf(at, "%s must be %s, or an expression for one", at, what)
	}
	return v
}

// exitCode is the exit code that a program must have, or any.
type exitCode struct {
	any  bool
	code int
}

// UnmarshalJSON accepts a code or "any".
func (e *exitCode) UnmarshalJSON(b []byte) error {
	if e.any = string(b) == `"any"`; e.any {
		return nil
	}
	if err := jsontext.Unmarshal(b, &e.code); err != nil || string(b) == "null" || e.code < 0 || e.code > 255 {
		return errors.New(`must be an exit code from 0 to 255, or "any"`)
	}
	return nil
}
