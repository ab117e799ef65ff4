package attacks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/golden"
)

// listed returns docs/attacks.md: the attacks of each promise, and the defenses that are not
// removed.
func listed() string {
	var b strings.Builder
	fmt.Fprintf(&b, introduction, len(All()), len(removable()), len(builds()), succeeding())
	for _, p := range Promises() {
		fmt.Fprintf(&b, "## %s\n\n| attack | by | tries to | held by |\n|---|---|---|---|\n", heading(p))
		for _, a := range All() {
			if a.Promise == p {
				fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.Name, a.As, cell(a.Goal), cell(a.Without.label()))
			}
		}
		b.WriteByte('\n')
	}
	b.WriteString("## Defences that are kept, and why\n\n| held by | why |\n|---|---|\n")
	var reported []string
	for _, a := range All() {
		if d := a.Without; d.Kept != "" && !slices.Contains(reported, d.Name) {
			reported = append(reported, d.Name)
			fmt.Fprintf(&b, "| %s | %s |\n", cell(d.Name), cell(d.Kept))
		}
	}
	return b.String()
}

// introduction is the beginning of docs/attacks.md.
const introduction = `# Attacks

<!-- Written by make golden from package attacks. -->

All attacks of ` + "`make test-attacks`" + `, under the promise that each tries to break: [SECURITY.md](../SECURITY.md) describes
the promises, and how the tests see whether an attack succeeded.

The suite tries %d attacks, and passes if none succeeds. Then it takes %d defences out, in %d builds, where %d of these
attacks must succeed.

`

// succeeding returns how many attacks succeed without their defence.
func succeeding() int {
	n := 0
	for _, a := range All() {
		if a.Without.Kept == "" {
			n++
		}
	}
	return n
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

// docs/attacks.md lists the attacks that there are.
func TestDocument(t *testing.T) {
	golden.Check(t, "../../docs/attacks.md", listed())
}
