package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ParseJSON parses the JSON value in data as [Parse] parses YAML. It accepts comments and
// trailing commas, as in the settings of editors (JSONC).
//
// Such files may contain tokens in unexpected places, so their problems show neither lines
// of the file nor strings from it, except keys and single characters.
func ParseJSON(file string, data []byte) (*Document, error) {
	if len(data) > MaxBytes {
		return nil, Errors{{File: file, Message: fmt.Sprintf("the file is larger than %d KiB", MaxBytes>>10)}}
	}
	return parseJSON(file, data)
}

// FromJSON returns a document that has value under key. value must be valid JSON and may have any
// size, since it is part of a file that was already decoded.
func FromJSON(key string, value json.RawMessage) (*Document, error) {
	data, err := json.Marshal(map[string]json.RawMessage{key: value})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return parseJSON(key, data)
}

func parseJSON(file string, data []byte) (*Document, error) {
	d := &Document{file: file, private: true, bad: map[string]bool{}, unread: map[string]bool{}}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if !utf8.Valid(data) {
		d.fail(after(valid(string(data))), "the file is not UTF-8 text; save it as UTF-8")
		return nil, d.Err()
	}
	plain, open := blanked(data)
	r := jsonReader{
		doc: d, text: data, plain: plain, pos: Position{Line: 1, Column: 1},
		dec: jsontext.NewDecoder(bytes.NewBuffer(plain), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)),
	}
	var err error
	switch r.next(); {
	case open >= 0:
		err = r.wrong(open, "the comment that begins here has no end")
	case r.at == len(plain):
		err = errors.New("the file is empty")
	default:
		if d.root, err = r.value(0); err != nil {
			break
		}
		if r.next(); r.at < len(plain) {
			err = r.wrong(r.at, "nothing may follow the value that the file holds")
		}
	}
	if err != nil {
		d.fail(r.pos, err.Error())
		return nil, d.Err()
	}
	return d, nil
}

// blanked returns JSONC as JSON of the same length, with comments and trailing commas
// replaced by spaces. open is the offset of an unterminated comment, or -1.
func blanked(data []byte) (plain []byte, open int) {
	plain = bytes.Clone(data)
	var before, last byte // first bytes of the last two tokens
	lastAt := 0
	for i, n := 0, 0; i < len(plain); i += n {
		if n = tokenLength(plain[i:]); n == 0 {
			return plain, i
		}
		switch c := plain[i]; {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			continue
		case c == '/' && n > 1:
			copy(plain[i:i+n], bytes.Repeat([]byte(" "), n))
			continue
		case (c == ']' || c == '}') && last == ',' && strings.IndexByte("[{,", before) < 0:
			plain[lastAt] = ' '
		}
		before, last, lastAt = last, plain[i], i
	}
	return plain, -1
}

// tokenLength returns the length of the string, comment or single character at the beginning
// of JSONC. It is 0 for a comment without an end.
func tokenLength(text []byte) int {
	switch {
	case text[0] == '"':
		for i := 1; i < len(text); i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
		return len(text)
	case bytes.HasPrefix(text, []byte("//")):
		line, _, _ := bytes.Cut(text, []byte("\n"))
		return len(line)
	case bytes.HasPrefix(text, []byte("/*")):
		if end := bytes.Index(text[2:], []byte("*/")); end >= 0 {
			return end + 4
		}
		return 0
	}
	return 1
}

// jsonReader converts JSON text to nodes. pos is the position of offset at.
type jsonReader struct {
	doc         *Document
	dec         *jsontext.Decoder
	text, plain []byte // as written, and without comments
	at          int
	pos         Position
}

// next moves to the next token.
func (r *jsonReader) next() {
	offset := int(r.dec.InputOffset())
	r.moveTo(len(r.plain) - len(bytes.TrimLeft(r.plain[offset:], " \t\r\n,:")))
}

// moveTo moves to an offset.
func (r *jsonReader) moveTo(offset int) {
	if offset < r.at {
		r.at, r.pos = 0, Position{Line: 1, Column: 1}
	}
	taken := r.text[r.at:offset]
	if newlines := bytes.Count(taken, []byte("\n")); newlines > 0 {
		r.pos = Position{r.pos.Line + newlines, 1}
		taken = taken[bytes.LastIndexByte(taken, '\n')+1:]
	}
	r.pos.Column += utf8.RuneCount(taken)
	r.at = offset
}

// wrong returns an error about the JSON at an offset.
func (r *jsonReader) wrong(offset int, format string, args ...any) error {
	r.moveTo(offset)
	return fmt.Errorf("this is not valid JSON: "+format, args...)
}

// token reads the next token.
func (r *jsonReader) token() (jsontext.Token, error) {
	token, err := r.dec.ReadToken()
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case err == nil:
		return token, nil
	case ok && !errors.Is(err, io.ErrUnexpectedEOF):
		return token, r.wrong(int(syntax.ByteOffset), "%v", syntax.Err)
	case r.at < len(r.plain):
		return token, r.wrong(r.at, "what begins here has no end")
	}
	return token, r.wrong(r.at, "the file ends where a value should be")
}

func (r *jsonReader) value(depth int) (*node, error) {
	r.next()
	made := &node{pos: r.pos, size: 1}
	if depth > maxDepth {
		return nil, errors.New(tooDeep())
	}
	token, err := r.token()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '{':
		made.kind, made.index = mapping, map[string]int{}
		return made, r.elements('}', func() error { return r.pair(made, depth) })
	case '[':
		made.kind = list
		return made, r.elements(']', func() error {
			item, err := r.value(depth + 1)
			made.items = append(made.items, item)
			return err
		})
	case '"':
		made.kind, made.text = text, token.String()
	case '0':
		made.text = token.String()
		if made.kind = integer; strings.ContainsAny(made.text, ".eE") {
			made.kind = float
		}
	case 'n':
		made.kind = null
	default:
		made.kind, made.text = boolean, token.String()
	}
	made.written = made.text
	return made, nil
}

// elements reads the elements of a list or mapping, and the closing bracket.
func (r *jsonReader) elements(closing jsontext.Kind, element func() error) error {
	for r.dec.PeekKind() != closing {
		r.next()
		if rest := bytes.TrimSpace(r.plain); r.at == len(r.plain) && strings.IndexByte("[{,", rest[len(rest)-1]) < 0 {
			return r.wrong(r.at, "the file ends and %q is still wanted", rune(closing))
		}
		if err := element(); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// pair reads a key and its value into a mapping.
func (r *jsonReader) pair(to *node, depth int) error {
	pos := r.pos
	if r.at < len(r.plain) && r.plain[r.at] != '"' {
		return r.wrong(r.at, "a key in double quotes is wanted here")
	}
	token, err := r.token()
	if err != nil {
		return err
	}
	key := token.String()
	value, err := r.value(depth + 1)
	if err != nil {
		return err
	}
	if first := to.pair(key); first != nil {
		r.doc.fail(pos, fmt.Sprintf("duplicate key %q; it is already on line %d, so remove one of them", key, first.keyPos.Line))
		return nil
	}
	to.add(pair{key, pos, value})
	return nil
}
