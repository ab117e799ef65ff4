package text

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Plain is a writer for terminals and logs of CI systems. It forwards text, but escapes as \uXXXX
// all characters that control a terminal, are invisible or change the text direction, and one
// character of each CI command. In JSON such characters only occur in strings, so the JSON keeps
// its values and people see the characters. It is safe for concurrent use.
type Plain struct {
	w   io.Writer
	own []string // control sequences that are forwarded

	mu     sync.Mutex
	held   []byte // an incomplete character or sequence; guarded by mu
	begun  int    // length of the prefix of "::" at the start of the line, or -1 if it starts otherwise; guarded by mu
	hashes int    // length of the prefix of "##" before, which letters may follow; guarded by mu
}

// NewPlain returns a Plain that writes to w and forwards the control sequences own.
func NewPlain(w io.Writer, own ...string) *Plain { return &Plain{w: w, own: own} }

// PlainText returns whole lines as a [Plain] writes them.
func PlainText(s string, own ...string) string {
	var out strings.Builder
	p := NewPlain(&out, own...)
	_, _ = io.WriteString(p, s) // a Builder never fails
	_ = p.Close()
	return out.String()
}

// Write implements [io.Writer].
func (p *Plain) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := p.plainLocked(append(p.held, b...))
	if _, err := p.w.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

// plainLocked returns the escaped text, and holds back an end that may be incomplete.
func (p *Plain) plainLocked(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		if own, isPart := p.ownLocked(text); own > 0 {
			out, text = append(out, text[:own]...), text[own:]
			continue
		} else if isPart || !utf8.FullRune(text) {
			break
		}
		r, size := utf8.DecodeRune(text)
		switch {
		case p.obeyedLocked(r):
			out = appendEscaped(out, r)
		case r == utf8.RuneError && size == 1:
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	p.held = bytes.Clone(text)
	return out
}

// ownLocked returns the length of the own sequence at the beginning of text, and whether text may
// be an incomplete one.
func (p *Plain) ownLocked(text []byte) (length int, isPart bool) {
	if text[0] != '\x1b' {
		return 0, false
	}
	for _, own := range p.own {
		if bytes.HasPrefix(text, []byte(own)) {
			return len(own), false
		}
		isPart = isPart || strings.HasPrefix(own, string(text[:min(len(text), len(own))]))
	}
	return 0, isPart
}

// obeyedLocked reports whether r must be escaped, because it has an effect by itself or completes
// the start of a CI command.
func (p *Plain) obeyedLocked(r rune) bool {
	begun, hashes := p.begun, p.hashes
	switch {
	case r == '\n':
		p.begun, p.hashes = 0, 0
		return false
	case r == ':' && begun >= 0:
		p.begun++
	case !unicode.IsSpace(r) || begun != 0:
		p.begun = -1
	}
	isLetter := r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z'
	switch {
	case r == '#':
		p.hashes = min(hashes+1, 2)
	case hashes < 2 || !isLetter:
		p.hashes = 0
	}
	if begun == 2 && isLetter || hashes == 2 && r == '[' {
		return true
	}
	return r != '\t' && (!unicode.IsGraphic(r) || Hidden(r))
}

// Close writes what was held back. It does not close the underlying writer.
func (p *Plain) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []byte
	for _, r := range string(p.held) {
		if p.obeyedLocked(r) {
			out = appendEscaped(out, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	p.held = nil
	_, err := p.w.Write(out)
	return err
}

func appendEscaped(out []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Appendf(out, `\u%04x\u%04x`, high, low)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}
