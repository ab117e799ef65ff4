package report

import (
	"html/template"
	"net/url"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/changes"
	"github.com/waza-isolate/waza/report/view"
)

// Trial is the view of one trial within limits. Its texts are in displayable form.
type Trial struct {
	evidence.Trial
	Dir            string            // of the evidence, relative to the run directory
	Previous, Next int               // other trials of the task; 0 if there is none
	NextFailing    *evidence.TrialID // in the run; nil if there is none
	Earlier        []evidence.Trial
	Outcome        evidence.Class
	Mark           Mark   // its outcome, with the reason
	Why            string // one sentence
	Score          float64
	Gaps           []string

	PromptText, Output Text
	Setup              Text   // configuration of the trial in the eval, as YAML
	Again, AgainDoes   string // command to run it again, and a sentence about it
	Figures            Figures
	Sources            []Source
	Rows               []Row
	Before, Unshown    int    // number of rows before and after those shown
	Window             Window // as requested
	Timeline           Timeline
	Contradicted       []string // what is wrong in the agent's account of its calls
	Verdicts           []VerdictView
	Attack             *AttackView
	Reached            []CheckpointView
	Replies            []ReplyView
	MoreReplies        int // number of replies not shown
	Workspace          Workspace
	Logs               []Log
}

// Figures are a trial's figures. nil means unknown.
type Figures struct {
	Calls, Failed, Own int
	Turns              int
	Unseen             bool // its requests to models were not observed
	Models             []string
	view.Used
	Agent, Whole time.Duration // zero if it has no end
}

// Source is a source of a trial's steps.
type Source struct {
	Key   string // filter key
	Lane  string // color of a server
	Name  string
	Count int
}

// Bounds limits how much of a trial is shown. The rest stays in its files, which the page names.
type Bounds struct {
	Text  int // bytes of one text in the page
	Total int // bytes of all texts in the page
	Laid  int // bytes of rendered Markdown
	Steps int
	Window
}

// Window selects the steps of a trial to show if there are too many.
type Window struct {
	From int    // counted from 0; the window that contains this step is shown
	At   string // anchor of a step, instead of From
	Find string // words; only steps that contain them count
}

// Windowed returns the limits for a window of a trial in its own document.
func Windowed(w Window) Bounds {
	bounds := Share(1)
	bounds.Steps, bounds.Window = windowSteps, w
	return bounds
}

const windowSteps = 5_000

// Approximate limits in bytes for all trials of a document together, and for each one.
const (
	maxDocument = 64 << 20
	minTrial    = 48 << 10
	maxTrial    = 12 << 20
	// rowSize is the approximate size of a step without its texts.
	rowSize = 1200
)

// maxTrials is the maximum number of trials with a page in a document. Trials that did not
// pass come first.
const maxTrials = maxDocument / minTrial

// Share returns the limits for each of a document's trials.
func Share(trials int) Bounds {
	total := min(maxDocument/min(max(trials, 1), maxTrials), maxTrial)
	bounds := Bounds{Text: min(total/8, 64<<10), Total: total, Steps: max(total/rowSize, 50)}
	bounds.Laid = min(maxMarkdownAll/min(max(trials, 1), maxTrials), maxMarkdownTrial)
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

// Step returns the address of a step. A step that is not shown is in another window on a
// server; in a file, the address is that of the steps.
func (p trialPage) Step(anchor string) template.URL {
	switch {
	case p.shown[anchor]:
		return p.To(anchor)
	case p.Links.InFile:
		return p.To(anchorSteps)
	}
	return p.Links.To(p.Path) + template.URL("?at="+url.QueryEscape(anchor)+"#"+escaped(p.ID(anchor)))
}

// Total returns the number of steps in all windows, and Last the number of the last one
// shown.
func (t Trial) Total() int { return t.Before + len(t.Rows) + t.Unshown }
func (t Trial) Last() int  { return t.Before + len(t.Rows) }

// window returns the address of the window that contains a step, counted from 0.
func (p trialPage) window(from int) template.URL {
	q := url.Values{"from": {strconv.Itoa(from + 1)}}
	if p.Window.Find != "" {
		q.Set("find", p.Window.Find)
	}
	return p.Links.To(p.Path) + template.URL("?"+q.Encode()+"#"+escaped(p.ID(anchorSteps)))
}

// HasWindows reports whether there are other windows or a search.
func (p trialPage) HasWindows() bool {
	return !p.Links.InFile && (p.Before > 0 || p.Unshown > 0 || p.Window.Find != "")
}

// Windows returns the addresses of the first, previous, next and last window, empty if not
// applicable.
func (p trialPage) Windows() (all [4]template.URL) {
	if p.Before > 0 {
		all[0], all[1] = p.window(0), p.window(max(p.Before-windowSteps, 0))
	}
	if p.Unshown > 0 {
		all[2], all[3] = p.window(p.Last()), p.window(p.Total()-1)
	}
	return all
}

// Call returns the address of a call; see Step.
func (p trialPage) Call(seq int) template.URL { return p.Step(callAnchor(seq)) }

const anchorSteps = "steps"

// Overview returns the address of the run's page.
func (p trialPage) Overview() template.URL { return p.Links.To(PathOverview) }

// Workspace is the changes to the agent's files.
type Workspace struct {
	changes.Tree
	Shown []FileView
	None  string // why they are unknown
}
