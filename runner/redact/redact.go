// Package redact removes known secrets from bytes before they are written.
//
// It knows exact values only; it does not guess what might be a secret.
package redact

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"sync"
)

// Mark stands where a secret was.
const Mark = "[REDACTED]"

// minLength is the shortest value taken as a secret. Shorter ones ("1", "on")
// would blank out unrelated text everywhere.
const minLength = 4

// Set is a growing set of secrets, safe for concurrent use. The zero Set is
// empty and ready; a nil *Set redacts nothing.
type Set struct {
	mu      sync.RWMutex
	secrets [][]byte // longest first; guarded by mu
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
	slices.SortStableFunc(s.secrets, func(a, b []byte) int { return len(b) - len(a) })
}

// Bytes returns b with every secret replaced by [Mark], and how many were. It
// returns b itself where there is none.
func (s *Set) Bytes(b []byte) ([]byte, int) {
	if s == nil {
		return b, 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	total := 0
	for _, secret := range s.secrets {
		if n := bytes.Count(b, secret); n > 0 {
			b = bytes.ReplaceAll(b, secret, []byte(Mark))
			total += n
		}
	}
	return b, total
}

// String is Bytes for a string.
func (s *Set) String(text string) string {
	out, _ := s.Bytes([]byte(text))
	return string(out)
}

func (s *Set) longest() int {
	if s == nil {
		return 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.secrets) == 0 {
		return 0
	}
	return len(s.secrets[0])
}

// Writer redacts a stream, also where a secret is split over several writes: it
// holds back as many bytes as a secret could still need. Close flushes them and
// closes the underlying writer.
type Writer struct {
	set *Set
	out io.WriteCloser

	mu   sync.Mutex
	held []byte // guarded by mu
}

// NewWriter returns a Writer that passes redacted bytes to out.
func NewWriter(set *Set, out io.WriteCloser) *Writer {
	return &Writer{set: set, out: out}
}

// Write redacts p and what was held back before it.
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = append(w.held, p...)
	clean, _ := w.set.Bytes(w.held)
	keep := min(max(w.set.longest()-1, 0), len(clean))
	if _, err := w.out.Write(clean[:len(clean)-keep]); err != nil {
		return 0, err
	}
	w.held = slices.Clone(clean[len(clean)-keep:])
	return len(p), nil
}

// Close writes what was held back.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	clean, _ := w.set.Bytes(w.held)
	w.held = nil
	_, err := w.out.Write(clean)
	if cerr := w.out.Close(); err == nil {
		err = cerr
	}
	return err
}
