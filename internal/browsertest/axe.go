package browsertest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/dockertest"
)

// axe is the path where scripts/setup installs axe-core.
const axe = "bin/axe.min.js"

// barrier is a violation found by axe-core.
type barrier struct {
	ID     string   `json:"id"`
	Impact string   `json:"impact"`
	Help   string   `json:"help"`
	Nodes  []string `json:"nodes"` // the first few, as selectors with what is wrong
	Count  int      `json:"count"`
}

const runAxe = `(async () => {
	const found = await axe.run(document, {resultTypes: ["violations"]});
	return found.violations.map(v => ({
		id: v.id, impact: v.impact || "", help: v.help, count: v.nodes.length,
		nodes: v.nodes.slice(0, 8).map(n => n.target.join(" ") + " — " + n.failureSummary.split("\n").slice(1).join("; ").trim()),
	}));
})()`

// Accessible fails the test if axe-core finds a serious or critical violation in the page.
// Lesser ones are logged.
func (p *Page) Accessible() {
	p.t.Helper()
	if !Eval[bool](p, `"axe" in window`) {
		Eval[any](p, axeScript(p)+"\n;0")
	}
	for _, found := range Eval[[]barrier](p, runAxe) {
		text := fmt.Sprintf("%s: %s (%s), %d times:\n  %s", found.Impact, found.Help, found.ID, found.Count, strings.Join(found.Nodes, "\n  "))
		if slices.Contains([]string{"serious", "critical"}, found.Impact) {
			p.t.Error(text)
		} else {
			p.t.Log(text)
		}
	}
}

func axeScript(p *Page) string {
	p.t.Helper()
	top, err := root()
	if err != nil {
		p.t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(axe)))
	if err != nil {
		dockertest.Miss(p.t, "axe-core is missing; run scripts/setup browser: %v", err)
	}
	return string(script)
}
