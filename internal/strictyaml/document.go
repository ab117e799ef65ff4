// Package strictyaml decodes YAML and JSON files into Go values and reports every mistake
// at once, with file, line, column, an excerpt and a suggestion.
//
// A struct says what is allowed by its tags. `json` names the key; a key
// without omitempty or omitzero is required and must not be empty. `enum`
// lists the values of a string, separated by spaces, and `min`, `max` and `over` bound a number
// (`over` excludes the bound itself). `unknown:"warn"` on a field named _ has unknown keys
// left out with a warning, unless they are misspelt known ones, and keys without a value
// taken as left out. `zero:"unset"` has 0 taken as left out.
//
// A string is set from every scalar, as it is written: 1.0 is "1.0".
//
// What a file may hold is less than YAML: one document, UTF-8, keys that are
// strings, numbers as JSON writes them, and no tags. Aliases are followed and merge keys
// (<<) laid below their mappings, within the bounds that protect against hostile files.
//
// It is not a general YAML decoder, it writes no YAML, and it keeps no comments.
package strictyaml

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Shorthand is a struct of which a file may give one string and leave out the rest.
type Shorthand interface{ SetShort(string) error }

// Document is a parsed file and the problems found in it so far. It is not safe
// for concurrent use.
type Document struct {
	file     string
	lines    []string
	root     *node
	problems []*Error
	bad      map[string]bool // paths that have a problem
	dropped  int             // problems beyond maxProblems
	private  bool            // no string of the file is shown
	strict   bool            // unknown keys are problems everywhere
	warnings []*Error
	laid     int // values that Lay added
}

// Path leads to a value: a string for a key, an int for an index, both from the
// root of the file.
type Path []any

// String returns p as people write it, such as graders[0].config.
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

// With returns p with further steps behind it. It shares nothing with p.
func (p Path) With(steps ...any) Path { return append(slices.Clone(p), steps...) }

// ParsePath reads a path as String writes it.
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

// Parse reads the one document in data. Errors name the file as file. What Parse
// cannot read at all is its error; other problems are collected in the Document
// and returned by [Document.Err].
func Parse(file string, data []byte) (*Document, error) {
	d := &Document{
		file:  file,
		lines: strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n"),
		bad:   map[string]bool{},
	}
	body := d.parse(data)
	if body != nil {
		c := converter{doc: d, anchors: map[string]*node{}}
		d.root = c.node(body, 0)
	}
	if d.root == nil || !d.root.inBounds() {
		return nil, d.Err()
	}
	return d, nil
}

// Decode reads the whole file into v, a pointer to a struct. What fits is set
// even when the rest has problems.
func (d *Document) Decode(v any) { d.DecodeAt(v) }

// DecodeAt reads the value at path into v, a pointer, and reports whether it
// fits. A value that is not there is read as an empty mapping, so that what it
// requires is reported.
func (d *Document) DecodeAt(v any, path ...any) bool {
	n, found := d.find(path)
	if !found {
		n = &node{kind: mapping}
	}
	before := len(d.problems) + d.dropped
	decoder{d}.value(n, reflect.ValueOf(v).Elem(), path, Limits{})
	return len(d.problems)+d.dropped == before
}

// Strict makes every unknown key a problem.
func (d *Document) Strict() { d.strict = true }

// Warnf notes that the value at path has no effect.
func (d *Document) Warnf(path Path, format string, args ...any) {
	d.warn(d.place(path), fmt.Sprintf(format, args...))
}

func (d *Document) warn(pos Position, message string) {
	if len(d.warnings) < maxProblems {
		d.warnings = append(d.warnings, &Error{File: d.file, Position: pos, Message: message, Class: ErrInvalid})
	}
}

// Warnings returns what was left out: keys that nothing knows, and what Warnf noted.
func (d *Document) Warnings() []*Error { return d.warnings }

// Forget lets go of the content of the file, which was read. Its problems and warnings stay.
func (d *Document) Forget() { d.root, d.lines, d.bad = nil, nil, nil }

// Add puts a string into the mapping at path, under key, and reports whether it could: the
// mapping is there or can be made, and has no such key.
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

// Lay lays what other holds below the mapping at path, and reports whether there was room.
// Keys that stand there stay, unless they have no value; mappings that both have are laid
// likewise, and lists are not joined. Problems of what is added are shown at the mapping's
// key.
func (d *Document) Lay(other *Document, path Path, key string) bool {
	n, found := d.find(path)
	if !found || n.kind != mapping || other.root.kind != mapping {
		return true // who decodes it says so
	}
	d.laid += other.root.size
	if d.root.size+d.laid > maxNodes {
		return false
	}
	n.lay(other.root, d.At(path.With(key)...))
	return true
}

// At returns the position of the value at path, or of the nearest thing around it
// that is there.
func (d *Document) At(path ...any) Position {
	n, _ := d.find(path)
	return n.pos
}

// Has reports whether the file has a value at path.
func (d *Document) Has(path ...any) bool {
	_, found := d.find(path)
	return found
}

// Key returns the position of the key that path ends with, or what At gives where
// path does not end with a key of the file.
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

// find returns the node at path, or the innermost one on the way that exists.
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

// place returns where a problem with the value at path is shown: at the value, or at
// the key of a list or mapping, which begins with something else. What is not
// there is shown at what is around it.
func (d *Document) place(path Path) Position {
	for len(path) > 0 && !d.Has(path...) {
		path = path[:len(path)-1]
	}
	if n, _ := d.find(path); n.kind == list || n.kind == mapping {
		return d.Key(path...)
	}
	return d.At(path...)
}

// Problemf reports that the value at path is wrong. It is dropped where that
// value, or one around it, is reported already: one mistake gives one error.
func (d *Document) Problemf(path Path, format string, args ...any) {
	d.report(d.place(path), path, ErrInvalid, fmt.Sprintf(format, args...))
}

// KeyProblemf is Problemf about the key that path ends with.
func (d *Document) KeyProblemf(path Path, format string, args ...any) {
	d.report(d.Key(path...), path, ErrInvalid, fmt.Sprintf(format, args...))
}

// NotSupported reports that what, found at path, is known and not built yet.
func (d *Document) NotSupported(path Path, what string) {
	d.report(d.place(path), path, ErrNotSupported, "not supported yet: "+what)
}

func (d *Document) report(pos Position, path Path, class error, message string) {
	for i := range len(path) + 1 {
		if d.bad[path[:i].String()] {
			return
		}
	}
	if len(path) > 0 {
		d.bad[path.String()] = true
	}
	d.fail(pos, class, message)
}

func (d *Document) fail(pos Position, class error, message string) {
	if len(d.problems) >= maxProblems {
		d.dropped++
		return
	}
	d.problems = append(d.problems, &Error{
		File: d.file, Position: pos, Message: message, Class: class, Excerpt: excerpt(d.lines, pos),
	})
}

// Err is nil, or [Errors] with every problem in the order of the file.
func (d *Document) Err() error {
	if len(d.problems) == 0 {
		return nil
	}
	all := slices.Clone(d.problems)
	slices.SortStableFunc(all, func(a, b *Error) int { return a.Position.compare(b.Position) })
	if d.dropped > 0 {
		all = append(all, &Error{
			File: d.file, Message: fmt.Sprintf("and %d more problems", d.dropped), Class: ErrInvalid,
		})
	}
	return Errors(all)
}
