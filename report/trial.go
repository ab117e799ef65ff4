package report

import (
	"html/template"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/changes"
	"github.com/waza-isolate/waza/internal/defence"
)

// Trial is what is shown of one trial, cut to bounds: its texts are as they are shown.
type Trial struct {
	evidence.Trial
	Dir            string // of its evidence, as a path from the run directory
	Previous, Next int    // trials of the task; 0 where there is none
	Earlier        []evidence.Trial
	Outcome        evidence.Class
	Why            string // in a sentence
	Score          float64
	Gaps           []string

	PromptText, Output Text
	Figures            Figures
	Sources            []Source
	Rows               []Row
	Unshown            int // rows that are not there
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
	Calls int // and as many other steps
}

// What all trials of a document take at most, about, and each one whatever their number.
const (
	maxDocument = 64 << 20
	minTrial    = 48 << 10
	maxTrial    = 12 << 20
	// rowSize is about what a step takes without its texts.
	rowSize = 1200
)

// Share returns the bounds of each of a document's trials.
func Share(trials int) Bounds {
	total := min(max(maxDocument/max(trials, 1), minTrial), maxTrial)
	bounds := Bounds{Text: min(total/8, 64<<10), Total: total, Calls: min(max(total/rowSize, 50), 10_000)}
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

// Step returns the address of a step; for one that is not shown, that of the first.
func (p trialPage) Step(anchor string) template.URL {
	if !p.shown[anchor] {
		anchor = anchorSteps
	}
	return p.To(anchor)
}

// Call returns the address of a call, likewise.
func (p trialPage) Call(seq int) template.URL { return p.Step(callAnchor(seq)) }

const anchorSteps = "steps"

// Overview and Sibling return the addresses of related pages.
func (p trialPage) Overview() template.URL { return p.Links.To(PathOverview) }
func (p trialPage) Sibling(number int) template.URL {
	return p.Links.To(TrialPath(p.Task, number))
}

// Workspace is what became of the agent's files.
type Workspace struct {
	changes.Tree
	Shown []FileView
	None  string // why nothing is known of it
}
