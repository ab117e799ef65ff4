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

// Findings are the findings in a server's texts. Incomplete says why some texts were not
// read; it is empty if all were.
type Findings struct {
	Places     []Finding `json:"places"`
	Incomplete string    `json:"incomplete,omitempty"`
}

// InCatalog inspects what a server lists: its instructions, every text of every entry, and
// duplicate entries. others holds the names of other servers' tools that the agent has.
func InCatalog(o catalog.Catalog, others []string) Findings {
	return inCatalog(o, newReader(others, maxAll))
}

// InCatalogBriefly is like [InCatalog] for callers with many catalogs: it reads fewer
// bytes, and reports what it did not read.
func InCatalogBriefly(o catalog.Catalog) Findings { return inCatalog(o, newReader(nil, maxBrief)) }

func inCatalog(o catalog.Catalog, r *reader) Findings {
	r.text(Finding{Of: "instructions"}, o.Instructions)
	for _, l := range o.Lists {
		r.duplicates(l)
		for _, e := range l.Entries {
			r.entry(Finding{Of: l.Kind.One(), Key: e.Key}, e.Raw)
		}
	}
	return r.done()
}

// InResult inspects a server's response to a tool call or another request.
func InResult(of, key string, raw []byte) Findings {
	r := newReader(nil, maxAll)
	r.entry(Finding{Of: of + " result", Key: key}, raw)
	return r.done()
}

// reader inspects texts within the limits.
type reader struct {
	others   map[string]bool
	left     int // bytes that may still be read
	beyond   int // bytes that were not read
	more     int // findings beyond the limit
	findings []Finding
	path     []string
}

func newReader(others []string, left int) *reader {
	r := &reader{others: map[string]bool{}, left: left, findings: []Finding{}}
	for _, name := range others {
		r.others[name] = true
	}
	return r
}

func (r *reader) done() Findings {
	m := Findings{Places: r.findings}
	var why []string
	if r.beyond > 0 {
		why = append(why, strconv.Itoa(r.beyond)+" bytes of its texts were not inspected")
	}
	if r.more > 0 {
		why = append(why, strconv.Itoa(r.more)+" more places were found")
	}
	m.Incomplete = strings.Join(why, "; ")
	return m
}

// text inspects one text.
func (r *reader) text(at Finding, text string) {
	look := min(len(text), r.left, maxText)
	r.left -= look
	r.beyond += len(text) - look
	for _, m := range inText(text[:look], r.others) {
		m.Of, m.Key, m.At = at.Of, at.Key, r.place()
		r.add(m)
	}
}

func (r *reader) add(m Finding) {
	if len(r.findings) == maxFindings {
		r.more++
		return
	}
	r.findings = append(r.findings, m)
}

// duplicates finds keys that occur more than once in a list.
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
		r.add(Finding{Of: l.Kind.One(), Key: e.Key, Kind: Duplicate, Excerpt: fmt.Sprintf("%d times in one list, %s", len(all), how)})
	}
}

// entry inspects all texts and keys of a valid JSON value.
func (r *reader) entry(at Finding, raw []byte) {
	r.value(at, jsontext.Decode(raw))
}

func (r *reader) value(at Finding, v any) {
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

func (r *reader) below(at Finding, step string, v any) {
	r.path = append(r.path, step)
	r.value(at, v)
	r.path = r.path[:len(r.path)-1]
}

// maxSteps is the maximum number of path elements reported for a place.
const maxSteps = 8

// place returns the current path within the entry.
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
