package report

import (
	"html/template"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// PathRuns is the path of the page that lists runs.
const PathRuns = "runs"

// Listing is the runs that a directory holds.
type Listing struct {
	Dir   string
	Total int
	Runs  []ListedRun // the newest of them
}

// ListedRun is a run in a list.
type ListedRun struct {
	To       template.URL
	ID       string // its directory's name
	Value    string // that in a form
	Eval     string
	Agent    string
	Model    string
	State    string
	Live     bool   // somebody is at work on it
	Problem  string // what of it cannot be read, in a sentence
	Started  time.Time
	Took     time.Duration
	HasEnded bool
	Isolated bool
	Verdict  string
	Tasks    int
	Passed   int      // tasks
	Attacked bool     // an attack succeeded
	PassRate *float64 // of trials
	Planned  int      // trials
	Done     int      // of these, of a run that has not ended
}

// Mark is how the run stands; one in which an attack succeeded did not simply pass.
func (r ListedRun) Mark() Mark {
	switch {
	case r.Live:
		return Mark{"timeout", r.State, "warn"}
	case r.Problem != "":
		return Mark{"broke", r.State, "fail"}
	case r.State == "interrupted":
		return Mark{"infra", r.State, "infra"}
	case r.Attacked && r.Verdict == string(results.StatusPassed):
		return attackedMark(evidence.AttackSucceeded)
	}
	return outcomeOf(r.Verdict)
}

// Runs is the page that lists runs.
func Runs(l Listing) Page { return Page{ID: PathRuns, Title: "Runs", name: "runs", data: l} }

// Notice is a page that says one thing.
func Notice(title, text string) Page {
	return Page{ID: "notice", Title: title, name: "notice", data: notice{title, text}}
}

type notice struct{ Title, Text string }

// Now is how a run stands that is at work.
type Now struct {
	Links    Links
	State    string
	Planned  int
	Done     int
	Elapsed  time.Duration
	Left     time.Duration // 0 where it is not known
	Outcomes []CountOf
	Working  []WorkingTrial
	Ended    []EndedTrial // those that ended last, the last one first
}

// CountOf is how many trials have an outcome.
type CountOf struct {
	Outcome string
	Count   int
}

// WorkingTrial is a trial that has begun and not ended.
type WorkingTrial struct {
	Task    string
	Number  int
	Attempt int
	Phase   string
	Call    string // what it calls: SERVER TOOL; empty where it does not
	Since   time.Time
}

// EndedTrial is a trial that has ended.
type EndedTrial struct {
	Task    string
	Number  int
	Outcome string
	Message string
}

// Trial is where a trial's page is.
func (n Now) Trial(task string, number int) template.URL {
	return n.Links.To(TrialPath(task, number))
}

// AtWork returns the part of a page that shows the progress of a run, which events update.
func AtWork(n Now) Page { return Page{ID: n.Links.ID("now"), Title: "Now", name: "now", data: n} }

// File is a file of a trial, on a server.
type File struct {
	To    template.URL
	Name  string // its path from the trial's directory
	Bytes int64
}

// Files is the part of a page that leads to files as they are.
func Files(all []File) Page { return Page{ID: "files", Title: "Files", name: "files", data: all} }
