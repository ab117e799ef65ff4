// Package finding finds passages in an MCP server's descriptions that a person should
// review: instructions to a model, invisible text and ambiguous entries.
//
// Findings are not verdicts. Descriptions of honest servers contain instructions too, and a
// malicious server can use other words, so no findings does not mean safe.
//
// The package is pure and bounded: its running time is linear in the length of a text, and
// it reports what it did not inspect beyond a limit.
package finding

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/text"
)

// Kind is a kind of finding.
type Kind string

// Kinds of findings.
const (
	Overrides Kind = "overrides"     // overrides the model's instructions
	Secrecy   Kind = "secrecy"       // hides something from the user
	Orders    Kind = "orders"        // tells the model to do something at once, or apart from the task
	Poses     Kind = "poses"         // imitates a message from someone else
	Files     Kind = "files"         // names a file that commonly holds secrets
	Sends     Kind = "sends"         // asks to send something to an address, or to put secrets into arguments
	Others    Kind = "other_servers" // names a tool of another server
	Steers    Kind = "steers"        // discourages the use of other tools
	Hidden    Kind = "hidden"        // invisible characters
	Terminal  Kind = "terminal"      // controls the terminal
	Pushed    Kind = "pushed"        // text moved out of view by white space
	Comment   Kind = "comment"       // not shown when the text is rendered
	Lookalike Kind = "lookalike"     // a word with letters of several alphabets
	Encoded   Kind = "encoded"       // encoded text
	Duplicate Kind = "duplicate"     // occurs several times in a list; clients differ in which one they use
)

// Finding is a passage that a person should review.
type Finding struct {
	Of      string `json:"of"`            // tool, resource, resource template, prompt, instructions or result
	Key     string `json:"key,omitempty"` // name or URI, as written by the server
	At      string `json:"at,omitempty"`  // path within the entry
	Kind    Kind   `json:"kind"`
	Excerpt string `json:"excerpt"` // excerpt on one line, with invisible characters escaped
}

// Limits.
const (
	maxText     = 64 << 10  // bytes inspected of one text
	maxAll      = 512 << 10 // bytes inspected of all texts of a server
	maxBrief    = 128 << 10 // the same if done for each trial
	maxFindings = 200       // per server
	maxOfKind   = 3         // of one kind in one text
	maxExcerpt  = 160       // bytes of the text
	around      = 40        // bytes of context on each side
)

// found is a passage in a text.
type found struct {
	kind       Kind
	start, end int
	detail     string // replaces the excerpt
}

// inText inspects one text and returns its findings in order. others holds the names of
// other servers' tools.
func inText(text string, others map[string]bool) []Finding {
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

// excerpt returns the passage with some context.
func (f found) excerpt(s string) string {
	if f.detail != "" {
		return text.Visible(text.Shorten(f.detail, maxExcerpt))
	}
	from, to := max(0, f.start-around), min(len(s), f.start+maxExcerpt-around, f.end+around)
	for from > 0 && !utf8.RuneStart(s[from]) {
		from--
	}
	for to < len(s) && !utf8.RuneStart(s[to]) {
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
