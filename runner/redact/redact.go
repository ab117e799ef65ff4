// Package redact removes known secrets from bytes before they are written.
//
// It knows exact values only; it does not guess what might be a secret.
package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Mark stands where a secret was.
const Mark = "[REDACTED]"

// blank stands for each byte of a secret where the length stays.
const blank = '*'

// minLength is the shortest value taken as a secret. Shorter ones ("1", "on")
// would blank out unrelated text everywhere.
const minLength = 4

// Set is a growing set of secrets, safe for concurrent use. The zero Set is
// empty and ready; a nil *Set redacts nothing.
type Set struct {
	mu      sync.RWMutex
	secrets [][]byte  // longest first; guarded by mu
	starts  [256]bool // first bytes of secrets; guarded by mu
}

// Add makes value known as a secret, also as JSON writes it in a string, and in
// a string within a string: tool results hold JSON as text. Values under four
// bytes are left alone.
func (s *Set) Add(value string) {
	if len(value) < minLength {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, form := range forms(value) {
		s.addLocked([]byte(form))
	}
}

// nesting is how many JSON strings within each other a secret is looked for in.
const nesting = 3

// forms is value as it stands in JSON strings, with and without HTML escaping.
func forms(value string) []string {
	all := []string{value}
	for _, escapeHTML := range []bool{false, true} {
		form := value
		for range nesting {
			form = inJSON(form, escapeHTML)
			all = append(all, form)
		}
	}
	return all
}

func inJSON(value string, escapeHTML bool) string {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(escapeHTML)
	if err := enc.Encode(value); err != nil { // strings always encode
		return value
	}
	quoted := bytes.TrimSpace(buf.Bytes())
	return string(quoted[1 : len(quoted)-1])
}

func (s *Set) addLocked(secret []byte) {
	if slices.ContainsFunc(s.secrets, func(have []byte) bool { return bytes.Equal(have, secret) }) {
		return
	}
	s.secrets = append(s.secrets, secret)
	s.starts[secret[0]] = true
	slices.SortStableFunc(s.secrets, func(a, b []byte) int { return len(b) - len(a) })
}

// Bytes returns b with every byte of a secret replaced, and by how many marks.
// Secrets that overlap share a [Mark]: no part of either is left. What Bytes
// writes is not looked at again. It returns b itself where there is no secret.
func (s *Set) Bytes(b []byte) ([]byte, int) {
	if s == nil {
		return b, 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.inLocked(b) {
		return b, 0
	}
	var r redaction
	s.redactLocked(&r, b, true)
	return r.out, r.marks
}

// inLocked says whether a secret is in b.
func (s *Set) inLocked(b []byte) bool {
	return slices.ContainsFunc(s.secrets, func(secret []byte) bool { return bytes.Contains(b, secret) })
}

// redaction is a stream's redacted bytes so far.
type redaction struct {
	out     []byte
	marks   int
	covered int  // bytes to come that the last mark stands for
	blank   bool // a secret keeps its length
}

// redactLocked appends to r.out what becomes of b, and returns how much of b it
// is done with: all, or, where more is to come, up to where that decides.
func (s *Set) redactLocked(r *redaction, b []byte, last bool) int {
	for i := 0; i < len(b); {
		if !s.starts[b[i]] {
			end := i + 1
			for end < len(b) && !s.starts[b[end]] {
				end++
			}
			r.pass(b[i:end])
			i = end
			continue
		}
		length, open := s.longestAtLocked(b[i:])
		if open && !last {
			return i
		}
		r.cover(length)
		r.pass(b[i : i+1])
		i++
	}
	return len(b)
}

// longestAtLocked is the length of the longest secret that b begins with, and
// whether b may be the beginning of a longer one.
func (s *Set) longestAtLocked(b []byte) (length int, open bool) {
	for _, secret := range s.secrets {
		switch {
		case len(secret) > len(b):
			open = open || bytes.HasPrefix(secret, b)
		case bytes.HasPrefix(b, secret):
			return len(secret), open
		}
	}
	return 0, open
}

// cover marks the next length bytes.
func (r *redaction) cover(length int) {
	if length > 0 && r.covered == 0 {
		if !r.blank {
			r.out = append(r.out, Mark...)
		}
		r.marks++
	}
	r.covered = max(r.covered, length)
}

// pass takes bytes that no further secret begins in.
func (r *redaction) pass(b []byte) {
	n := min(r.covered, len(b))
	r.covered -= n
	if r.blank {
		r.out = append(r.out, bytes.Repeat([]byte{blank}, n)...)
	}
	r.out = append(r.out, b[n:]...)
}

// String is Bytes for a string.
func (s *Set) String(text string) string {
	out, _ := s.Bytes([]byte(text))
	return string(out)
}

// Writer redacts a stream as Bytes does the whole of it, wherever it is cut into
// writes: it holds back what may be the beginning of a secret. Close writes that
// and closes the underlying writer.
type Writer struct {
	set *Set
	out io.WriteCloser

	mu   sync.Mutex
	held []byte    // guarded by mu
	done redaction // guarded by mu
}

// NewWriter returns a Writer that passes redacted bytes to out.
func NewWriter(set *Set, out io.WriteCloser) *Writer {
	if set == nil {
		set = &Set{}
	}
	return &Writer{set: set, out: out}
}

// NewBlanker returns a Writer that has asterisks in place of secrets, one for each
// byte: what it passes to out is as long as what is written to it.
func NewBlanker(set *Set, out io.WriteCloser) *Writer {
	w := NewWriter(set, out)
	w.done.blank = true
	return w
}

// Marks is how many secrets were replaced so far.
func (w *Writer) Marks() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done.marks
}

// Blank is text with asterisks in place of secrets, one for each byte.
func (s *Set) Blank(text string) string {
	if s == nil {
		return text
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := redaction{blank: true}
	s.redactLocked(&r, []byte(text), true)
	return string(r.out)
}

// Write redacts what was held back before it, and p.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, p...)
	if err := w.flushLocked(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what was held back.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return errors.Join(w.flushLocked(true), w.out.Close())
}

func (w *Writer) flushLocked(last bool) error {
	w.set.mu.RLock()
	n := w.set.redactLocked(&w.done, w.held, last)
	w.set.mu.RUnlock()
	w.held = append(w.held[:0], w.held[n:]...)
	if len(w.done.out) == 0 {
		return nil
	}
	_, err := w.out.Write(w.done.out)
	w.done.out = w.done.out[:0]
	return err
}

// pass writes the redacted parts of a stream to w, and returns how many marks it
// set.
func (s *Set) pass(w io.Writer, parts iter.Seq[[]byte]) (marks int, err error) {
	out := NewWriter(s, unclosed{w})
	for part := range parts {
		for len(part) > 0 && err == nil {
			n := min(len(part), jsontext.Piece)
			_, err = out.Write(part[:n])
			part = part[n:]
		}
	}
	err = errors.Join(err, out.Close())
	return out.done.marks, err
}

// unclosed is a writer that its user does not close.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
