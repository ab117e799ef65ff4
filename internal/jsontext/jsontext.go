// Package jsontext reads and compares JSON values: it walks objects and arrays in place and reads
// long strings piece by piece, without copying. It uses go-json-experiment/json to validate,
// decode and tokenize input that may be invalid.
//
// Numbers are equal by exact value (1 = 1.0), strings exactly, arrays in order, objects regardless
// of key order. Values of different types are never equal.
package jsontext

import (
	"bytes"
	"encoding/json"
	"io"
	"iter"
	"strings"
	"unicode/utf8"
)

// Piece is the approximate number of bytes of a long string processed at a time.
const Piece = 32 << 10

// Escaper writes text as the contents of a JSON string. Invalid UTF-8 becomes U+FFFD. Close
// must be called; it does not close the underlying writer.
type Escaper struct {
	out  io.Writer
	html bool
	held []byte // an incomplete rune
	buf  bytes.Buffer
}

// NewEscaper returns an Escaper that writes to out. If html is set it also escapes <, > and
// &, like json.Marshal.
func NewEscaper(out io.Writer, html bool) *Escaper { return &Escaper{out: out, html: html} }

// Write implements io.Writer.
func (e *Escaper) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), Piece)
		e.held = append(e.held, rest[:n]...)
		rest = rest[n:]
		whole := len(e.held) - unfinished(e.held)
		if err := e.write(e.held[:whole]); err != nil {
			return len(p) - len(rest), err
		}
		e.held = append(e.held[:0], e.held[whole:]...)
	}
	return len(p), nil
}

// Close writes the remaining bytes.
func (e *Escaper) Close() error {
	err := e.write(e.held)
	e.held = nil
	return err
}

func (e *Escaper) write(text []byte) error {
	e.buf.Reset()
	encoder := json.NewEncoder(&e.buf)
	encoder.SetEscapeHTML(e.html)
	if err := encoder.Encode(string(text)); err != nil {
		return err
	}
	quoted := e.buf.Bytes()
	_, err := e.out.Write(quoted[1 : len(quoted)-len("\"\n")])
	return err
}

// unfinished returns how many bytes at the end of b may be an incomplete rune.
func unfinished(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if end := b[len(b)-n:]; utf8.RuneStart(end[0]) {
			if utf8.FullRune(end) {
				return 0
			}
			return n
		}
	}
	return 0
}

// Texts yields the decoded text of a valid JSON string, given with its quotes, in pieces.
func Texts(quoted []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for inside := quoted[1 : len(quoted)-1]; len(inside) > 0; {
			n := pieceLength(inside)
			var text string
			part := append(append([]byte{'"'}, inside[:n]...), '"')
			_ = json.Unmarshal(part, &text) // part of a valid string, cut between characters
			if !yield([]byte(text)) {
				return
			}
			inside = inside[n:]
		}
	}
}

// pieceLength returns the length of a first piece of inside that does not end within an
// escape, a rune or a surrogate pair.
func pieceLength(inside []byte) int {
	n := 0
	for n < len(inside) && n < Piece {
		n += tokenLength(inside[n:])
	}
	for n < len(inside) && !utf8.RuneStart(inside[n]) {
		n++
	}
	return min(n, len(inside))
}

// tokenLength returns the length of the escape at the beginning of b, including both halves
// of a surrogate pair, or 1.
func tokenLength(b []byte) int {
	switch {
	case b[0] != '\\':
		return 1
	case len(b) < 6 || b[1] != 'u':
		return 2
	case len(b) >= 12 && half(b, "89abAB") && half(b[6:], "cdefCDEF"):
		return 12
	}
	return 6
}

// half reports whether b begins with an escaped surrogate whose second digit is in digits.
func half(b []byte, digits string) bool {
	return b[0] == '\\' && b[1] == 'u' && (b[2] == 'd' || b[2] == 'D') && strings.IndexByte(digits, b[3]) >= 0
}
