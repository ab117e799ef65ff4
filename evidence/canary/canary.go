// Package canary finds canaries, planted marker values, in data that leaves a sandbox.
//
// A value is found verbatim, in base64 at any alignment (both alphabets), in hexadecimal
// and in base32, each also behind JSON escapes (two levels) or URL escapes. Matching
// ignores case, except in base64. Values that are compressed, encrypted, reversed, encoded
// twice or split across messages are not found.
//
// The package knows nothing about servers or trials.
package canary

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence/scan"
)

// Limits on the length of values and on their number.
const (
	minValue = 12
	maxValue = 256
	MaxCount = 64
)

// Value is a canary.
type Value struct{ Name, Value string }

// Encodings of a value in [Found]. They are prefixed by the escapes, as in "percent+hex".
const (
	Exact  = scan.Exact
	Base64 = scan.Base64
	Base32 = scan.Base32
	Hex    = scan.Hex
)

// Found is a canary that was found, with its encoding.
type Found struct{ Canary, Encoding string }

// Make returns the value of a named canary in a run. It is deterministic and unique.
func Make(run, name string) string {
	sum := sha256.Sum256([]byte(run + "\x00" + name))
	return "waza-canary-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15]))
}

// Check returns an error if value cannot be used as a canary.
func Check(value string) error {
	if len(value) < minValue || len(value) > maxValue {
		return fmt.Errorf("a canary must be from %d to %d characters long", minValue, maxValue)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("a canary must consist of printable ASCII characters without spaces")
	}
	return nil
}

// Set finds canaries. It is safe for concurrent use.
type Set struct {
	// cased finds base64; folded finds the other encodings, ignoring case.
	cased, folded needles
}

// needles holds the texts to find, each with the result to report.
type needles struct {
	texts []string
	found []Found
	*scan.Automaton
}

func (n *needles) add(name string, forms ...scan.Form) {
	for _, f := range forms {
		n.texts, n.found = append(n.texts, f.Text), append(n.found, Found{name, f.Encoding})
	}
}

// New returns a set of values, which must pass [Check].
func New(values ...Value) (*Set, error) {
	if len(values) > MaxCount {
		return nil, fmt.Errorf("canary: %d are more than %d", len(values), MaxCount)
	}
	s := &Set{}
	for _, v := range values {
		if err := Check(v.Value); err != nil {
			return nil, fmt.Errorf("canary %q: %w", v.Name, err)
		}
		s.cased.add(v.Name, scan.InBase64(v.Value)...)
		s.folded.add(v.Name, scan.Form{Encoding: Exact, Text: v.Value}, scan.InHex(v.Value))
		s.folded.add(v.Name, scan.InBase32(v.Value)...)
	}
	s.cased.Automaton = scan.New(s.cased.texts, scan.StandardDigit)
	s.folded.Automaton = scan.New(s.folded.texts, scan.SmallLetter)
	return s, nil
}

// In returns the canaries in b, once per encoding.
func (s *Set) In(b []byte) []Found {
	var all []Found
	_, _ = s.Writer(func(f Found) { all = append(all, f) }).Write(b)
	return all
}

// InName is like [Set.In] for a DNS name, and also finds values split across labels.
func (s *Set) InName(name string) []Found {
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
