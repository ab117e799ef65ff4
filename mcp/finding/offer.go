package finding

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
)

// Marks are the places of an offer that are marked, and why not all of it was looked at,
// which is empty where it was.
type Marks struct {
	Places   []Mark `json:"places"`
	Unlooked string `json:"unlooked,omitempty"`
}

// Offer marks places in what a server says of itself: its instructions, and every text of
// every entry that it lists, and what it lists more than once. others are the names of
// tools of other servers that an agent would have beside it.
func Offer(o catalog.Catalog, others []string) Marks { return ofOffer(o, newReader(others, maxAll)) }

// Briefly is Offer for who looks at many offers: it looks at fewer bytes, and says so.
func Briefly(o catalog.Catalog) Marks { return ofOffer(o, newReader(nil, maxBrief)) }

func ofOffer(o catalog.Catalog, r *reader) Marks {
	r.text(Mark{Of: "instructions"}, o.Instructions)
	for _, l := range o.Lists {
		r.duplicates(l)
		for _, e := range l.Entries {
			r.entry(Mark{Of: l.Kind.One(), Key: e.Key}, e.Raw)
		}
	}
	return r.done()
}

// Result marks places in what a server answered to a call of a tool, or the like.
func Result(of, key string, raw []byte) Marks {
	r := newReader(nil, maxAll)
	r.entry(Mark{Of: of + " result", Key: key}, raw)
	return r.done()
}

// reader goes through texts as far as the bounds let it.
type reader struct {
	others map[string]bool
	left   int // bytes that are still looked at
	beyond int // bytes that are not
	more   int // marks beyond the most
	marks  []Mark
	path   []string
}

func newReader(others []string, left int) *reader {
	r := &reader{others: map[string]bool{}, left: left, marks: []Mark{}}
	for _, name := range others {
		r.others[name] = true
	}
	return r
}

func (r *reader) done() Marks {
	m := Marks{Places: r.marks}
	var why []string
	if r.beyond > 0 {
		why = append(why, strconv.Itoa(r.beyond)+" bytes of its texts were not looked at")
	}
	if r.more > 0 {
		why = append(why, strconv.Itoa(r.more)+" more places are marked")
	}
	m.Unlooked = strings.Join(why, "; ")
	return m
}

// text marks the places of one text.
func (r *reader) text(at Mark, text string) {
	look := min(len(text), r.left, maxText)
	r.left -= look
	r.beyond += len(text) - look
	for _, m := range Text(text[:look], r.others) {
		m.Of, m.Key, m.At = at.Of, at.Key, r.place()
		r.mark(m)
	}
}

func (r *reader) mark(m Mark) {
	if len(r.marks) == maxMarks {
		r.more++
		return
	}
	r.marks = append(r.marks, m)
}

// duplicates marks each key that several entries of a list have.
func (r *reader) duplicates(l catalog.List) {
	entries := map[string][]catalog.Entry{}
	for _, e := range l.Entries {
		entries[e.Key] = append(entries[e.Key], e)
	}
	for _, e := range l.Entries {
		all := entries[e.Key]
		delete(entries, e.Key)
		if len(all) < 2 {
			continue
		}
		how := "written the same"
		if slices.ContainsFunc(all, func(other catalog.Entry) bool { return !bytes.Equal(other.Raw, e.Raw) }) {
			how = "written differently"
		}
		r.mark(Mark{Of: l.Kind.One(), Key: e.Key, Kind: Duplicate, Excerpt: fmt.Sprintf("%d times in one list, %s", len(all), how)})
	}
}

// entry marks places in every text of a JSON value that is valid, and in its keys.
func (r *reader) entry(at Mark, raw []byte) {
	r.value(at, jsontext.Decode(raw))
}

func (r *reader) value(at Mark, v any) {
	switch v := v.(type) {
	case string:
		if !strings.HasPrefix(v, "data:image/") {
			r.text(at, v)
		}
	case []any:
		for i, item := range v {
			r.below(at, strconv.Itoa(i), item)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			r.below(at, key, key)
			r.below(at, key, v[key])
		}
	}
}

func (r *reader) below(at Mark, step string, v any) {
	r.path = append(r.path, step)
	r.value(at, v)
	r.path = r.path[:len(r.path)-1]
}

// maxSteps is how many steps of a place are told.
const maxSteps = 8

// place is where the reader is, in the entry.
func (r *reader) place() string {
	steps := r.path
	if len(steps) > maxSteps {
		steps = append(slices.Clone(steps[:maxSteps]), "…")
	}
	var b strings.Builder
	for i, step := range steps {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(text.Shorten(step, maxExcerpt))
	}
	return b.String()
}
