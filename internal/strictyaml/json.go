package strictyaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ParseJSON reads the JSON value in data as [Parse] reads YAML. Comments and a
// comma after the last element are taken, as editors write them into their
// settings (JSONC).
//
// Such files hold tokens in places nobody foresees: their problems show neither
// lines of the file nor strings out of it, beside keys. A tokenizer of JSON would
// refuse the comments, and quote what it refuses.
func ParseJSON(file string, data []byte) (*Document, error) {
	d := &Document{file: file, private: true, bad: map[string]bool{}}
	r := jsonReader{doc: d, text: strings.TrimPrefix(string(data), "\ufeff"), pos: Position{Line: 1, Column: 1}}
	var err error
	switch {
	case len(data) > MaxBytes:
		return nil, r.wrong(Position{}, fmt.Errorf("the file is larger than %d KiB", MaxBytes>>10))
	case !utf8.Valid(data):
		return nil, r.wrong(Position{}, errors.New("the file is not UTF-8 text"))
	}
	if d.root, err = r.document(); err != nil {
		return nil, r.wrong(r.pos, err)
	}
	return d, nil
}

// jsonReader makes nodes of JSON text. pos is the place of what is read next.
type jsonReader struct {
	doc   *Document
	text  string // what is left
	pos   Position
	nodes int
}

func (r *jsonReader) wrong(at Position, err error) error {
	r.doc.fail(at, ErrInvalid, err.Error())
	return r.doc.Err()
}

func (r *jsonReader) document() (*node, error) {
	if err := r.space(); err != nil {
		return nil, err
	}
	if r.text == "" {
		return nil, errors.New("the file is empty")
	}
	root, err := r.value(0)
	if err != nil {
		return nil, err
	}
	if err := r.space(); err != nil {
		return nil, err
	}
	if r.text != "" {
		return nil, invalidJSON("nothing may follow the value that the file holds")
	}
	return root, nil
}

func invalidJSON(format string, args ...any) error {
	return fmt.Errorf("this is not valid JSON: "+format, args...)
}

// take moves over the next n bytes and returns them.
func (r *jsonReader) take(n int) string {
	taken := r.text[:n]
	r.text = r.text[n:]
	if newlines := strings.Count(taken, "\n"); newlines > 0 {
		r.pos.Line += newlines
		r.pos.Column = 1
		taken = taken[strings.LastIndexByte(taken, '\n')+1:]
	}
	r.pos.Column += utf8.RuneCountInString(taken)
	return taken
}

// space moves over blanks and comments.
func (r *jsonReader) space() error {
	for {
		r.take(len(r.text) - len(strings.TrimLeft(r.text, " \t\r\n")))
		switch {
		case strings.HasPrefix(r.text, "//"):
			line, _, _ := strings.Cut(r.text, "\n")
			r.take(len(line))
		case strings.HasPrefix(r.text, "/*"):
			end := strings.Index(r.text[2:], "*/")
			if end < 0 {
				return invalidJSON("the comment that begins here has no end")
			}
			r.take(end + 4)
		default:
			return nil
		}
	}
}

func (r *jsonReader) value(depth int) (*node, error) {
	if r.nodes++; r.nodes > maxNodes {
		return nil, fmt.Errorf("the file has more than %d values", maxNodes)
	}
	if depth > maxDepth {
		return nil, errors.New(tooDeep())
	}
	if r.text == "" {
		return nil, invalidJSON("the file ends where a value should be")
	}
	pos := r.pos
	switch r.text[0] {
	case '{':
		return r.mapping(pos, depth)
	case '[':
		return r.list(pos, depth)
	case '"':
		s, err := r.str()
		return &node{kind: text, pos: pos, text: s, size: 1}, err
	default:
		return r.word(pos)
	}
}

// word reads a number or one of the three names.
func (r *jsonReader) word(pos Position) (*node, error) {
	rest := strings.TrimLeft(r.text, "+-.0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
	word := r.text[:len(r.text)-len(rest)]
	made := &node{pos: pos, text: word, written: word, size: 1}
	switch {
	case word == "null":
		made.kind = null
	case word == "true" || word == "false":
		made.kind = boolean
	case jsonNumber.MatchString(word) && strings.ContainsAny(word, ".eE"):
		made.kind = float
	case jsonNumber.MatchString(word):
		made.kind = integer
	default:
		return nil, invalidJSON("a value is wanted here: a string in double quotes, a number, true, false, null, a list or a mapping")
	}
	r.take(len(word))
	return made, nil
}

// str reads a string.
func (r *jsonReader) str() (string, error) {
	end := 1
	for end < len(r.text) && r.text[end] != '"' {
		switch {
		case r.text[end] == '\\':
			end++
		case r.text[end] < ' ':
			return "", invalidJSON("the string that begins here is not closed on its line")
		}
		end++
	}
	if end >= len(r.text) {
		return "", invalidJSON("the string that begins here has no end")
	}
	var s string
	if json.Unmarshal([]byte(r.text[:end+1]), &s) != nil {
		return "", invalidJSON(`the string that begins here has an escape that JSON does not know; write a backslash as \\`)
	}
	r.take(end + 1)
	return s, nil
}

func (r *jsonReader) list(pos Position, depth int) (*node, error) {
	made := &node{kind: list, pos: pos, size: 1}
	err := r.elements(']', func() error {
		item, err := r.value(depth + 1)
		made.items = append(made.items, item)
		return err
	})
	return made, err
}

func (r *jsonReader) mapping(pos Position, depth int) (*node, error) {
	made := &node{kind: mapping, pos: pos, size: 1, index: map[string]int{}}
	return made, r.elements('}', func() error { return r.pair(made, depth) })
}

// pair reads a key and its value into the mapping to.
func (r *jsonReader) pair(to *node, depth int) error {
	if !strings.HasPrefix(r.text, `"`) {
		return invalidJSON("a key in double quotes is wanted here")
	}
	keyPos := r.pos
	key, err := r.str()
	if err != nil {
		return err
	}
	if err := r.space(); err != nil {
		return err
	}
	if !strings.HasPrefix(r.text, ":") {
		return invalidJSON("a colon is wanted between a key and its value")
	}
	r.take(1)
	if err := r.space(); err != nil {
		return err
	}
	value, err := r.value(depth + 1)
	if err != nil {
		return err
	}
	if first := to.pair(key); first != nil {
		r.doc.fail(keyPos, ErrInvalid, fmt.Sprintf("duplicate key %q; it is on line %d already", key, first.keyPos.Line))
		return nil
	}
	to.index[key] = len(to.pairs)
	to.pairs = append(to.pairs, pair{key, keyPos, value})
	return nil
}

// elements reads what stands between a bracket, which is next, and the one that
// closes it, with commas between.
func (r *jsonReader) elements(closing byte, element func() error) error {
	for first := true; ; first = false {
		if first {
			r.take(1)
		}
		if err := r.space(); err != nil {
			return err
		}
		if r.text != "" && r.text[0] == closing {
			r.take(1)
			return nil
		}
		if err := element(); err != nil {
			return err
		}
		if err := r.space(); err != nil {
			return err
		}
		switch {
		case r.text == "":
			return invalidJSON("the file ends and %q is still wanted", closing)
		case r.text[0] == ',':
			r.take(1)
		case r.text[0] != closing:
			return invalidJSON("a comma or %q is wanted here", closing)
		}
	}
}
