// Package canary finds canaries, planted values that should stay where they are, in bytes
// that leave.
//
// A value is found as it is, in base64 at any alignment (both alphabets), in hex and in
// base32; each of these also behind escapes of JSON, two deep, and of URLs. Letters of
// either case count, except in base64. That is all: a value that is compressed, encrypted,
// reversed, encoded twice or sent in several messages is not found.
//
// The package knows neither servers nor trials.
package canary

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence/scan"
)

// Bounds of values and of how many there may be.
const (
	minValue = 12
	maxValue = 256
	MaxCount = 64
)

// Value is a canary.
type Value struct{ Name, Value string }

// Encodings of a value, as [Found] names them. Escapes come before them, as in
// "percent+hex".
const (
	Exact  = scan.Exact
	Base64 = scan.Base64
	Base32 = scan.Base32
	Hex    = scan.Hex
)

// Found is a canary that was found, and its encoding.
type Found struct{ Canary, Encoding string }

// Make returns a value for the canary of a name in a run: the same each time, and no other's.
func Make(run, name string) string {
	sum := sha256.Sum256([]byte(run + "\x00" + name))
	return "waza-canary-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15]))
}

// Check returns an error if a value cannot be a canary.
func Check(value string) error {
	if len(value) < minValue || len(value) > maxValue {
		return fmt.Errorf("a canary is from %d to %d characters long", minValue, maxValue)
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("a canary has letters, digits and signs of ASCII, and no blanks")
	}
	return nil
}

// Set finds canaries. It is safe for concurrent use.
type Set struct {
	// cased finds base64, and folded what is written in letters of either case.
	cased, folded needles
}

// needles are texts, each with what it is found as.
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

// New returns a set of values, each as [Check] wants it.
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

// In returns the canaries in b, each once for each encoding.
func (s *Set) In(b []byte) []Found {
	var all []Found
	_, _ = s.Writer(func(f Found) { all = append(all, f) }).Write(b)
	return all
}

// InName is [Set.In] for a DNS name. A value that is divided into labels is found too.
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
