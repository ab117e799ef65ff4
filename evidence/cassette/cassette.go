// Package cassette answers requests from stored entries instead of a server, a model or a command.
//
// A [Side] holds the entries of one server, model or command, and a [Player] answers from them. A [Cassette]
// is a directory with a file for each side, written by a person or by a program. Requests and answers are
// JSON values: the package knows no transport, and its callers define what the values mean. It makes no
// recordings. [Faults] selects the requests that fail on purpose, whether they are answered from a cassette
// or not.
package cassette

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/template"
)

// Ways to find the entry for a request. Each takes the first entry with uses left.
const (
	ByMatch    = "match"    // among entries whose kind and match hold; the default
	InSequence = "sequence" // among entries whose kind holds, whatever match says
)

// Side holds the answers of one server, model or command.
type Side struct {
	Find    string                     `json:"find,omitempty" enum:"match sequence" jsonschema:"match (default): the first entry whose kind and match hold; sequence: the first whose kind holds"`
	State   map[string]json.RawMessage `json:"state,omitempty" jsonschema:"first values of the state, by name"`
	Entries []Entry                    `json:"entries" jsonschema:"tried in order"`

	state map[string]any
}

// Entry holds the answer to some requests, or a list of answers for one request each.
//
// Its conditions are on members of a request, by name. The side's state is the member state. Members of
// objects are members too, such as arguments.id: their names are never taken for matchers.
//
// With Template, strings of its answers and of Set may contain expressions over the request's members, such
// as {{ arguments.id }}; see package template.
type Entry struct {
	Name  string                     `json:"name,omitempty" jsonschema:"for after of other entries"`
	Kind  match.Matchers             `json:"kind,omitempty" jsonschema:"conditions on members of the request, which hold in either way of finding"`
	Match match.Matchers             `json:"match,omitempty" jsonschema:"more conditions, which do not count in sequence"`
	After string                     `json:"after,omitempty" jsonschema:"name of the entry that must have been given before"`
	Times int                        `json:"times,omitempty" min:"1" max:"1000000" jsonschema:"how many requests get answer; default any number"`
	Set   map[string]json.RawMessage `json:"set,omitempty" jsonschema:"the state from then on, by name"`

	Template bool `json:"template,omitempty" jsonschema:"strings of answers and of set may have {{ expressions }} on the request's members"`

	Answer  *Answer  `json:"answer,omitempty" jsonschema:"answer to every request"`
	Answers []Answer `json:"answers,omitempty" jsonschema:"in place of answer, one to each request in order; later ones have none"`

	Fault evidence.FaultKind `json:"fault,omitempty" enum:"tool_error error kill delay drop truncate invalid wrong_id slow late list_changed rate_limit server_error stall cut" jsonschema:"in place of answer, a fault of the requests, which other entries answer"` // see [Side.Faults]

	at    string // index and file, for messages; the file is omitted if there is none
	kind  *match.Args
	match *match.Args
	after int // index of an entry, or -1
	set   map[string]any
	// filled holds the values of the answers, with a template in place of each string.
	filled []any
	// counted reports whether the number of uses matters, to this entry or to a later one.
	counted bool
}

// members are the names that expressions may refer to.
var members = []string{
	"args", "arguments", "dir", "env", "method", "model", "params", "prompt", "result", "results", "state",
	"system", "tool", "tools",
}

// Answer is one answer.
type Answer struct {
	Value   json.RawMessage `json:"value,omitempty" jsonschema:"what is answered"`
	Blob    string          `json:"blob,omitempty" jsonschema:"in place of value, in files, the SHA-256 of the file in blobs that has it"`
	DelayMS int             `json:"delay_ms,omitempty" min:"0" max:"604800000" jsonschema:"milliseconds before it is given; default 0"`
}

// Matcher returns a condition of an entry: a matcher of a kind, such as equals. The value must be valid for
// JSON encoding.
func Matcher(kind string, value any) json.RawMessage {
	data, _ := jsontext.Marshal(map[string]any{kind: value})
	return data
}

// Compile prepares a side for [Side.Play]. It returns an error for invalid entries.
func (s *Side) Compile() error {
	var errs []error
	wrong := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	var err error
	s.state, err = values("state", s.State)
	wrong(err)
	names := map[string]int{}
	for i := range s.Entries {
		e := &s.Entries[i]
		if _, twice := names[e.Name]; twice {
			wrong(fmt.Errorf("entries[%d]: the name %q appears twice", i, e.Name))
		}
		if e.Name != "" {
			names[e.Name] = i
		}
	}
	for i := range s.Entries {
		wrong(s.Entries[i].compile(fmt.Sprintf("entries[%d]", i), names, s.State))
	}
	for i := range s.Entries {
		if after := s.Entries[i].after; after >= 0 {
			s.Entries[after].counted = true
		}
	}
	wrong(s.cycle())
	return errors.Join(errs...)
}

