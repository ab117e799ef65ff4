// Package secret finds known values in bytes: secrets, which it replaces before anything is written, and
// canaries, whose places it reports.
//
// One matcher finds both. It reads a text as it is and with its escapes decoded, and keeps track of the
// position of each byte, so a replacement has the place and the length of the value. It finds known values in
// known encodings, and does not guess what may be a secret; [docs/secrets.md] lists the encodings.
//
// The package knows nothing about servers or trials.
//
// [docs/secrets.md]: https://github.com/waza-isolate/waza/blob/main/docs/secrets.md
package secret

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// mark replaces each byte of a secret, and markDigit each digit in a JSON number.
const (
	mark      = '*'
	markDigit = '1'
)

// Marked returns the replacement of a text that is a secret.
func Marked(text string) string { return strings.Repeat(string(mark), len(text)) }

// MinLength is the minimum length of a secret, in bytes other than blanks. Shorter values ("1", "on") would
// match unrelated text everywhere.
const MinLength = 4

// CanHide reports whether a value is long enough to be found.
func CanHide(value string) bool {
	return len(exactly(value).text) >= MinLength
}

// Set is a growing set of secrets. It is safe for concurrent use. The zero Set is empty and
// ready to use; a nil *Set redacts nothing.
type Set struct {
	mu      sync.Mutex
	values  map[string]*value // guarded by mu; each is immutable
	secrets *secrets          // all values; built on demand; guarded by mu
}

// value is a secret, with the names under which it is counted.
type value struct{ names []string }

// secrets finds the values of a set. It is immutable.
type secrets struct {
	*finder
	values []*value
}

