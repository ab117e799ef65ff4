// Package strictyaml decodes YAML and JSON files into Go values and reports all mistakes at
// once, with file, line, column, an excerpt and a suggestion.
//
// Struct tags define what is allowed. `json` names the key; a key without omitempty or
// omitzero is required and must not be empty. `enum` lists the values of a string,
// separated by spaces; `min`, `max` and `over` limit a number (`over` is exclusive).
// `unknown:"warn"` on a field named _ means that keys without a value are treated as absent, and
// that after [Document.IgnoreUnknown] unknown keys are ignored with a warning, unless they are
// misspelled known ones. `zero:"unset"` means that 0 is treated as absent.
//
// A string can be set from any scalar, as written: 1.0 becomes "1.0".
//
// Files must use a subset of YAML: one document, UTF-8, string keys, numbers as in JSON,
// and no tags. Aliases and merge keys (<<) are supported, within limits that protect
// against hostile files.
//
// The package is not a general YAML decoder, writes no YAML, and discards comments.
package strictyaml

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Shorthand is implemented by a struct that can also be given as a single string.
type Shorthand interface{ SetShort(string) error }

// Document is a parsed file with the problems found so far. It is not safe for concurrent
// use.
type Document struct {
	file     string
	lines    []string
	root     *node
	problems []*Error
	bad      map[string]bool     // paths with a reported problem
	unread   map[string]bool     // paths of values that could not be read
	dropped  int                 // number of problems beyond maxProblems
	broken   int                 // number of broken values that were to be decoded
	written  func(string) string // restores the text of a string as in the file
	private  bool                // do not show strings from the file
	ignores  string              // why unknown keys are ignored; empty if they are problems
	warnings []*Error
	known    map[string]bool // messages that are not reported
	laid     int             // number of values added by Lay
}

// Path is the path of a value from the root of the file: a string for a key, an int for an
// index.
type Path []any

// String formats p as in graders[0].config.
func (p Path) String() string {
	var b strings.Builder
	for _, step := range p {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, step)
		}
	}
	return b.String()
}

// With returns a copy of p with steps appended.
func (p Path) With(steps ...any) Path { return append(slices.Clone(p), steps...) }

// ParsePath parses the result of String.
func ParsePath(text string) (p Path) {
	for _, step := range strings.FieldsFunc(text, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if n, err := strconv.Atoi(step); err == nil {
			p = append(p, n)
		} else {
			p = append(p, step)
		}
	}
	return p
}

// Parse parses the single document in data. file is the name used in errors. If the file
// cannot be parsed it returns an error; other problems are collected in the Document and
// returned by [Document.Err].
func Parse(file string, data []byte) (*Document, error) {
	text := strings.TrimPrefix(string(data), "\ufeff")
	d := &Document{file: file, lines: splitLines(text), bad: map[string]bool{}, unread: map[string]bool{}}
	if body := d.parse(text); body != nil {
		c := converter{doc: d, anchors: map[string]*node{}}
		d.root = c.node(body, 0)
	}
	if d.root == nil || !d.root.inBounds() {
		return nil, d.Err()
	}
	return d, nil
}

// Decode decodes the whole file into v, a pointer to a struct. It sets all valid values
// even if others have problems.
func (d *Document) Decode(v any) { d.DecodeAt(v) }

// DecodeAt decodes the value at path into v, a pointer, and reports whether it is valid. A
// missing value is decoded as an empty mapping, so that missing required keys are reported.
func (d *Document) DecodeAt(v any, path ...any) bool {
	n, found := d.find(path)
	if !found {
		n = &node{kind: mapping}
	}
	before := len(d.problems) + d.dropped + d.broken
	decoder{doc: d}.value(n, reflect.ValueOf(v).Elem(), path, Limits{})
	return len(d.problems)+d.dropped+d.broken == before
}

// IgnoreUnknown makes unknown keys warnings that say why, where a struct's tags allow it.
func (d *Document) IgnoreUnknown(why string) { d.ignores = why }

// Warnf adds a warning that the value at path has no effect.
func (d *Document) Warnf(path Path, format string, args ...any) {
	d.warn(d.place(path), fmt.Sprintf(format, args...))
}

func (d *Document) warn(pos Position, message string) {
	if len(d.warnings) < maxProblems {
		d.warnings = append(d.warnings, &Error{File: d.file, Position: pos, Message: message})
	}
}

// Warnings returns the warnings: ignored unknown keys, and those of Warnf.
func (d *Document) Warnings() []*Error { return d.warnings }

// File returns the name of the file that was given to [Parse].
func (d *Document) File() string { return d.file }

// Forget releases the content of the file once it has been decoded. Problems and warnings
// are kept.
func (d *Document) Forget() { d.root, d.lines, d.bad, d.unread = nil, nil, nil, nil }

// Add adds a string under key to the mapping at path, creating that if necessary. It
// returns false if there is no such mapping or the key exists.
func (d *Document) Add(value string, path Path, key string) bool {
	n, found := d.find(path)
	if !found {
		parent, _ := d.find(path[:len(path)-1])
		name, isKey := path[len(path)-1].(string)
		if parent.kind != mapping || !isKey {
			return false
		}
		n = &node{kind: mapping, pos: parent.pos, size: 1, index: map[string]int{}}
		parent.add(pair{name, parent.pos, n})
	}
	if n.kind != mapping || n.pair(key) != nil {
		return false
	}
	n.add(pair{key, n.pos, &node{kind: text, text: value, pos: n.pos, size: 1}})
	return true
}

