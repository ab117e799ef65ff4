package attacks

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/sandbox/probe"
)

// listed returns docs/attacks.md: the attacks of each promise, and the defenses that are not
// removed.
func listed() string {
	var b strings.Builder
	fmt.Fprintf(&b, introduction, len(All()), len(removable()), len(builds()), succeeding())
	for _, p := range probe.Promises() {
		fmt.Fprintf(&b, "## %s\n\n| attack | by | tries to | held by | runs in |\n|---|---|---|---|---|\n", strings.TrimSuffix(string(p), "."))
		for _, a := range All() {
			if a.Promise == p {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", a.Name, a.As, cell(a.Goal), cell(label(a.Without)), a.Where())
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

<!-- Written by make golden from packages probe and attacks. -->

All attacks, under the promise that each tries to break: [SECURITY.md](../SECURITY.md) describes the promises, and how
the tests see whether an attack succeeded.

An attack that the configuration of an engine, a kernel or a cluster can let through runs in the
[certificate](isolation.md#the-certificate), once a day on each engine. The suite, ` + "`make test-attacks`" + `, tries these and all
others: %d attacks, and passes if none succeeds. Then it takes %d defences out, in %d builds, where %d of these attacks
must succeed.

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
func label(d probe.Defence) string {
	if d.Kept != "" {
		return d.Name + " (kept)"
	}
	return d.Name
}

// cell escapes text for a cell of a Markdown table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// docs/attacks.md lists the attacks that there are.
func TestDocument(t *testing.T) {
	golden.Check(t, "../../docs/attacks.md", listed())
}
