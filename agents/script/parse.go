package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Parse checks a task's script: its steps, their keys, their expressions and the
// names in them. An error joins a [*SyntaxError] for every mistake found.
func Parse(raw json.RawMessage) (Script, error) {
	if raw == nil {
		raw = json.RawMessage("null")
	}
	p := &parser{names: []string{"context", "prompt"}}
	steps := p.steps(node{path: "script", raw: raw})
	if err := errors.Join(p.errs...); err != nil {
		return Script{}, err
	}
	return Script{steps: steps}, nil
}

// parser goes through a script once and gathers mistakes.
type parser struct {
	names []string // that expressions may use here
	depth int      // of loops
	errs  []error
}

// node is a JSON value of the script and where it stands. Its raw is nil where
// the script lacks it, which was reported then.
type node struct {
	path  string
	raw   json.RawMessage
	named bool // of a step: `as` names its value
}

// kind is one kind of step.
type kind struct {
	name   string
	valued bool // gives a value that `as` can name
	parse  func(*parser, node) action
}

func kinds() []kind {
	return []kind{
		{"call", true, (*parser).call},
		{"tools", true, (*parser).tools},
		{"read", true, (*parser).read},
		{"write", false, (*parser).write},
		{"run", true, (*parser).command},
		{"say", false, (*parser).say},
		{"claim", false, (*parser).claim},
		{"sleep", false, (*parser).sleep},
		{"await", true, (*parser).await},
		{"loop", true, (*parser).loop},
		{"fail", false, (*parser).fail},
	}
}

func kindNames() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name)
	}
	return names
}

func (p *parser) failf(path, format string, args ...any) {
	p.errs = append(p.errs, &SyntaxError{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (p *parser) steps(n node) []step {
	items := p.list(n)
	if items != nil && len(items) == 0 {
		p.failf(n.path, "needs at least one step")
	}
	steps := make([]step, 0, len(items))
	for _, item := range items {
		steps = append(steps, p.step(item))
	}
	return steps
}

func (p *parser) step(n node) step {
	fields := p.anyFields(n)
	if fields == nil {
		return step{}
	}
	var found []kind
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == "as" {
			continue
		}
		i := slices.IndexFunc(kinds(), func(k kind) bool { return k.name == name })
		if i < 0 {
			p.failf(n.path+"."+name, "unknown step%s", suggestion(name, kindNames()))
			return step{}
		}
		found = append(found, kinds()[i])
	}
	if len(found) != 1 {
		p.failf(n.path, "needs exactly one of %s", strings.Join(kindNames(), ", "))
		return step{}
	}
	k := found[0]
	s := step{path: n.path + "." + k.name}
	as, named := fields["as"]
	s.action = k.parse(p, node{path: s.path, raw: fields[k.name], named: named})
	if named {
		s.as = p.as(node{path: n.path + ".as", raw: as}, k)
	}
	return s
}

func (p *parser) as(n node, k kind) string {
	if !k.valued {
		p.failf(n.path, "%s gives no value to name", k.name)
		return ""
	}
	return p.newName(n)
}

// newName reads a name and lets the steps that follow use it.
func (p *parser) newName(n node) string {
	name := p.plainString(n)
	switch {
	case name == "":
		return ""
	case !isName(name):
		p.failf(n.path, "%q is not a name: letters, digits and _, no leading digit, no word of the expression language", name)
		return ""
	case slices.Contains(p.names, name):
		p.failf(n.path, "the name %q is taken", name)
		return ""
	}
	p.names = append(p.names, name)
	return name
}