// Lay merges other into the mapping at path, and reports whether there was room. Existing
// keys take precedence unless they have no value; mappings in both are merged recursively,
// and lists are not joined. Problems with merged values are reported at the mapping's key.
func (d *Document) Lay(other *Document, path Path, key string) bool {
	n, found := d.find(path)
	if !found || n.kind != mapping || other.root.kind != mapping {
		return true // reported when it is decoded
	}
	d.laid += other.root.size
	if d.root.size+d.laid > maxNodes {
		return false
	}
	n.lay(other.root, d.At(path.With(key)...))
	return true
}

// At returns the position of the value at path, or of the innermost existing value around
// it.
func (d *Document) At(path ...any) Position {
	n, _ := d.find(path)
	return n.pos
}

// Has reports whether the file has a value at path.
func (d *Document) Has(path ...any) bool {
	_, found := d.find(path)
	return found
}

// Keys returns the keys of the mapping at path in order; none if it is not a mapping.
func (d *Document) Keys(path ...any) []string {
	n, found := d.find(path)
	if !found || n.kind != mapping {
		return nil
	}
	keys := make([]string, len(n.pairs))
	for i, p := range n.pairs {
		keys[i] = p.key
	}
	return keys
}

// DropNulls removes keys without a value from all mappings.
func (d *Document) DropNulls() { d.root.dropNulls() }

// Key returns the position of the last key of path, or that of At if path does not end with
// an existing key.
func (d *Document) Key(path ...any) Position {
	if len(path) > 0 {
		if parent, found := d.find(path[:len(path)-1]); found {
			if p := parent.pair(path[len(path)-1]); p != nil {
				return p.keyPos
			}
		}
	}
	return d.At(path...)
}

// find returns the node at path, or the innermost existing one on the way.
func (d *Document) find(path Path) (*node, bool) {
	n := d.root
	for _, step := range path {
		next := n.child(step)
		if next == nil {
			return n, false
		}
		n = next
	}
	return n, true
}

// place returns the position for a problem with the value at path: that of the value or,
// for a list or mapping, of its key. For a missing value it is that of the surrounding one.
func (d *Document) place(path Path) Position {
	for len(path) > 0 && !d.Has(path...) {
		path = path[:len(path)-1]
	}
	if n, _ := d.find(path); n.kind == list || n.kind == mapping {
		return d.Key(path...)
	}
	return d.At(path...)
}

// Problemf reports a problem with the value at path. It is dropped if a problem with that value was
// already reported, or if a surrounding value could not be read.
func (d *Document) Problemf(path Path, format string, args ...any) {
	d.report(d.place(path), path, fmt.Sprintf(format, args...))
}

// misread is like Problemf for a value that could not be read, so that nothing below it is known.
func (d *Document) misread(path Path, format string, args ...any) {
	d.Problemf(path, format, args...)
	d.unread[path.String()] = true
}

// KeyProblemf is like Problemf for the last key of path.
func (d *Document) KeyProblemf(path Path, format string, args ...any) {
	d.report(d.Key(path...), path, fmt.Sprintf(format, args...))
}

// Ignore drops later problems with the messages of err, the problems of another file.
func (d *Document) Ignore(err error) {
	var all Errors
	if d.known = map[string]bool{}; errors.As(err, &all) {
		for _, one := range all {
			d.known[one.Message] = true
		}
	}
}

func (d *Document) report(pos Position, path Path, message string) {
	for i := range len(path) + 1 {
		if at := path[:i].String(); d.unread[at] || d.bad[at] && i == len(path) {
			return
		}
	}
	if len(path) > 0 {
		d.bad[path.String()] = true
	}
	if !d.known[message] {
		d.fail(pos, message)
	}
}

func (d *Document) fail(pos Position, message string) {
	if len(d.problems) >= maxProblems {
		d.dropped++
		return
	}
	d.problems = append(d.problems, d.error(pos, message))
}

func (d *Document) error(pos Position, message string) *Error {
	return &Error{File: d.file, Position: pos, Message: message, Excerpt: excerpt(d.lines, pos)}
}

// Reported reports whether a problem with the value at path, or a misspelled key in its place, was
// reported.
func (d *Document) Reported(path ...any) bool { return d.bad[Path(path).String()] }

// Error returns err as a problem with the value at path, without reporting it.
func (d *Document) Error(path Path, err error) *Error {
	e := d.error(d.place(path), err.Error())
	e.Cause = err
	return e
}

// Named returns the path of the value below at with which a message begins, as in "regex_match[0]
// must be …", or at if the file has no such value.
func (d *Document) Named(at Path, message string) Path {
	name := message[:len(message)-len(strings.TrimLeft(message, "abcdefghijklmnopqrstuvwxyz0123456789_-.[]"))]
	if path := at.With(ParsePath(name)...); d.Has(path...) {
		return path
	}
	return at
}

// Err returns [Errors] with all problems in the order of the file, or nil.
func (d *Document) Err() error {
	if len(d.problems) == 0 {
		return nil
	}
	all := slices.Clone(d.problems)
	slices.SortStableFunc(all, func(a, b *Error) int { return a.Position.Compare(b.Position) })
	if d.dropped > 0 {
		all = append(all, &Error{File: d.file, Message: fmt.Sprintf("and %d more problems", d.dropped)})
	}
	return Errors(all)
}
