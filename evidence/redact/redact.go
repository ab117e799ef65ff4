// Package redact removes known secrets from bytes before they are written.
//
// It finds known values and their common encodings; it does not guess what might be a secret.
// Values that are compressed, encrypted, split, or encoded in another way than [Set.Add] lists
// are not found.
package redact

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/text"
)

// Mark stands where a secret was.
const Mark = "[REDACTED]"

// blank replaces each byte of a secret where the length must not change.
const blank = '*'

// MinLength is the shortest value taken as a secret, in bytes. Shorter ones ("1",
// "on") would blank out unrelated text everywhere.
const MinLength = 4

// Set is a growing set of secrets, safe for concurrent use. The zero Set is
// empty and ready; a nil *Set redacts nothing.
type Set struct {
	mu     sync.Mutex
	values map[string]*value // guarded by mu; each is immutable
	finder *finder           // of all values; nil until it is needed; guarded by mu
}

// value is a secret, by the names under which it is counted.
type value struct{ names []string }

// Add adds a secret, to be counted under the names if there are any. It is found as it is, in
// JSON strings (and in JSON within those), in URLs, in hexadecimal digits and in base64, also
// in the middle of other bytes and broken into lines. Values shorter than [MinLength] are
// ignored.
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

// find returns the finder of the set's secrets; nil where there are none.
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

// Bytes returns b with every secret replaced by [Mark], and what it replaced. Overlapping
// secrets are replaced by a single Mark. The result is not searched again. If there is no
// secret, Bytes returns b itself.
func (s *Set) Bytes(b []byte) ([]byte, Found) { return s.redact(b, &redaction{}) }

// String is Bytes for a string.
func (s *Set) String(text string) string {
	out, _ := s.clean(text)
	return out
}

// Blank returns text with asterisks in place of secrets, one for each byte.
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

// clean is Bytes for a string.
func (s *Set) clean(text string) (string, Found) {
	clean, found := s.Bytes([]byte(text))
	if found.Spans == 0 {
		return text, found
	}
	return string(clean), found
}

// Cut is [Set.Bytes] for a text that was shortened before: it also removes what may be the
// beginning of a secret before an ellipsis. That leaves no mark and is not counted, since most
// often it is no secret.
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
	// Secrets counts the spans by the names of their secrets; nil if none has a name.
	Secrets map[string]int
	// Envelope reports that a secret was in the id or method of a JSON-RPC message, or in the name
	// of the tool that it calls.
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

// minKey is the length of the shortest accepted API key, in bytes: a shorter one would be found
// in other words by chance.
const minKey = 8

// CheckKey returns an error if the API key in an environment variable is missing, or could not be
// redacted. The phrase of says what the key is for.
func CheckKey(variable, key, of string) error {
	printable := strings.IndexFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
	switch {
	case key == "":
		return fmt.Errorf("the environment variable %s is not set; set it to the key of %s", variable, of)
	case len(key) < minKey:
		return fmt.Errorf("the environment variable %s holds no key: it is shorter than %d characters", variable, minKey)
	case !printable:
		return fmt.Errorf("the environment variable %s holds no key: there is a blank, a line break or another character in it that no key has", variable)
	}
	return nil
}
