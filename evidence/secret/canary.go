package secret

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// Limits on the length of values and on their number.
const (
	minValue    = 12
	maxValue    = 256
	MaxCanaries = 64
)

// Canary is a canary.
type Canary struct{ Name, Value string }

// FoundCanary is a canary that was found, with its encoding. The encoding is preceded by the escapes around
// it, and by "spaced" if there are blanks between its letters, as in "percent+spaced+hex".
type FoundCanary struct{ Canary, Encoding string }

// MakeCanary returns the value of a named canary in a run. It is deterministic and unique.
func MakeCanary(run, name string) string {
	sum := sha256.Sum256([]byte(run + "\x00" + name))
	return "waza-canary-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15]))
}

// CheckCanary returns an error if value cannot be used as a canary.
func CheckCanary(value string) error {
	if len(value) < minValue || len(value) > maxValue {
		return fmt.Errorf("a canary must be from %d to %d characters long", minValue, maxValue)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("a canary must consist of printable ASCII characters without spaces")
	}
	return nil
}

// Canaries finds canaries. It is safe for concurrent use.
type Canaries struct {
	all []Canary
	*finder
}

// NewCanaries returns a set of values, which must pass [CheckCanary].
func NewCanaries(all ...Canary) (*Canaries, error) {
	if len(all) > MaxCanaries {
		return nil, fmt.Errorf("canary: %d are more than %d", len(all), MaxCanaries)
	}
	var values []string
	for _, v := range all {
		if err := CheckCanary(v.Value); err != nil {
			return nil, fmt.Errorf("canary %q: %w", v.Name, err)
		}
		values = append(values, v.Value)
	}
	return &Canaries{all, newFinder(values)}, nil
}

// Watch returns a writer that searches everything written to it, across writes, and reports each
// canary once per encoding. It never fails and buffers only a few bytes.
func (s *Canaries) Watch(found func(FoundCanary)) *CanaryWriter {
	w := &CanaryWriter{seen: map[FoundCanary]bool{}}
	w.matcher = newMatcher(s.finder, false, func(m match) {
		one := FoundCanary{s.all[m.of].Name, m.encoding}
		if w.seen[one] {
			return
		}
		w.seen[one] = true
		if m.spread {
			one.Encoding = "spaced+" + one.Encoding
		}
		one.Encoding = m.escapes + one.Encoding
		found(one)
	})
	return w
}

// CanaryWriter searches what is written to it.
type CanaryWriter struct {
	*matcher
	seen map[FoundCanary]bool // keyed without escapes
}

// Write implements io.Writer.
func (w *CanaryWriter) Write(p []byte) (int, error) {
	w.write(p)
	return len(p), nil
}

// Again makes w report each canary once more.
func (w *CanaryWriter) Again() { clear(w.seen) }

// In returns the canaries in b, once per encoding.
func (s *Canaries) In(b []byte) []FoundCanary {
	var all []FoundCanary
	w := s.Watch(func(f FoundCanary) { all = append(all, f) })
	w.write(b)
	w.end()
	return all
}

// InName is like [Canaries.In] for a DNS name, and also finds values split across labels.
func (s *Canaries) InName(name string) []FoundCanary {
	all := s.In([]byte(name))
	seen := map[FoundCanary]bool{}
	for _, f := range all {
		seen[f] = true
	}
	for _, f := range s.In([]byte(strings.ReplaceAll(name, ".", ""))) {
		if !seen[f] {
			all = append(all, f)
		}
	}
	return all
}
