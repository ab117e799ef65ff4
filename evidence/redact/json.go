package redact

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// JSON is like Bytes for a JSON document. It changes only strings, since the letters of a
// secret may occur in a literal and its digits in a number. Keys and methods that are plain
// words are kept, since otherwise a secret such as "tools" would make every message
// meaningless. Invalid JSON is processed as by Bytes.
func (s *Set) JSON(doc []byte) ([]byte, Found) {
	if !s.concerns(doc) {
		return doc, Found{}
	}
	var out bytes.Buffer
	found, _ := s.WriteJSON(&out, doc) // a buffer takes everything
	return out.Bytes(), found
}

// WriteJSON writes the result of JSON to w without holding a copy of it. It returns write
// errors.
func (s *Set) WriteJSON(w io.Writer, doc []byte) (Found, error) {
	if !s.concerns(doc) {
		_, err := w.Write(doc)
		return Found{}, err
	}
	return s.writeJSON(w, doc, s.clean)
}

// CutJSON is like JSON for a document whose strings may have been shortened, as described
// at [Set.Cut]. It does not check strings of more than [jsontext.Piece] bytes for that.
func (s *Set) CutJSON(doc []byte) ([]byte, Found) {
	if s == nil || !bytes.Contains(doc, []byte(text.Ellipsis)) {
		return s.JSON(doc)
	}
	var out bytes.Buffer
	found, _ := s.writeJSON(&out, doc, s.Cut) // a buffer takes everything
	return out.Bytes(), found
}

// writeJSON is like WriteJSON, with clean applied to each string that is not long.
func (s *Set) writeJSON(w io.Writer, doc []byte, clean func(string) (string, Found)) (Found, error) {
	if !jsontext.Valid(doc) {
		found, err := s.pass(w, slices.Values([][]byte{doc}))
		found.Envelope = found.Spans > 0
		return found, err
	}
	r := jsonRedactor{set: s, clean: clean, out: bufio.NewWriter(w)}
	for len(doc) > 0 {
		doc = r.step(doc)
	}
	return r.found, r.out.Flush()
}

// concerns reports whether doc may contain a secret, possibly escaped.
func (s *Set) concerns(doc []byte) bool {
	f := s.find()
	return f != nil && (bytes.Contains(doc, []byte(`\u`)) || f.in(doc))
}

// jsonRedactor copies a valid document and keeps track of the keys on the path to the
// current value.
type jsonRedactor struct {
	set   *Set
	clean func(string) (string, Found) // applied to strings that are not long
	out   *bufio.Writer                // remembers its first error
	found Found
	path  []string // current key of each open object
	open  []byte   // the open brackets, '{' and '['
}

// step copies doc up to and including the next string or bracket, and returns the rest.
func (r *jsonRedactor) step(doc []byte) []byte {
	i := bytes.IndexAny(doc, `"{}[]`)
	if i < 0 {
		_, _ = r.out.Write(doc)
		return nil
	}
	_, _ = r.out.Write(doc[:i])
	doc = doc[i:]
	switch doc[0] {
	case '"':
		end := jsontext.StringLength(doc)
		r.text(doc[:end], isKey(doc[end:]))
		return doc[end:]
	case '{':
		r.path = append(r.path, "")
		r.open = append(r.open, '{')
	case '[':
		r.open = append(r.open, '[')
	default:
		if last := len(r.open) - 1; r.open[last] == '{' {
			r.path = r.path[:len(r.path)-1]
			r.open = r.open[:last]
		} else {
			r.open = r.open[:last]
		}
	}
	_ = r.out.WriteByte(doc[0])
	return doc[1:]
}

// text copies one string.
func (r *jsonRedactor) text(quoted []byte, key bool) {
	if len(quoted) > jsontext.Piece {
		r.long(quoted, key)
		return
	}
	var text string
	_ = jsontext.Unmarshal(quoted, &text) // the document is valid
	if key {
		r.path[len(r.path)-1] = text
	}
	envelope := !key && r.inEnvelope()
	clean, found := r.clean(text)
	if clean == text || (key || envelope && r.path[len(r.path)-1] == "method") && isWord(text) {
		_, _ = r.out.Write(quoted)
		return
	}
	found.Envelope = envelope
	r.found.Add(found)
	quoted, _ = json.Marshal(clean) // a string always marshals
	_, _ = r.out.Write(quoted)
}

// inEnvelope reports whether the current value is the message's id, method or tool.
func (r *jsonRedactor) inEnvelope() bool {
	return len(r.path) <= 2 && slices.Contains([]string{"id", "method", "params.name"}, strings.Join(r.path, "."))
}

// long is like text for a string too long to hold twice, and too long to be a meaningful
// key or method.
func (r *jsonRedactor) long(quoted []byte, key bool) {
	if key {
		r.path[len(r.path)-1] = "a long key"
	}
	texts := jsontext.Texts(quoted)
	found, _ := r.set.pass(io.Discard, texts)
	if found.Spans == 0 {
		_, _ = r.out.Write(quoted)
		return
	}
	found.Envelope = !key && r.inEnvelope()
	r.found.Add(found)
	_ = r.out.WriteByte('"')
	inside := jsontext.NewEscaper(r.out, true)
	_, _ = r.set.pass(inside, texts)
	_ = inside.Close()
	_ = r.out.WriteByte('"')
}

// isWord reports whether text has only the characters of the protocol's own keys and
// methods.
func isWord(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '/' && c != '$'
	})
}

func isKey(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}
