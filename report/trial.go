package report

import (
	"html/template"
	"net/url"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/changes"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/report/view"
)

// Trial is what is shown of one trial, cut to bounds: its texts are as they are shown.
type Trial struct {
	evidence.Trial
	Dir            string      // of its evidence, as a path from the run directory
	Previous, Next int         // trials of the task; 0 where there is none
	NextFailing    *view.Trial // of the run; nil where it has no other
	Earlier        []evidence.Trial
	Outcome        evidence.Class
	Why            string // in a sentence
	Score          float64
	Gaps           []string

	PromptText, Output Text
	Setup              Text   // what the eval says of it, as YAML
	Again              string // the command that runs it again
	Figures            Figures
	Sources            []Source
	Rows               []Row
	Before, Unshown    int    // rows before and behind, which are not there
	Window             Window // that was asked for
	Timeline           Timeline
	Contradicted       []string // where the agent's account of its calls is wrong
	Verdicts           []VerdictView
	Attack             *AttackView
	Reached            []CheckpointView
	Replies            []ReplyView
	MoreReplies        int // that are not there
	Workspace          Workspace
	Logs               []Log
}

// Figures of a trial. What is nil is not known.
type Figures struct {
	Calls, Failed, Own int
	Turns              int
	Unseen             bool // nobody saw what it asked of models, if anything
	Models             []string
	Input, Output      *int64        // tokens
	ByAgent            bool          // tokens are by the agent's account
	Cost               *float64      // US dollars
	Agent, Whole       time.Duration // zero where it has no end
}

// Source is where steps of a trial come from, for telling them apart.
type Source struct {
	Key   string // of a filter
	Lane  string // of a server: its colour
	Name  string
	Count int
}

// Bounds of what is shown of a trial. What is more is left in its files, which are named.
type Bounds struct {
	Text  int // bytes of one text, as they stand in the page
	Total int // bytes of all texts, likewise
	Laid  int // bytes of Markdown that is laid out
	Steps int
	Window
}

// Window says which steps of a trial are shown where there are more than can be.
type Window struct {
	From int    // counted from 0: the steps are those of the whole window that has it
	At   string // the anchor of a step, in place of From
	Find string // words: only steps that have them count
}

// Windowed returns the bounds of a window of a trial that is a document of its own.
func Windowed(w Window) Bounds {
	bounds := Share(1)
	bounds.Steps, bounds.Window = windowSteps, w
	return bounds
}

const windowSteps = 5_000

// What all trials of a document take at most, about, and each one whatever their number.
const (
	maxDocument = 64 << 20
	minTrial    = 48 << 10
	maxTrial    = 12 << 20
	// rowSize is about what a step takes without its texts.
	rowSize = 1200
)

// maxTrials is how many trials have a page in a document; those come first that did not pass.
const maxTrials = maxDocument / minTrial

// Share returns the bounds of each of a document's trials.
func Share(trials int) Bounds {
	total := min(maxDocument/min(max(trials, 1), maxTrials), maxTrial)
	bounds := Bounds{Text: min(total/8, 64<<10), Total: total, Steps: max(total/rowSize, 50)}
	bounds.Laid = min(maxMarkdownAll/min(max(trials, 1), maxTrials), maxMarkdownTrial)
	if !defence.BoundedPages {
		bounds.Text, bounds.Total = 1<<30, 1<<30
	}
	return bounds
}

// OfTrial returns a trial's page.
func OfTrial(t Trial, l Links) Page {
	path := TrialPath(t.Task, t.Number)
	shown := map[string]bool{}
	for _, row := range t.Rows {
		shown[row.Anchor] = true
	}
	return Page{ID: l.ID(path), Title: path, name: "trial", data: trialPage{t, path, l, shown}}
}

type trialPage struct {
	Trial
	Path  string
	Links Links
	shown map[string]bool // anchors of rows
}

// ID returns the id of an element of the page, and To its address.
func (p trialPage) ID(anchor string) string       { return p.Links.ID(p.Path, anchor) }
func (p trialPage) To(anchor string) template.URL { return p.Links.To(p.Path, anchor) }

// Step returns the address of a step. One that is not shown is in another window, which a server
// has; in a file there is the first.
func (p trialPage) Step(anchor string) template.URL {
	switch {
	case p.shown[anchor]:
		return p.To(anchor)
	case p.Links.InFile:
		return p.To(anchorSteps)
	}
	return p.Links.To(p.Path) + template.URL("?at="+url.QueryEscape(anchor)+"#"+escaped(p.ID(anchor)))
}

// Total returns how many steps there are, in all windows, and Last which of them is the last here.
func (t Trial) Total() int { return t.Before + len(t.Rows) + t.Unshown }
func (t Trial) Last() int  { return t.Before + len(t.Rows) }

// window returns the address of the window that has a step, counted from 0.
func (p trialPage) window(from int) template.URL {
	q := url.Values{"from": {strconv.Itoa(from + 1)}}
	if p.Window.Find != "" {
		q.Set("find", p.Window.Find)
	}
	return p.Links.To(p.Path) + template.URL("?"+q.Encode()+"#"+escaped(p.ID(anchorSteps)))
}

// HasWindows reports whether there are steps in other windows, or words that were searched for.
func (p trialPage) HasWindows() bool {
	return !p.Links.InFile && (p.Before > 0 || p.Unshown > 0 || p.Window.Find != "")
}

// Windows returns the addresses of the first window, the one before, the one behind and the last;
// they are empty where this is it.
func (p trialPage) Windows() (all [4]template.URL) {
	if p.Before > 0 {
		all[0], all[1] = p.window(0), p.window(max(p.Before-windowSteps, 0))
	}
	if p.Unshown > 0 {
		all[2], all[3] = p.window(p.Last()), p.window(p.Total()-1)
	}
	return all
}

// Call returns the address of a call, likewise.
func (p trialPage) Call(seq int) template.URL { return p.Step(callAnchor(seq)) }

const anchorSteps = "steps"

// Overview and Sibling return the addresses of related pages.
func (p trialPage) Overview() template.URL { return p.Links.To(PathOverview) }
func (p trialPage) Sibling(number int) template.URL {
	return p.Links.To(TrialPath(p.Task, number))
}

// Failing returns the address of the next trial that did not pass.
func (p trialPage) Failing() template.URL {
	return p.Links.To(TrialPath(p.NextFailing.Task, p.NextFailing.Number))
}

// Workspace is what became of the agent's files.
type Workspace struct {
	changes.Tree
	Shown []FileView
	None  string // why nothing is known of it
}
