package attacks

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/test/attacks/part"
)

// markOf matches the mark in a markup.
var markOf = regexp.MustCompile(`[a-z]+-mark`)

// exitingServer is the trial whose server prints its text and exits, so that the trial has no
// outcome.
const exitingServer = "markdown-break"

// output is an output of waza for a run: its foreign content and its text.
type output struct {
	judge func(Scene) judged
	text  func(Scene) string
}

// outputAttacks returns the attacks by text that HTML, JUnit or Markdown would interpret as
// markup.
func outputAttacks() []Attack {
	said := func(name, tries, in string, without probe.Defence, out output) Attack {
		mark := markOf.FindString(part.Markups()[name])
		return Attack{
			Attack: entry(name, tries, probe.InertOutput, without),
			As:     Both, In: in,
			Won:   func(s Scene) (bool, string) { return among(out.judge(s).strays, mark) },
			Tried: func(s Scene) bool { return strings.Contains(out.text(s), mark) },
		}
	}
	pages := output{ofPages, func(s Scene) string { return s.Run.report().text() }}
	junit := output{ofJUnit, func(s Scene) string { return string(s.Run.written("junit.xml")) }}
	markdown := output{ofMarkdown, func(s Scene) string { return s.Run.comment() }}
	all := []Attack{
		said("page-element", "inject HTML elements that load or send data, or run scripts by their attributes", sayingTask, escapedPages, pages),
		said("page-script", "break out of a page's script and start another", sayingTask, escapedPages, pages),
		said("page-head", "break out of a page's head and inject base, style or meta elements", sayingTask, escapedPages, pages),
		said("page-comment", "open an HTML comment that hides the rest of a page", sayingTask, escapedPages, pages),
		said("page-attribute", "break out of an attribute and add others", sayingTask, noAttributes, pages),
		said("page-entity", "have character references in text interpreted", sayingTask, escapedPages, output{misread, pages.text}),
		said("page-address", "put a javascript: URL into a link", sayingTask, noAddresses, pages),
		said("junit-case", "add a passed test case to a JUnit file, and make the file unreadable", exitingServer, escapedXML, junit),
		said(exitingServer, "break out of folded and quoted parts of a pull request comment", "", escapedMarkdown, markdown),
		said("markdown-link", "put images and links into a pull request comment", exitingServer, escapedMarkdown, markdown),
		said("markdown-name", "mention people and other repositories in a pull request comment", exitingServer, escapedMarkdown, markdown),
		said("markdown-structure", "forge headings, tables and lists in a pull request comment", exitingServer, escapedMarkdown, markdown),
	}
	for i := range all {
		if a := &all[i]; a.Name == exitingServer || a.In == exitingServer {
			a.As = Server
		}
	}
	return append(all,
		Attack{
			Attack: entry("page-runs", "run a script in the browser that opens the report, or make it send a request", probe.InertOutput, policyAndEscapes),
			As:     Both, In: sayingTask, Browse: true,
			Won:   func(s Scene) (bool, string) { return among(s.Run.Noted, "") },
			Tried: func(s Scene) bool { return strings.Contains(s.Run.Browsed, "script-mark") },
		},
		Attack{
			Attack: entry("outputs-order", "reorder the text of pages, JUnit files and comments with bidirectional characters", probe.InertOutput, visibleText),
			As:     Both, In: sayingTask,
			Won: func(s Scene) (bool, string) {
				return among(both(ofPages(s), ofJUnit(s), ofMarkdown(s)).odd, `'\u202e'`)
			},
		},
		Attack{
			Attack: entry("printed-trajectories", "reorder what waza export --format atif prints with bidirectional characters", probe.InertOutput, plainOutput),
			As:     Both, In: sayingTask,
			Won: func(s Scene) (bool, string) {
				var j judged
				j.characters([]byte(s.exported()))
				return among(j.odd, `'\u202e'`)
			},
			Tried: func(s Scene) bool { return strings.Contains(s.exported(), "bidi-mark") },
		},
		Attack{
			Attack: entry("served-file", "have a browser render a file of the run, served by waza serve, as a page", probe.InertOutput, servedAsText),
			As:     Both, In: sayingTask,
			Won: func(s Scene) (bool, string) { return among(s.Run.served(s.Task).strays, "is served as") },
		},
		Attack{
			Attack: entry("outputs-anything", "inject anything into the report, JUnit file or comment on all of these attacks together, or into the pages of waza serve", probe.InertOutput, escapedPages),
			As:     Both, In: sayingTask,
			Won: func(s Scene) (bool, string) {
				all := both(ofPages(s), ofJUnit(s), ofMarkdown(s))
				return among(slices.Concat(all.strays, all.odd), "")
			},
		},
	)
}

