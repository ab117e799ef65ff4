package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/template"
)

// Parse parses and checks a task's script: its steps, their keys, their expressions and the
// names in them. The error joins a [*SyntaxError] for every mistake.
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

// parser parses a script and collects mistakes.
type parser struct {
	names []string // names that expressions may use here
	errs  []error
}

// node is a JSON value of the script with its path. raw is nil if the value is missing, which
// was already reported.
type node struct {
	path  string
	raw   json.RawMessage
	named bool // for a step: `as` names its value
}

// kind is a kind of step.
type kind struct {
	name   string
	valued bool // has a value that `as` can name
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

// suggestion returns ` (did you mean "x"?)` for the candidate closest to word, or "".
func suggestion(word string, candidates []string) string {
	near := strictyaml.Nearest(word, candidates)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", near)
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = fmt.Sprintf("%q", word)
	}
	return strings.Join(quoted, ", ")
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
			p.failf(n.path, "unknown step %q; %s", name, strictyaml.Suggest(name, kindNames()))
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

// newName reads a name that following steps may use.
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

// fields is an object of the script, with keys from a fixed set.
type fields struct {
	parser *parser
	node   node
	values map[string]json.RawMessage
}

// fields reads an object, and reports keys other than the given ones.
func (p *parser) fields(n node, keys ...string) fields {
	values := p.anyFields(n)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(keys, key) {
			p.failf(n.path+"."+key, "unknown key%s", suggestion(key, keys))
		}
	}
	return fields{parser: p, node: n, values: values}
}

func (f fields) has(key string) bool { return f.values[key] != nil }

// get returns the node at key. Its raw is nil if there is none.
func (f fields) get(key string) node {
	return node{path: f.node.path + "." + key, raw: f.values[key]}
}

// need returns the node at key, and reports a missing key.
func (f fields) need(key string) node {
	if f.values != nil && !f.has(key) {
		f.parser.failf(f.node.path, "needs the key %q", key)
	}
	return f.get(key)
}

// decode decodes a value, and reports a value of another type. It returns false for that, and
// for a missing value.
func (p *parser) decode(n node, into any, what string) bool {
	if n.raw == nil {
		return false
	}
	if isNull(n.raw) || json.Unmarshal(n.raw, into) != nil {
		p.failf(n.path, "must be %s", what)
		return false
	}
	return true
}

func isNull(raw json.RawMessage) bool {
	trimmed := bytes.TrimSpace(raw)
	return len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null"))
}

func (p *parser) anyFields(n node) map[string]json.RawMessage {
	var values map[string]json.RawMessage
	if !p.decode(n, &values, "an object") {
		return nil
	}
	return values
}

func (p *parser) list(n node) []node {
	var items []json.RawMessage
	if !p.decode(n, &items, "a list") {
		return nil
	}
	nodes := make([]node, len(items))
	for i, raw := range items {
		nodes[i] = node{path: fmt.Sprintf("%s[%d]", n.path, i), raw: raw}
	}
	return nodes
}

// plainString reads a string without expressions.
func (p *parser) plainString(n node) string {
	var s string
	if p.decode(n, &s, "a string") && s == "" {
		p.failf(n.path, "must not be empty")
	}
	return s
}

// text reads a string that may contain expressions.
func (p *parser) text(n node) text {
	var s string
	if !p.decode(n, &s, "a string") {
		return nil
	}
	t, err := parseText(s, p.names)
	if err != nil {
		p.failf(n.path, "%v", err)
	}
	return t
}

// filledText reads a text that must not be empty.
func (p *parser) filledText(n node) text {
	t := p.text(n)
	if string(bytes.TrimSpace(n.raw)) == `""` {
		p.failf(n.path, "must not be empty")
	}
	return t
}

// duration reads a positive duration, such as "100ms".
func (p *parser) duration(n node) time.Duration {
	var s string
	if !p.decode(n, &s, `a length of time such as "100ms"`) {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		p.failf(n.path, `must be a length of time such as "100ms" or "2s"`)
	}
	return d
}

// value reads any JSON value. Its strings may contain expressions.
func (p *parser) value(n node) any {
	if n.raw == nil {
		return nil
	}
	decoded, err := jsontext.Parse(n.raw)
	if err != nil {
		p.failf(n.path, "%v", err)
		return nil
	}
	return template.Read(strictyaml.Path{n.path}, decoded, func(at strictyaml.Path, s string) text {
		t, err := parseText(s, p.names)
		if err != nil {
			p.failf(at.String(), "%v", err)
		}
		return t
	})
}

// valueOf reads a JSON value of one type, or an expression for it.
func valueOf[T any](p *parser, n node, message string) any {
	v := p.value(n)
	switch v.(type) {
	case T, text:
	default:
		p.failf(n.path, "%s", message)
	}
	return v
}
