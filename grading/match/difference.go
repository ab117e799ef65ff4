package match

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// maxDifferences is the maximum number of reported differences of one call's arguments.
const maxDifferences = 20

// Difference is a place where arguments differ from the expected ones.
type Difference struct {
	Path string // such as repo, page.size or tags[1]; "arguments" for the whole
	Want string // in words
	Got  string // the JSON value, shortened; "nothing" if there is none
}

// String describes d as part of a sentence.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s, expected %s", d.Path, d.Got, d.Want)
}

// tally counts constraints and describes differences.
type tally struct {
	Fit
	describe bool // differences are described, not only counted
	path     []step
}

// step is one step of a path, to a member or to an item; items count from 1.
type step struct {
	name  string
	index int
}

// at checks the value to which a step leads.
func (t *tally) at(s step, m matcher, got any) {
	if !t.describe {
		m.check(t, got)
		return
	}
	t.path = append(t.path, s)
	m.check(t, got)
	t.path = t.path[:len(t.path)-1]
}

// hold counts n constraints that hold.
func (t *tally) hold(n int) {
	t.Total += n
	t.Satisfied += n
}

// fail counts all constraints of m as failed.
func (t *tally) fail(m matcher, got any) {
	t.Total += leaves(m) - 1
	t.leaf(m, false, got)
}

// leaf counts one constraint.
func (t *tally) leaf(m matcher, holds bool, got any) {
	if t.Total++; holds {
		t.Satisfied++
	}
	if holds || !t.describe {
		return
	}
	if l, ok := m.(literal); ok {
		t.differ(l.value, got)
		return
	}
	t.add(m.String(), show(got))
}

// differ describes two values that are not equal.
func (t *tally) differ(want, got any) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		all := maps.Clone(w)
		maps.Copy(all, g)
		for name := range ordered(all, true) {
			t.differAt(step{name: name}, given(w, name), given(g, name))
		}
		return
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for i := range w {
			t.differAt(step{index: i + 1}, w[i], g[i])
		}
		return
	}
	t.add(showPair(want, got))
}

func (t *tally) differAt(s step, want, got any) {
	if jsontext.Equal(want, got) {
		return
	}
	t.path = append(t.path, s)
	t.differ(want, got)
	t.path = t.path[:len(t.path)-1]
}

// given returns a member of object, or absent{}.
func given(object map[string]any, name string) any {
	if value, ok := object[name]; ok {
		return value
	}
	return absent{}
}

// fails counts one failed constraint.
func (t *tally) fails(want, got string) {
	t.Total++
	t.add(want, got)
}

func (t *tally) add(want, got string) {
	if t.describe && len(t.Differences) < maxDifferences {
		t.Differences = append(t.Differences, Difference{t.where(), shorten(want), got})
	}
}

func (t *tally) where() string {
	var said strings.Builder
	for _, s := range t.path {
		if s.index > 0 {
			fmt.Fprintf(&said, "[%d]", s.index-1)
		} else {
			said.WriteString(key(s.name))
		}
	}
	if said.Len() == 0 {
		return "arguments"
	}
	return strings.TrimPrefix(said.String(), ".")
}

// ordered yields the keys of m, sorted if matters is true.
func ordered(m map[string]any, matters bool) iter.Seq[string] {
	if !matters {
		return maps.Keys(m)
	}
	return slices.Values(slices.Sorted(maps.Keys(m)))
}

// maxShown is the maximum number of bytes shown of a value.
const maxShown = 100

func shorten(s string) string { return text.Shorten(s, maxShown) }

// quote writes a string, or its beginning.
func quote(s string) string { return text.Quote(s, maxShown) }

// show returns a value as text, shortened to its beginning.
func show(v any) string {
	if text, ok := v.(string); ok {
		return quote(text)
	}
	var out strings.Builder
	write(&out, v)
	return shorten(out.String())
}

// write writes v as text, and stops soon after maxShown bytes.
func write(out *strings.Builder, v any) {
	if out.Len() > maxShown {
		return
	}
	switch v := v.(type) {
	case absent:
		out.WriteString("nothing")
	case notJSON:
		out.WriteString("what is not JSON")
	case map[string]any:
		out.WriteByte('{')
		separator := ""
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out.WriteString(separator + quote(name) + ":")
			write(out, v[name])
			separator = ","
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if out.Len() > maxShown {
				break
			}
			if i > 0 {
				out.WriteByte(',')
			}
			write(out, item)
		}
		out.WriteByte(']')
	case string:
		out.WriteString(quote(v))
	case json.Number:
		out.WriteString(shorten(string(v)))
	case bool:
		out.WriteString(strconv.FormatBool(v))
	default:
		out.WriteString("null")
	}
}

// showPair returns two values that differ as text, shortened so that the difference is visible.
func showPair(want, got any) (string, string) {
	a, ok := want.(string)
	b, same := got.(string)
	if !ok || !same {
		return show(want), show(got)
	}
	if lookAlike(a, b) {
		return strconv.QuoteToASCII(a), strconv.QuoteToASCII(b)
	}
	from := text.Fork(a, b, maxShown, lead)
	if from == 0 {
		return quote(a), quote(b)
	}
	return "…" + quote(a[from:]), "…" + quote(b[from:])
}

// lead is the number of bytes shown before the point where long strings start to differ.
const lead = 30

// lookAlike reports whether a and b may differ only in the composition of characters, which is not visible.
func lookAlike(a, b string) bool {
	marked := func(s string) bool { return strings.ContainsFunc(s, unicode.IsMark) }
	return marked(a) != marked(b) && len(a) <= maxShown && len(b) <= maxShown
}
