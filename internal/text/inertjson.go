package text

import (
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// InertJSON returns a writer that forwards JSON with the same values, but escapes all
// characters that control a terminal or start a CI command. In valid JSON these occur only
// in strings. The caller must call Close, which flushes an incomplete character.
func InertJSON(w io.Writer) io.WriteCloser { return &jsonWriter{w: w} }

type jsonWriter struct {
	w    io.Writer
	held []byte // an incomplete character
	last rune
}

func (j *jsonWriter) Write(p []byte) (int, error) {
	text := append(j.held, p...)
	out := make([]byte, 0, len(text))
	for utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		if j.obeyed(r) {
			out = appendEscaped(out, r)
		} else {
			out = append(out, text[:size]...)
		}
		j.last, text = r, text[size:]
	}
	j.held = append([]byte(nil), text...)
	if _, err := j.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (j *jsonWriter) Close() error {
	_, err := j.w.Write(j.held)
	j.held = nil
	return err
}

// obeyed reports whether r must be escaped after the last character. Line breaks and tabs
// between values are kept.
func (j *jsonWriter) obeyed(r rune) bool {
	switch r {
	case '\n', '\r', '\t':
		return false
	case '#':
		return j.last == '#'
	}
	return !unicode.IsGraphic(r)
}

func appendEscaped(out []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}
