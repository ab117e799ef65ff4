// Package finding finds places in an MCP server's descriptions that a person should read:
// orders to a model, text that people do not see, and ambiguous entries.
//
// It marks and does not judge. Descriptions of honest servers give orders too, and a
// server that means harm can do it in words that nothing here knows. So a mark is no
// verdict, and no marks are no promise.
//
// It is pure, and bounded: what it takes grows with the length of a text and no faster,
// and beyond a length it says that it has not looked.
package finding

import (
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
)

// Kind is what a place is marked for.
type Kind string

// What places are marked for.
const (
	Overrides Kind = "overrides"     // sets aside what the model was told
	Secrecy   Kind = "secrecy"       // keeps something from the user
	Orders    Kind = "orders"        // tells the model what to do at once, or beside the task
	Poses     Kind = "poses"         // is dressed as a message of somebody else's
	Files     Kind = "files"         // names a file in which people keep secrets
	Sends     Kind = "sends"         // has something sent to an address, or secrets put into arguments
	Others    Kind = "other_servers" // names a tool of another server
	Steers    Kind = "steers"        // turns the model away from other tools
	Hidden    Kind = "hidden"        // characters that people do not see
	Terminal  Kind = "terminal"      // controls a terminal
	Pushed    Kind = "pushed"        // text behind so much space that it is out of sight
	Comment   Kind = "comment"       // is not shown where the text is rendered
	Lookalike Kind = "lookalike"     // a word of letters from several alphabets
	Encoded   Kind = "encoded"       // a text is hidden in it by an encoding
	Duplicate Kind = "duplicate"     // is in one list several times, and clients differ in which one counts
)

// Mark is a place that is marked.
type Mark struct {
	Of      string `json:"of"`            // tool, resource, resource template, prompt, instructions or result
	Key     string `json:"key,omitempty"` // of the tool, …, as the server writes it
	At      string `json:"at,omitempty"`  // where in its entry
	Kind    Kind   `json:"kind"`
	Excerpt string `json:"excerpt"` // of the text, on one line; what cannot be seen is written out
}

// Bounds.
const (
	maxText    = 64 << 10  // bytes of one text that are looked at
	maxAll     = 512 << 10 // bytes of all texts of a server
	maxBrief   = 128 << 10 // the same, where it is looked at for each trial
	maxMarks   = 200       // of a server
	maxOfKind  = 3         // marks of one kind in one text
	maxExcerpt = 160       // bytes of the text
	around     = 40        // of them on each side of the place
)

// found is a place in a text.
type found struct {
	kind       Kind
	start, end int
	says       string // in place of an excerpt
}

// Text marks the places of one text, in their order. others are names of tools that
// belong to other servers.
func Text(text string, others map[string]bool) []Mark {
	text = text[:min(len(text), maxText)]
	all := slices.Concat(hidden(text), lookalikes(text), pushed(text), encoded(text), phrases(text), named(text, others))
	slices.SortStableFunc(all, func(a, b found) int { return a.start - b.start })
	count, until := map[Kind]int{}, map[Kind]int{}
	var marks []Mark
	for _, f := range all {
		if f.start < until[f.kind] || count[f.kind] == maxOfKind {
			continue
		}
		count[f.kind]++
		until[f.kind] = f.end
		marks = append(marks, Mark{Kind: f.kind, Excerpt: f.excerpt(text)})
	}
	return marks
}

// excerpt is the place and some of what is around it.
func (f found) excerpt(s string) string {
	if f.says != "" {
		return text.Visible(text.Shorten(f.says, maxExcerpt))
	}
	from, to := max(0, f.start-around), min(len(s), f.start+maxExcerpt-around, f.end+around)
	for from > 0 && !runeStart(s[from]) {
		from--
	}
	for to < len(s) && !runeStart(s[to]) {
		to++
	}
	cut := text.Visible(strings.Join(strings.Fields(s[from:to]), " "))
	if from > 0 {
		cut = "…" + cut
	}
	if to < len(s) {
		cut += "…"
	}
	return cut
}

func runeStart(b byte) bool { return b&0xC0 != 0x80 }
