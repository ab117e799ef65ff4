// Package redact removes known secrets from bytes before they are written.
//
// It knows values and what common encodings make of them; it does not guess what
// might be a secret. What is compressed, encrypted, cut into parts or encoded in
// another way than [Set.Add] says is not found.
package redact

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/defence"
)

// Mark stands where a secret was.
const Mark = "[REDACTED]"

// blank stands for each byte of a secret where the length stays.
const blank = '*'

// MinLength is the shortest value taken as a secret, in bytes. Shorter ones ("1",
// "on") would blank out unrelated text everywhere.
const MinLength = 4

// Set is a growing set of secrets, safe for concurrent use. The zero Set is
// empty and ready; a nil *Set redacts nothing.
type Set struct {
	mu     sync.RWMutex
	values map[string]*value // guarded by mu
	forms  index             // of all values; guarded by mu
}

// value is a secret, and the names that it is told by.
type value struct{ names []string }

// Add makes text known as a secret, under the names if there are any: as it is, and
// as it stands in JSON's strings (and in JSON within those), in URLs, in hexadecimal
// digits, in base32 and in base64, there also amid other bytes and over several lines.
// Values under MinLength are left alone.
func (s *Set) Add(text string, names ...string) {
	if !defence.Redaction || len(text) < MinLength {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values == nil {
		s.values = map[string]*value{}
	}
	v, known := s.values[text]
	if !known {
		v = &value{}
		s.values[text] = v
		s.forms.add(v, text)
	}
	v.names = append(slices.Clip(v.names), names...)
	slices.Sort(v.names)
	v.names = slices.Compact(v.names)
}

// Bytes returns b with every byte of a secret replaced, and what it replaced.
// Secrets that overlap share a [Mark]: no part of either is left. What Bytes
// writes is not looked at again. It returns b itself where there is no secret.
func (s *Set) Bytes(b []byte) ([]byte, Found) {
	if s == nil {
		return b, Found{}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.forms.in(b) {
		return b, Found{}
	}
	var r redaction
	r.redact(&s.forms, b, true)
	return r.out, r.found
}

// String is Bytes for a string.
func (s *Set) String(text string) string {
	out, _ := s.clean(text)
	return out
}

// Blank is text with asterisks in place of secrets, one for each byte.
func (s *Set) Blank(text string) string {
	blanked, _ := s.blankBytes([]byte(text))
	return string(blanked)
}

// blankBytes is Blank for bytes, with what it replaced. It returns b itself where there
// is no secret.
func (s *Set) blankBytes(b []byte) ([]byte, Found) {
	if s == nil {
		return b, Found{}
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.forms.in(b) {
		return b, Found{}
	}
	r := redaction{blank: true}
	r.redact(&s.forms, b, true)
	return r.out, r.found
}

// minKey is the length of the shortest API key that is taken, in bytes: a shorter one appears in
// other words by chance.
const minKey = 8

// CheckKey returns an error that says what is wrong with the API key that an environment
// variable holds: it is missing, or it could not be removed from what is written. The sentence
// that says to set it ends with of, which is what the key is for.
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