// Add adds a secret, counted under the given names if any. Values that are too short to be found
// are ignored.
func (s *Set) Add(text string, names ...string) {
	if !defence.Redaction || !CanHide(text) {
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
	s.secrets = nil
}

// find returns the finder of the set's secrets, or nil if there are none.
func (s *Set) find() *secrets {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secrets == nil && len(s.values) > 0 {
		s.secrets = &secrets{}
		var texts []string
		for text, of := range s.values {
			texts, s.secrets.values = append(texts, text), append(s.secrets.values, of)
		}
		s.secrets.finder = newFinder(texts)
	}
	return s.secrets
}

// Span is the place of a secret in a text.
type Span struct {
	At    int `json:"at"` // offset in bytes
	Bytes int `json:"bytes"`
	// Secrets are the names of the secret; it may have several or none.
	Secrets []string `json:"secrets,omitempty"`
}

// end returns the offset after the span.
func (p Span) end() int { return p.At + p.Bytes }

// Found describes the secrets that were replaced.
type Found struct {
	Spans int
	// Secrets counts the spans by secret name; nil if none has a name.
	Secrets map[string]int
	// Where lists the spans. If there are more than a thousand, the last one extends to the end of the text.
	Where []Span
	// Envelope reports that a secret was in the id or method of a JSON-RPC message, or in
	// the name of the called tool.
	Envelope bool
}

// maxWhere is the maximum number of spans that [Found.Where] lists.
const maxWhere = 1000

// Add adds the counts of other, which may be of another text.
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

// AddSpan counts a span without listing it.
func (f *Found) AddSpan(p Span) {
	f.Spans++
	for _, name := range p.Secrets {
		f.count(name, 1)
	}
}

// note adds a span of a text of the given size.
func (f *Found) note(p Span, size int) {
	f.AddSpan(p)
	if len(f.Where) < maxWhere {
		f.Where = append(f.Where, p)
		return
	}
	last := &f.Where[maxWhere-1]
	last.Bytes = max(size-last.At, last.Bytes)
	last.Secrets = Names(append(slices.Clip(f.Where[maxWhere-1:]), p))
}

// Names returns the names of the secrets at spans, sorted.
func Names(spans []Span) []string {
	var all []string
	for _, p := range spans {
		all = append(all, p.Secrets...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Kept returns the spans of secrets in a text that was made from another text, whose spans are in of: each
// run of asterisks that is at least as long as the shortest of those. If of is empty, it returns none, even
// if the text contains asterisks.
func Kept(text string, of []Span) (spans []Span) {
	if len(of) == 0 {
		return nil
	}
	shortest := slices.MinFunc(of, func(a, b Span) int { return a.Bytes - b.Bytes }).Bytes
	var found Found
	for at := 0; at < len(text); {
		row := len(text[at:]) - len(strings.TrimLeft(text[at:], string(mark)))
		if row >= max(shortest, 1) {
			found.note(Span{at, row, Names(of)}, len(text))
		}
		at += row
		next := strings.IndexByte(text[at:], mark)
		if next < 0 {
			break
		}
		at += next
	}
	return found.Where
}

// First returns the spans in the first size bytes of a text, cut at the end of these.
func First(spans []Span, size int64) (first []Span) {
	for _, p := range spans {
		if room := size - int64(p.At); room > 0 {
			p.Bytes = int(min(int64(p.Bytes), room))
			first = append(first, p)
		}
	}
	return first
}

// spans returns the spans of all secrets in b, in order. Overlapping secrets become one span, with the names
// of the first. If quoted is set, b is the inside of JSON strings.
func (s *secrets) spans(b []byte, quoted bool) (all []Span) {
	if s == nil {
		return nil
	}
	var found []match
	m := newMatcher(s.finder, quoted, func(one match) { found = append(found, one) })
	m.write(b)
	m.end()
	sortMatches(found)
	for _, one := range found {
		if last := len(all) - 1; last >= 0 && one.start < all[last].end() {
			all[last].Bytes = max(all[last].Bytes, one.end-all[last].At)
			continue
		}
		all = append(all, Span{one.start, one.end - one.start, s.values[one.of].names})
	}
	return all
}

// sortMatches sorts by position and then longest first.
func sortMatches(all []match) {
	slices.SortFunc(all, func(x, y match) int {
		if x.start != y.start {
			return x.start - y.start
		}
		return y.end - x.end
	})
}

// Bytes returns b with each byte of a secret replaced by an asterisk, and what was replaced. Without a
// secret, Bytes returns b itself.
func (s *Set) Bytes(b []byte) ([]byte, Found) {
	var found Found
	spans := s.find().spans(b, false)
	if len(spans) == 0 {
		return b, found
	}
	out := bytes.Clone(b)
	for _, p := range spans {
		found.note(p, len(b))
		cover(out[p.At:p.end()])
	}
	return out, found
}

// cover replaces all bytes.
func cover(b []byte) {
	for i := range b {
		b[i] = mark
	}
}

// String is like Bytes for a string.
func (s *Set) String(text string) string {
	clean, found := s.Bytes([]byte(text))
	if found.Spans == 0 {
		return text
	}
	return string(clean)
}

// Cut is like [Set.JSON] if doc is JSON, and otherwise like [Set.Bytes], for texts that were cut before their
// secrets could be replaced. It also replaces text before an ellipsis that may be the beginning of a secret.
// That is not counted, since it is rarely a secret.
//
// All other texts are cut after secrets have been replaced. Two kinds of texts are cut where the secrets are
// unknown. One is what guests report of programs, since a guest must not have the secrets of others. The
// other is what an error or an event quotes of a message or of a host name: code that reads messages, which
// agents use too, and the egress proxy know no secrets, and the quotation must not be as large as the
// message.
func (s *Set) Cut(doc []byte, isJSON bool) ([]byte, Found) {
	clean := s.Bytes
	if isJSON {
		clean = s.JSON
	}
	out, found := clean(doc)
	f := s.find()
	if f == nil || !bytes.Contains(out, []byte(text.Ellipsis)) {
		return out, found
	}
	out = bytes.Clone(out)
	if !isJSON {
		f.coverBegun(out, false)
		return out, found
	}
	for rest := out; ; {
		i := bytes.IndexByte(rest, '"')
		if i < 0 {
			return out, found
		}
		end := i + jsontext.StringLength(rest[i:])
		f.coverBegun(rest[i+1:end-1], true)
		rest = rest[end:]
	}
}

// coverBegun replaces text before an ellipsis that may be the beginning of a secret.
func (s *secrets) coverBegun(b []byte, quoted bool) {
	for {
		part, rest, more := bytes.Cut(b, []byte(text.Ellipsis))
		if !more {
			return
		}
		m := newMatcher(s.finder, quoted, func(match) {})
		m.write(part)
		cover(part[m.decided():])
		b = rest
	}
}

// minKey is the minimum length of an API key, in bytes. Shorter ones would match other text by chance.
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
