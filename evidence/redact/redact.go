// Package redact removes known secrets from data before it is written.
//
// It finds known values and their common encodings, and does not guess what may be a
// secret. Values that are compressed, encrypted, split, or encoded in ways that [Set.Add]
// does not list are not found.
package redact

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/text"
)

// Mark replaces a secret.
const Mark = "[REDACTED]"

// blank replaces each byte of a secret if the length must not change.
const blank = '*'

// MinLength is the minimum length of a secret in bytes. Shorter values ("1", "on") would
// match unrelated text everywhere.
const MinLength = 4

// Set is a growing set of secrets. It is safe for concurrent use. The zero Set is empty and
// ready to use; a nil *Set redacts nothing.
type Set struct {
	mu     sync.Mutex
	values map[string]*value // guarded by mu; each is immutable
	finder *finder           // of all values; built on demand; guarded by mu
}

// value is a secret, with the names under which it is counted.
type value struct{ names []string }

// Add adds a secret, counted under the given names if any. It is found verbatim, in JSON
// strings (also nested), in URLs, in hexadecimal and in base64, including within other
// bytes and across line breaks. Values shorter than [MinLength] are ignored.
func (s *Set) Add(text string, names ...string) {
	if !defence.Redaction || len(text) < MinLength {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string]*value{}
	}
	of := &value{slices.Clone(names)}
	if known := s.values[text]; known != nil {
		of.names = append(of.names, known.names...)
	}
	slices.Sort(of.names)
	of.names = slices.Compact(of.names)
	s.values[text] = of
	s.finder = nil
}

// find returns the finder of the set's secrets, or nil if there are none.
func (s *Set) find() *finder {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finder == nil && len(s.values) > 0 {
		s.finder = newFinder(s.values)
	}
	return s.finder
}

// Bytes returns b with every secret replaced by [Mark], and counts what it replaced.
// Overlapping secrets become a single Mark. The result is not searched again. Without a
// secret, Bytes returns b itself.
func (s *Set) Bytes(b []byte) ([]byte, Found) { return s.redact(b, &redaction{}) }

// String is like Bytes for a string.
func (s *Set) String(text string) string {
	out, _ := s.clean(text)
	return out
}

// Blank returns text with each byte of a secret replaced by an asterisk.
func (s *Set) Blank(text string) string {
	blanked, _ := s.redact([]byte(text), &redaction{blank: true})
	return string(blanked)
}

// redact returns b with r applied, or b itself if there is no secret.
func (s *Set) redact(b []byte, r *redaction) ([]byte, Found) {
	f := s.find()
	if !f.in(b) {
		return b, Found{}
	}
	r.redact(f, b, true)
	return r.out, r.found
}

// clean is like Bytes for a string.
func (s *Set) clean(text string) (string, Found) {
	clean, found := s.Bytes([]byte(text))
	if found.Spans == 0 {
		return text, found
	}
	return string(clean), found
}

// Cut is like [Set.Bytes] for a shortened text: it also removes what may be the beginning
// of a secret before an ellipsis. That leaves no mark and is not counted, since it is
// rarely a secret.
func (s *Set) Cut(shortened string) (string, Found) {
	clean, found := s.clean(shortened)
	if !strings.Contains(clean, text.Ellipsis) {
		return clean, found
	}
	f := s.find()
	parts := strings.Split(clean, text.Ellipsis)
	for i, part := range parts[:len(parts)-1] {
		var r redaction
		r.redact(f, []byte(part), false)
		parts[i] = string(r.out)
	}
	return strings.Join(parts, text.Ellipsis), found
}

// Found counts what was replaced.
type Found struct {
	Spans int
	// Secrets counts the spans by secret name; nil if none has a name.
	Secrets map[string]int
	// Envelope reports that a secret was in the id or method of a JSON-RPC message, or in
	// the name of the called tool.
	Envelope bool
}

// Add adds the counts of other.
func (f *Found) Add(other Found) {
	f.Spans += other.Spans
	f.Envelope = f.Envelope || other.Envelope
	for name, spans := range other.Secrets {
		f.count(name, spans)
	}
}

func (f *Found) count(name string, spans int) {
	if f.Secrets == nil {
		f.Secrets = map[string]int{}
	}
	f.Secrets[name] += spans
}

// minKey is the minimum length of an API key in bytes. A shorter one would match other text
// by chance.
const minKey = 8

// CheckKey returns an error if the API key in an environment variable is missing or could
// not be redacted. of describes what the key is for.
func CheckKey(variable, key, of string) error {
	printable := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	switch {
	case key == "":
		return fmt.Errorf("the environment variable %s is not set; set it to the key of %s", variable, of)
	case len(key) < minKey:
		return fmt.Errorf("the environment variable %s does not hold a key: it is shorter than %d characters", variable, minKey)
	case !printable:
		return fmt.Errorf("the environment variable %s does not hold a key: it contains a space, a line break or another character that keys do not have", variable)
	}
	return nil
}
