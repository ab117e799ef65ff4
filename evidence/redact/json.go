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

// JSON is Bytes for one JSON document. It changes strings and nothing else: the
// letters of a secret may stand in a literal, its digits in a number. Keys and
// methods that are plain words stay too, or a secret such as "tools" would take
// the meaning out of every message. What is no JSON is treated as Bytes does.
func (s *Set) JSON(doc []byte) ([]byte, Found) {
	if !s.concerns(doc) {
		return doc, Found{}
	}
	var out bytes.Buffer
	found, _ := s.WriteJSON(&out, doc) // a buffer takes everything
	return out.Bytes(), found
}

// WriteJSON writes what JSON makes of doc to w, and holds no copy of it. The error
// is w's.
func (s *Set) WriteJSON(w io.Writer, doc []byte) (Found, error) {
	if !s.concerns(doc) {
		_, err := w.Write(doc)
		return Found{}, err
	}
	return s.writeJSON(w, doc, s.clean)
}

// CutJSON is JSON for a document in whose strings parts were cut off, as [Set.Cut] has it;
// in strings of more than [jsontext.Piece] bytes it does not look for that.
func (s *Set) CutJSON(doc []byte) ([]byte, Found) {
	if s == nil || !bytes.Contains(doc, []byte(text.Ellipsis)) {
		return s.JSON(doc)
	}
	var out bytes.Buffer
	found, _ := s.writeJSON(&out, doc, s.Cut) // a buffer takes everything
	return out.Bytes(), found
}

// writeJSON is WriteJSON with what clean makes of each string that is not long.
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

// concerns reports whether doc may hold a secret: as it is, or behind an escape.
func (s *Set) concerns(doc []byte) bool {
	f := s.find()
	return f != nil && (bytes.Contains(doc, []byte(`\u`)) || f.in(doc))
}

// jsonRedactor copies a valid document, and knows by which keys it came to where
// it is.
type jsonRedactor struct {
	set   *Set
	clean func(string) (string, Found) // what becomes of a string that is not long
	out   *bufio.Writer                // keeps its first error
	found Found
	path  []string // the key at hand of each object that is open
	open  []byte   // '{' and '[' that are open
}

// step copies up to and with the next string or bracket, and returns the rest.
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

// inEnvelope reports whether the value at hand is the message's id, method or tool.
func (r *jsonRedactor) inEnvelope() bool {
	return len(r.path) <= 2 && slices.Contains([]string{"id", "method", "params.name"}, strings.Join(r.path, "."))
}

// long is text for a string that is too long for a key or a method that means
// something, and too long to be held twice.
func (r *jsonRedactor) long(quoted []byte, key bool) {
	if key {
		r.path[len(r.path)-1] = "a long key"
	}
	texts := func(yield func([]byte) bool) {
		for text := range jsontext.Texts(quoted) {
			if !yield([]byte(text)) {
				return
			}
		}
	}
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

// isWord reports whether text is letters alone, as the protocol's own words are.
func isWord(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '/' && c != '$'
	})
}

func isKey(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}
