package secret

import (
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Mark is a span in one of several texts that are recorded together, such as a file of a tree.
type Mark struct {
	In   string `json:"in,omitempty"`   // the text
	Name bool   `json:"name,omitempty"` // it is in the text's name
	Span
}

// Marks lists marks. If there are more than a thousand, the last one has no bytes and stands for all others.
type Marks []Mark

// Add adds the spans of a text.
func (m *Marks) Add(in string, name bool, spans ...Span) {
	for _, p := range spans {
		if len(*m) < maxWhere {
			*m = append(*m, Mark{in, name, p})
			continue
		}
		last := &(*m)[maxWhere-1]
		*last = Mark{Span: Span{Secrets: Names([]Span{last.Span, p})}}
	}
}

// Spans returns the spans of a text, and the mark that stands for those that are not listed.
func (m Marks) Spans(in string) (spans []Span) {
	for _, one := range m {
		if one.isRest() || one.In == in && !one.Name {
			spans = append(spans, one.Span)
		}
	}
	return spans
}

// Names returns the spans in names that, before secrets were replaced, may have been equal to name.
func (m Marks) Names(name string) (spans []Span) {
	for _, one := range m {
		if one.isRest() || one.Name && MayBe(one.In, name) {
			spans = append(spans, one.Span)
		}
	}
	return spans
}

// isRest reports whether a mark stands for the marks that are not listed.
func (m Mark) isRest() bool { return m.In == "" && m.Bytes == 0 }

// Within returns the names of the secrets in the members of an object in a JSON document, by key. path lists
// the keys that lead to the object. Secrets that may belong to any member, such as one in a key, are under
// "". Lists are treated like their items.
func Within(doc []byte, spans []Span, path ...string) map[string][]string {
	if len(spans) == 0 {
		return nil
	}
	found := map[string][]Span{}
	if !jsontext.Valid(doc) {
		found[""] = spans
	} else {
		w := jsonWalk{doc: doc, spans: spans}
		w.each = func(p Span, at []string, key bool) {
			if key {
				at = at[:len(at)-1]
			}
			same := 0
			for same < min(len(at), len(path)) && at[same] == path[same] {
				same++
			}
			switch {
			case same == len(path) && len(at) > same:
				found[at[same]] = append(found[at[same]], p)
			case same == len(at):
				found[""] = append(found[""], p)
			}
		}
		for len(w.spans) > 0 && w.next() {
			// to the next string, number or bracket
		}
	}
	var names map[string][]string
	for member, spans := range found {
		if names == nil {
			names = map[string][]string{}
		}
		names[member] = Names(spans)
	}
	return names
}

// MayBe reports whether text may have become marked when secrets were replaced in it.
func MayBe(marked, text string) bool {
	if len(marked) != len(text) {
		return false
	}
	for i := range len(marked) {
		if marked[i] != mark && marked[i] != text[i] {
			return false
		}
	}
	return true
}

// Describe names secrets for a sentence, each once and sorted.
func Describe(names []string) string {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	switch len(names) {
	case 0:
		return "a secret"
	case 1:
		return "the secret " + names[0]
	}
	return "the secrets " + strings.Join(names, ", ")
}
