package secret

import (
	"bytes"
	"io"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// JSON is like [Set.Bytes] for a JSON document, which stays one: it changes only strings, and
// digits of numbers, which become 1. Keys and methods that are plain words are kept, since
// otherwise a secret such as "tools" would make every message meaningless. Invalid JSON is
// processed as by Bytes.
func (s *Set) JSON(doc []byte) ([]byte, Found) {
	all, found := s.inJSON(doc)
	if len(all) == 0 {
		return doc, found
	}
	out := bytes.Clone(doc)
	for _, m := range all {
		m.cover(out[m.At:m.end()])
	}
	return out, found
}

// WriteJSON writes the result of JSON to w without holding a copy of it. It returns write
// errors.
func (s *Set) WriteJSON(w io.Writer, doc []byte) (Found, error) {
	all, found := s.inJSON(doc)
	at := 0
	for _, m := range all {
		if _, err := w.Write(doc[at:m.At]); err != nil {
			return found, err
		}
		covered := bytes.Clone(doc[m.At:m.end()])
		m.cover(covered)
		if _, err := w.Write(covered); err != nil {
			return found, err
		}
		at = m.end()
	}
	_, err := w.Write(doc[at:])
	return found, err
}

// jsonSpan is a span in a document.
type jsonSpan struct {
	Span
	number bool // in a number
}

// cover replaces the span's bytes.
func (p jsonSpan) cover(b []byte) {
	if !p.number {
		cover(b)
		return
	}
	for i, c := range b {
		if c >= '0' && c <= '9' {
			b[i] = markDigit
		}
	}
}

// inJSON returns the spans to replace in a document.
func (s *Set) inJSON(doc []byte) (all []jsonSpan, found Found) {
	f := s.find()
	if f == nil {
		return nil, found
	}
	valid := jsontext.Valid(doc)
	spans := f.spans(doc, valid)
	if !valid {
		for _, p := range spans {
			found.note(p, len(doc))
			all = append(all, jsonSpan{p, false})
		}
		found.Envelope = len(spans) > 0
		return all, found
	}
	w := jsonWalk{doc: doc, spans: spans}
	for len(w.spans) > 0 && w.next() {
		// to the next string, number or bracket
	}
	for _, m := range w.all {
		found.note(m.Span, len(doc))
	}
	found.Envelope = w.envelope
	return w.all, found
}

// jsonWalk walks through a valid document and assigns spans to the strings and numbers that contain them. It
// ignores everything between these.
type jsonWalk struct {
	doc      []byte
	at       int
	spans    []Span // to come
	all      []jsonSpan
	envelope bool
	path     []string                              // current key of each open object
	open     []byte                                // the open brackets, '{' and '['
	each     func(p Span, path []string, key bool) // called for each span, instead of appending it to all; may be nil
}

// next advances past the next string, number or bracket, and reports whether there was one.
func (w *jsonWalk) next() bool {
	i := bytes.IndexAny(w.doc[w.at:], `"{}[]-0123456789`)
	if i < 0 {
		return false
	}
	w.at += i
	from := w.at
	switch c := w.doc[from]; c {
	case '"':
		w.at += jsontext.StringLength(w.doc[from:])
		w.text(from+1, w.at-1, isKey(w.doc[w.at:]))
	case '{':
		w.path = append(w.path, "")
		w.open = append(w.open, c)
		w.at++
	case '[':
		w.open = append(w.open, c)
		w.at++
	case '}', ']':
		if c == '}' {
			w.path = w.path[:len(w.path)-1]
		}
		w.open = w.open[:len(w.open)-1]
		w.at++
	default:
		for w.at < len(w.doc) && strings.IndexByte("+-.0123456789eE", w.doc[w.at]) >= 0 {
			w.at++
		}
		if w.take(from, w.at, false, true) {
			w.envelope = w.envelope || w.inEnvelope()
		}
	}
	return true
}

// text records the spans in a string.
func (w *jsonWalk) text(from, to int, key bool) {
	inside := w.doc[from:to]
	if key {
		w.path[len(w.path)-1] = jsontext.Word(w.doc[from-1 : to+1])
	}
	envelope := !key && w.inEnvelope()
	if w.each == nil && (key || envelope && w.path[len(w.path)-1] == "method") && isWord(inside) {
		return
	}
	if w.take(from, to, key, false) {
		w.envelope = w.envelope || envelope
	}
}

// minInNumber is the minimum length of a secret that is found within a number. Shorter ones occur in numbers
// by chance.
const minInNumber = 8

// take records the spans in doc[from:to], and reports whether there are any.
func (w *jsonWalk) take(from, to int, key, number bool) (any bool) {
	for len(w.spans) > 0 && w.spans[0].end() <= from {
		w.spans = w.spans[1:]
	}
	for _, p := range w.spans {
		if p.At >= to {
			break
		}
		begin := max(p.At, from)
		part := Span{begin, min(p.end(), to) - begin, p.Secrets}
		if w.each != nil {
			w.each(part, w.path, key)
			continue
		}
		if number && part.Bytes < min(minInNumber, to-from) {
			continue
		}
		w.all = append(w.all, jsonSpan{part, number})
		any = true
	}
	return any
}

// inEnvelope reports whether the current value is the message's id, method or tool.
func (w *jsonWalk) inEnvelope() bool {
	return len(w.path) <= 2 && slices.Contains([]string{"id", "method", "params.name"}, strings.Join(w.path, "."))
}

// isWord reports whether text has only the characters of the protocol's own keys and
// methods.
func isWord(text []byte) bool {
	return !bytes.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != '/' && c != '$'
	})
}

func isKey(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}
