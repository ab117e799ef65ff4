package attacks

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/waza-isolate/waza/attacks/part"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/spec"
)

// markOf is what a markup has in it, wherever it comes to stand.
var markOf = regexp.MustCompile(`[a-z]+-mark`)

// pageAttacks say, wherever something is said, what a page would take for more than text.
func pageAttacks() []Attack {
	all := []Attack{
		{Name: "page-element", Tries: "have a page load and send by elements of its own, which attributes make scripts", Without: escapedPages()},
		{Name: "page-script", Tries: "end the page's script, and begin one", Without: escapedPages()},
		{Name: "page-head", Tries: "end what stands in a page's head, and change where its links lead and how it looks", Without: escapedPages()},
		{Name: "page-comment", Tries: "have the rest of a page taken for a comment", Without: escapedPages()},
		{Name: "page-attribute", Tries: "get out of an attribute, and add others", Without: escapedPages()},
		{Name: "page-address", Tries: "have a page lead to an address that is a script", Without: noAddresses()},
	}
	for i := range all {
		a := &all[i]
		a.As, a.Promise, a.In = Both, InertOutput, sayingTask
		mark := markOf.FindString(part.Markups()[a.Name])
		a.Won = func(s Scene) (bool, string) { return among(s.Run.report().strays, mark) }
		a.Tried = func(s Scene) bool { return strings.Contains(text(s.Run.report().root), mark) }
	}
	return append(all,
		Attack{
			Name: "page-order", As: Both, Promise: InertOutput, In: sayingTask, Without: visibleText(),
			Tries: "change the order in which a page shows what others said",
			Won:   func(s Scene) (bool, string) { return among(s.Run.report().strays, `\u202e`) },
		},
		Attack{
			Name: "page-anything", As: Both, Promise: InertOutput, In: sayingTask, Without: escapedPages(),
			Tries: "bring into the report of all these attacks anything that is not ours: an element, an attribute, an address, a character",
			Won:   func(s Scene) (bool, string) { return among(s.Run.report().strays, "") },
		},
	)
}

// Bounds of what is shown of one trial to who did not ask for all of it.
const (
	mostOfPage     = 8 << 20
	mostInTerminal = 256 << 10
)

// hugeAttacks say more than anybody can show.
func hugeAttacks() []Attack {
	all := []Attack{
		{
			Name: part.Huge, Tries: "make of the report what no browser opens, by 5 MiB of text, 10,000 tools, names of 64 KiB and JSON 9,990 deep", Without: boundedPages(),
			Task: func(g Ground, t *spec.Task) { t.Graders = []spec.Grader{g.Program("says", part.Huge)} },
			Won: func(s Scene) (bool, string) {
				return s.Run.report().beyond(s.Task, mostOfPage)
			},
		},
		{
			Name: "huge-on-terminal", In: part.Huge, Tries: "flood the terminal by the same, at the end of a run and where the trial is shown", Without: clippedTexts(),
			Won: func(s Scene) (bool, string) {
				said := len(s.Run.Output) + len(s.Run.printed("show", s.Run.Dir, s.Task))
				return said > mostInTerminal*len(s.Run.Results.Tasks), fmt.Sprintf("%d bytes are printed", said)
			},
		},
	}
	for i := range all {
		a := &all[i]
		a.As, a.Promise = Both, InertOutput
		a.Tried = func(s Scene) bool { return s.sizeOf(evidence.FramesFile) > 4*part.HugeText }
	}
	return all
}

// beyond says whether a trial takes more of the page than so many bytes.
func (p page) beyond(task string, most int) (bool, string) {
	if len(p.strays) > 0 && p.ids == nil {
		return true, p.strays[0]
	}
	for n := range p.root.Descendants() {
		if n.Data == "section" && value(n, "id") == "trial/"+task+"/1" {
			size := 0
			for d := range n.Descendants() {
				size += len(d.Data)
				for _, a := range d.Attr {
					size += len(a.Val)
				}
			}
			return size > most, fmt.Sprintf("%d bytes of the page", size)
		}
	}
	return true, "the page lacks the trial"
}

func among(strays []string, mark string) (bool, string) {
	for _, stray := range strays {
		if strings.Contains(stray, mark) {
			return true, stray
		}
	}
	return false, ""
}

// report is the run's report as a browser takes it.
func (r *Run) report() page {
	if r.reported == nil {
		p := readPage(r.written("report.html", "report", r.Dir))
		r.reported = &p
	}
	return *r.reported
}

// written is a file that the run wrote, or that waza writes when asked.
func (r *Run) written(name string, args ...string) []byte {
	file := filepath.Join(r.Dir, name)
	if _, err := os.Stat(file); err != nil {
		r.printed(args...)
	}
	data, _ := os.ReadFile(file)
	return data
}

// printed is what waza prints when asked.
func (r *Run) printed(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, _ := exec.CommandContext(ctx, r.Waza, args...).CombinedOutput() // some exit with 1, and say so
	return string(out)
}