func ofPages(s Scene) judged { return both(s.Run.report().judged, s.Run.served(sayingTask).judged) }

func ofJUnit(s Scene) judged { return readJUnit(s.Run.written("junit.xml")) }

// exported returns the trajectories of the run, as JSON, on stdout.
func (s Scene) exported() string { return s.Run.printed("export", "--format", "atif", s.Run.Dir) }

func ofMarkdown(s Scene) judged { return readMarkdown([]byte(s.Run.comment())) }

// misread reports character references that were decoded twice.
func misread(s Scene) (j judged) {
	if strings.Contains(s.Run.report().text(), "<b>entity-mark") {
		j.stray("entity-mark is not shown as it was said")
	}
	return j
}

// Size limits for output about one trial, unless all of it was requested.
const (
	mostOfPage     = 2 << 20
	mostInTerminal = 256 << 10
)

// hugeAttacks returns the attacks by more output than can be displayed.
func hugeAttacks() []Attack {
	all := []Attack{
		{
			Attack: entry(part.Huge, "make the report too large to open, with 5 MiB of text, 10,000 tools, names of 64 KiB and JSON nested 9,990 deep", probe.InertOutput, boundedPages),
			Task:   func(g Ground, t *eval.Task) { t.Graders = []eval.Grader{g.Program("says", part.Huge)} },
			Won: func(s Scene) (bool, string) {
				return s.Run.report().beyond(s.Task, mostOfPage)
			},
		},
		{
			Attack: entry("huge-on-terminal", "flood the terminal with the same, at the end of a run and in waza show", probe.InertOutput, clippedTexts),
			In:     part.Huge,
			Won: func(s Scene) (bool, string) {
				said := len(s.Run.Output) + len(s.Run.printed("show", s.Run.Dir, s.Task))
				return said > mostInTerminal*len(s.Run.Results.Tasks), fmt.Sprintf("%d bytes are printed", said)
			},
		},
	}
	for i := range all {
		a := &all[i]
		a.As = Both
		a.Tried = func(s Scene) bool { return s.sizeOfFrames() > 4*part.HugeText }
	}
	return all
}

// beyond reports whether the section of a trial is larger than most bytes.
func (p page) beyond(task string, most int) (bool, string) {
	if p.root == nil {
		return true, fmt.Sprint(p.strays)
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

// report returns the parsed report of the run.
func (r *Run) report() page {
	if r.reported == nil {
		p := readPage(r.written("report.html"))
		r.reported = &p
	}
	return *r.reported
}

// comment returns the pull request comment for the run.
func (r *Run) comment() string {
	if r.commented == "" {
		r.commented = r.printed("report", "--format", "github-comment", r.Dir)
	}
	return r.commented
}

// written returns an output file of the run.
func (r *Run) written(name string) []byte {
	data, _ := os.ReadFile(filepath.Join(r.Dir, name))
	return data
}

// printed returns the output of waza with args.
func (r *Run) printed(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, _ := exec.CommandContext(ctx, r.Waza, args...).CombinedOutput() // some exit with 1 and print why
	return string(out)
}
