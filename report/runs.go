package report

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// PathRuns is the path of the page that lists runs.
const PathRuns = "runs"

// ServedRun returns the links to the pages of a run on a server.
func ServedRun(id string) Links { return Links{Base: "/runs/" + url.PathEscape(id)} }

// Runs returns the page that lists the newest runs in a directory.
func Runs(dir string, total int, newest []view.ListedRun) Page {
	p := runsPage{Dir: dir, Total: total}
	past := map[string][]float64{} // pass rates, by eval
	for _, run := range slices.Backward(newest) {
		if run.PassRate != nil {
			past[run.Eval] = append(past[run.Eval], *run.PassRate)
		}
		rates := past[run.Eval]
		p.Runs = append(p.Runs, listedRun{run, trend(slices.Clone(rates[max(0, len(rates)-maxTrend):]))})
	}
	slices.Reverse(p.Runs)
	return Page{ID: PathRuns, Title: "Runs", name: "runs", data: p}
}

type runsPage struct {
	Dir   string
	Total int
	Runs  []listedRun
}

type listedRun struct {
	view.ListedRun
	Trend trend
}

// maxTrend is the number of runs of an eval shown in a line.
const maxTrend = 20

// trend is a series of pass rates of an eval's runs, up to and including one of them. It is drawn as a line.
type trend []float64

// Dimensions of the line's picture, in pixels.
const (
	trendWide, trendHigh = 96, 20
	trendMargin          = 3
	leastTrend           = 8 // number of runs that fill the width
)

// at returns the position of one of the rates.
func (t trend) at(i int) (x, y float64) {
	x = trendWide - trendMargin - float64(len(t)-1-i)*(trendWide-2*trendMargin)/float64(max(len(t), leastTrend)-1)
	return x, trendMargin + (1-t[i])*(trendHigh-2*trendMargin)
}

// Points returns the points of the line in SVG notation.
func (t trend) Points() string {
	var all strings.Builder
	for i := range t {
		x, y := t.at(i)
		fmt.Fprintf(&all, "%.1f,%.1f ", x, y)
	}
	return strings.TrimSpace(all.String())
}

// X and Y return the position of the last rate.
func (t trend) X() float64 { x, _ := t.at(len(t) - 1); return x }
func (t trend) Y() float64 { _, y := t.at(len(t) - 1); return y }

// Said describes the line in words.
func (t trend) Said() string {
	said := "Pass rates of its runs up to this one:"
	for _, rate := range t {
		said += " " + percent(rate)
	}
	return said
}

// To returns the address of the run's first page, and Value the run's id in a form.
func (r listedRun) To() template.URL { return ServedRun(r.ID).To(PathOverview) }
func (r listedRun) Value() string    { return url.PathEscape(r.ID) }

// Mark returns the status of the run. A successful attack takes precedence over a pass.
func (r listedRun) Mark() Mark {
	word := string(r.State)
	switch {
	case r.State.Live():
		return outcomeOf(view.AtWork)
	case r.Problem != "":
		return Mark{"broke", word, "fail"}
	case r.State == view.StateInterrupted:
		return Mark{"infra", word, "infra"}
	case r.Attacked > 0 && r.Verdict == results.StatusPassed:
		return labeledInjectionMark(evidence.AttackSucceeded)
	}
	words := map[results.Status]string{results.StatusPassed: view.Passed, results.StatusFailed: view.Failed, results.StatusError: view.Incomplete}
	if word, known := words[r.Verdict]; known {
		return outcomeOf(word)
	}
	return outcomeOf(r.Verdict)
}

// Notice returns a page with a message.
func Notice(title, text string) Page {
	return Page{ID: "notice", Title: title, name: "notice", data: notice{title, text}}
}

type notice struct{ Title, Text string }

// AtWork returns the part of a page that shows the progress of a run.
func AtWork(p view.RunProgress, l Links) Page {
	return Page{ID: l.ID("now"), Title: "Now", name: "now", data: progressOf(p, l)}
}

// TrialAtWork returns the page of a trial that has not ended, and perhaps not started, in a
// live run.
func TrialAtWork(p view.RunProgress, task string, number int, l Links) Page {
	p.Trials = slices.DeleteFunc(p.Trials, func(t view.TrialProgress) bool { return t.Task != task || t.Number != number })
	now := progressOf(p, l)
	now.Only, now.Number = task, number
	return Page{ID: l.ID(TrialPath(task, number)), Title: TrialPath(task, number), name: "trial-now", data: now}
}

func progressOf(p view.RunProgress, l Links) progressPage {
	slices.SortStableFunc(p.Trials, func(a, b view.TrialProgress) int { return b.Since.Compare(a.Since) })
	return progressPage{RunProgress: p, Links: l}
}

type progressPage struct {
	view.RunProgress
	Links  Links
	Only   string // task of the only trial shown; empty for all
	Number int
}

// Counts returns how trials ended, and how many.
func (p progressPage) Counts() []view.End { return view.EndsOf(p.Outcomes) }

// Overview returns the address of the run's page.
func (p progressPage) Overview() template.URL { return p.Links.To(PathOverview) }

// Limits on the trials that a page contains when it is loaded.
const (
	maxWorking = 256 // the maximum number of concurrent trials
	maxEnded   = 20
)

// Working returns trials in progress, and Ended the trials that ended last.
func (p progressPage) Working() []view.TrialProgress { return p.some(false, maxWorking) }
func (p progressPage) Ended() []view.TrialProgress   { return p.some(true, maxEnded) }

func (p progressPage) some(ended bool, most int) []view.TrialProgress {
	all := slices.DeleteFunc(slices.Clone(p.Trials), func(t view.TrialProgress) bool { return t.Ended() != ended })
	return all[:min(len(all), most)]
}

// File is a file of a trial on a server.
type File struct {
	To    template.URL
	Name  string // path relative to the trial's directory
	Bytes int64
}

// Files returns the part of a page with links to files.
func Files(all []File) Page { return Page{ID: "files", Title: "Files", name: "files", data: all} }