// values parses JSON values, by name.
func values(at string, raw map[string]json.RawMessage) (map[string]any, error) {
	all := make(map[string]any, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		value, err := jsontext.Parse(raw[name])
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", at, name, err)
		}
		all[name] = value
	}
	return all, nil
}

func (e *Entry) compile(at string, names map[string]int, state map[string]json.RawMessage) (err error) {
	e.after, e.counted = -1, e.Answer == nil || e.Times > 0
	switch {
	case e.Fault != "":
		return e.compileFault(at)
	case (e.Answer == nil) == (len(e.Answers) == 0):
		return fmt.Errorf("%s: give it an answer, or a list of answers", at)
	case e.Answer == nil && e.Times != 0:
		return fmt.Errorf("%s.times: a list of answers has as many as it is long; leave times out", at)
	}
	if e.After != "" {
		after, known := names[e.After]
		if !known {
			return fmt.Errorf("%s.after: no entry has the name %q", at, e.After)
		}
		e.after = after
	}
	for name := range e.Set {
		if _, declared := state[name]; !declared {
			return fmt.Errorf("%s.set: %q is not in the side's state; add its first value there", at, name)
		}
	}
	if e.set, err = values(at+".set", e.Set); err != nil {
		return err
	}
	if e.Template {
		if err := e.templates(at); err != nil {
			return err
		}
	}
	return e.conditions(at)
}

// compileFault prepares an entry with a fault. Such an entry gives no answer and sets no state.
func (e *Entry) compileFault(at string) (err error) {
	if e.Answer != nil || e.Answers != nil || e.After != "" || e.Set != nil || e.Template {
		return fmt.Errorf("%s: an entry with a fault has kind, match and times alone", at)
	}
	if _, of := e.Match["state"]; of {
		return fmt.Errorf("%s.match: a fault has no conditions on the state", at)
	}
	return e.conditions(at)
}

// conditions compiles kind and match.
func (e *Entry) conditions(at string) (err error) {
	if e.kind, err = conditions(at+".kind", e.Kind); err != nil {
		return err
	}
	e.match, err = conditions(at+".match", e.Match)
	return err
}

// templates parses the strings of an entry's answers and of Set as templates.
func (e *Entry) templates(at string) (err error) {
	read := func(at strictyaml.Path, text string) template.Text {
		made, wrong := template.Parse(text, members)
		if wrong == nil {
			wrong = made.Bounded()
		}
		if wrong != nil && err == nil {
			err = fmt.Errorf("%s: %w", at, wrong)
		}
		return made
	}
	for name, value := range e.set {
		e.set[name] = template.Read(strictyaml.Path{at, "set", name}, value, read)
	}
	e.filled = nil
	for _, a := range e.All() {
		value, wrong := jsontext.Parse(a.Value)
		if wrong != nil {
			return fmt.Errorf("%s: the value is not JSON: %w", at, wrong)
		}
		e.filled = append(e.filled, template.Read(strictyaml.Path{at, "value"}, value, read))
	}
	return err
}

// conditions compiles matchers. Errors begin with the place of the matcher.
func conditions(at string, m match.Matchers) (*match.Args, error) {
	args, err := m.Compile()
	if err != nil {
		lines := strings.ReplaceAll("\n"+err.Error(), "\nargs", "\n"+at)
		return nil, errors.New(lines[1:])
	}
	return args, nil
}

// Faults returns the faults of a side's entries. The side is that of a server or a model. Requests with a
// fault get their answer from the side's other entries.
func (s *Side) Faults(kind Kind, name string) (all []Fault) {
	for _, e := range s.Entries {
		if e.Fault == "" {
			continue
		}
		f := Fault{Kind: e.Fault, times: e.Times, kind: e.kind, match: e.match}
		if f.Server = name; kind == Models {
			f.Server, f.Model = "", name
		}
		all = append(all, f)
	}
	return all
}

// cycle returns an error if entries wait for each other.
func (s *Side) cycle() error {
	for i := range s.Entries {
		next := s.Entries[i].after
		for range s.Entries {
			if next < 0 || next == i {
				break
			}
			next = s.Entries[next].after
		}
		if next == i {
			return fmt.Errorf("entries[%d].after: it waits for itself, so it would never be given", i)
		}
	}
	return nil
}
