// Package finding finds places in an MCP server's descriptions that a person should read:
// orders to a model, text that people do not see, and ambiguous entries.
//
// It does not judge. Descriptions of honest servers give orders too, and a malicious server can
// use words that are not known here. So a finding is no verdict, and no findings are no promise.
//
// It is pure, and bounded: time grows with the length of a text and no faster, and beyond a length
// it says that it has not looked.
package finding

import (
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"
)

// Kind is a kind of finding.
type Kind string

// Kinds of findings.
const (
	Overrides Kind = "overrides"     // overrides instructions of the model
	Secrecy   Kind = "secrecy"       // keeps something from the user
	Orders    Kind = "orders"        // orders the model to do something at once, or besides the task
	Poses     Kind = "poses"         // poses as a message of somebody else
	Files     Kind = "files"         // names a file in which people keep secrets
	Sends     Kind = "sends"         // asks to send something to an address, or to put secrets into arguments
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

// Finding is a place that a person should read.
type Finding struct {
	Of      string `json:"of"`            // tool, resource, resource template, prompt, instructions or result
	Key     string `json:"key,omitempty"` // of the tool, …, as the server writes it
	At      string `json:"at,omitempty"`  // where in its entry
	Kind    Kind   `json:"kind"`
	Excerpt string `json:"excerpt"` // of the text, on one line; what cannot be seen is written out
}

// Bounds.
const (
	maxText     = 64 << 10  // bytes of one text that are looked at
	maxAll      = 512 << 10 // bytes of all texts of a server
	maxBrief    = 128 << 10 // the same, where it is looked at for each trial
	maxFindings = 200       // of a server
	maxOfKind   = 3         // findings of one kind in one text
	maxExcerpt  = 160       // bytes of the text
	around      = 40        // of them on each side of the place
)

// found is a place in a text.
type found struct {
	kind       Kind
	start, end int
	says       string // text in place of an excerpt
}

// inText looks at one text and returns what it finds, in order. others are names of tools of other
// servers.
func inText(text string, others map[string]bool) []Finding {
	text = text[:min(len(text), maxText)]
	all := slices.Concat(hidden(text), lookalikes(text), pushed(text), encoded(text), phrases(text), named(text, others))
	slices.SortStableFunc(all, func(a, b found) int { return a.start - b.start })
	count, until := map[Kind]int{}, map[Kind]int{}
	var findings []Finding
	for _, f := range all {
		if f.start < until[f.kind] || count[f.kind] == maxOfKind {
			continue
		}
		count[f.kind]++
		until[f.kind] = f.end
		findings = append(findings, Finding{Kind: f.kind, Excerpt: f.excerpt(text)})
	}
	return findings
}

// excerpt returns the place with some of the text around it.
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
