package attacks

import (
	"fmt"
	"slices"
	"strings"
)

// Table returns the attacks of each promise, and the defenses that are not removed, as
// Markdown for SECURITY.md.
func Table() string {
	var b strings.Builder
	for _, p := range Promises() {
		fmt.Fprintf(&b, "### %s\n\n| attack | by | tries to | held by |\n|---|---|---|---|\n", heading(p))
		for _, a := range All() {
			if a.Promise == p {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.Name, a.As, cell(a.Goal), cell(a.Without.label()))
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("### Defences that are kept, and why\n\n| held by | why |\n|---|---|\n")
	var reported []string
	for _, a := range All() {
		if d := a.Without; d.Kept != "" && !slices.Contains(reported, d.Name) {
			reported = append(reported, d.Name)
			fmt.Fprintf(&b, "| %s | %s |\n", cell(d.Name), cell(d.Kept))
		}
	}
	return b.String()
}

// label marks defenses that are not removed.
func (d Defence) label() string {
	if d.Kept != "" {
		return d.Name + " (kept)"
	}
	return d.Name
}

// heading returns the promise without its final period.
func heading(p Promise) string { return strings.TrimSuffix(string(p), ".") }

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
