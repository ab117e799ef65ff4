package scan

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

// Found is a canary that was found, with its encoding, prefixed by the escapes around it, as in
// "percent+hex".
type Found struct{ Canary, Encoding string }

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
	// cased finds base64; folded finds the other encodings, ignoring case.
	cased, folded needles
}

// needles holds the texts to find, each with the result to report.
type needles struct {
	texts []string
	found []Found
	*Automaton
}

func (n *needles) add(name string, forms ...Form) {
	for _, f := range forms {
		n.texts, n.found = append(n.texts, f.Text), append(n.found, Found{name, f.Encoding})
	}
}

// NewCanaries returns a set of values, which must pass [CheckCanary].
func NewCanaries(values ...Canary) (*Canaries, error) {
	if len(values) > MaxCanaries {
		return nil, fmt.Errorf("canary: %d are more than %d", len(values), MaxCanaries)
	}
	s := &Canaries{}
	for _, v := range values {
		if err := CheckCanary(v.Value); err != nil {
			return nil, fmt.Errorf("canary %q: %w", v.Name, err)
		}
		s.cased.add(v.Name, InBase64(v.Value)...)
		s.folded.add(v.Name, Form{Encoding: Exact, Text: v.Value}, InHex(v.Value))
		s.folded.add(v.Name, InBase32(v.Value)...)
	}
	s.cased.Automaton = New(s.cased.texts, StandardDigit)
	s.folded.Automaton = New(s.folded.texts, SmallLetter)
	return s, nil
}

// In returns the canaries in b, once per encoding.
func (s *Canaries) In(b []byte) []Found {
	var all []Found
	_, _ = s.Writer(func(f Found) { all = append(all, f) }).Write(b)
	return all
}

// InName is like [Canaries.In] for a DNS name, and also finds values split across labels.
func (s *Canaries) InName(name string) []Found {
	all := s.In([]byte(name))
	seen := map[Found]bool{}
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
