package report

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// maxServersInNav is the maximum number of runs with a link to their servers at the top of
// each page. Each overview has one too.
const maxServersInNav = 3

// Write writes the report of runs as one HTML file. trialDir returns the directories of
// trials. It holds one trial in memory at a time.
func Write(w io.Writer, runs []view.Run, trialDir func(run, task string, number int) evidence.Dir) error {
	if len(runs) == 0 {
		return errors.New("report: no run to report")
	}
	f := file{runs, linksOf(runs), trialDir}
	document := Document{Title: runs[0].Results.EvalName, Note: notes(runs), Paged: true}
	if len(runs) > 1 {
		document.Title = fmt.Sprintf("%d runs", len(runs))
		document.Nav = append(document.Nav, navItem("Comparison", PathCompare, Links{InFile: true}))
	}
	for i, l := range f.links {
		overview, servers := "Overview", "Servers"
		if len(runs) > 1 {
			overview, servers = fmt.Sprintf("Run %d", i+1), fmt.Sprintf("Servers %d", i+1)
		}
		document.Nav = append(document.Nav, navItem(overview, PathOverview, l))
		if len(runs) <= maxServersInNav {
			document.Nav = append(document.Nav, navItem(servers, PathServers, l))
		}
	}
	return document.Write(w, f.pages())
}

func navItem(text, path string, l Links) NavItem {
	return NavItem{Text: text, Path: l.ID(path), To: l.To(path)}
}

// file is a report in one file.
type file struct {
	runs     []view.Run
	links    []Links // of each run
	trialDir func(run, task string, number int) evidence.Dir
}

// linksOf returns the links of each run in a file.
func linksOf(runs []view.Run) []Links {
	links := make([]Links, len(runs))
	for i := range links {
		links[i].InFile = true
		if len(runs) > 1 {
			links[i].Run = i + 1
		}
	}
	return links
}

// notes returns a text about the runs that lack trials.
func notes(runs []view.Run) string {
	var all string
	for i, run := range runs {
		note := run.MissingSentence()
		if note == "" {
			continue
		}
		if len(runs) > 1 {
			note = fmt.Sprintf("Run %d: %s", i+1, note)
		}
		if all != "" {
			all += " "
		}
		all += note
	}
	return all
}

// pages yields the comparison, if there are several runs, and each run's pages.
func (f file) pages() iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		trial := func(run int, task string, number int) (evidence.Dir, error) {
			return f.trialDir(f.runs[run].Dir, task, number), nil
		}
		if len(f.runs) > 1 && !yield(Comparison(compareRuns(f.runs), f.runs, f.links, trial), nil) {
			return
		}
		trials := 0
		for _, run := range f.runs {
			trials += run.Trials()
		}
		most, shown := Share(trials), f.shown()
		var left []leftOut
		for i, run := range f.runs {
			has := func(task string, number int) bool {
				l := leftOut{task, number, f.links[i]}
				if !shown[l.ID()] {
					left = append(left, l)
				}
				return shown[l.ID()]
			}
			for page, err := range f.pagesOf(run, f.links[i], most, has) {
				if !yield(page, err) || err != nil {
					return
				}
			}
		}
		if len(left) > 0 {
			yield(Page{ID: "left-out", Title: "Not in this file", name: "left-out", data: left}, nil)
		}
	}
}

// leftOut is a trial without a page in the file. Links to its page lead to its name on the last page instead.
type leftOut struct {
	Task   string
	Number int
	Links  Links
}

// ID returns the id that the trial's page would have.
func (l leftOut) ID() string { return l.Links.ID(TrialPath(l.Task, l.Number)) }

// shown returns the ids of the trials that have a page. Trials that did not pass take
// precedence.
func (f file) shown() map[string]bool {
	shown := map[string]bool{}
	for _, passed := range []bool{false, true} {
		for i, run := range f.runs {
			for _, task := range run.Results.Tasks {
				for _, result := range task.Runs {
					if (result.Outcome == evidence.ClassPass) == passed && len(shown) < maxTrials {
						shown[leftOut{task.TestID, result.RunNumber, f.links[i]}.ID()] = true
					}
				}
			}
		}
	}
	return shown
}

func compareRuns(runs []view.Run) results.Comparison {
	var entries []results.Entry
	for _, run := range runs {
		entries = append(entries, results.Entry{Outline: run.Results.Outline(), Path: run.Dir, Made: run.Made})
	}
	return results.Compare(entries)
}

// pagesOf yields the pages of one run, with the trials for which has returns true.
func (f file) pagesOf(run view.Run, links Links, most Bounds, has func(task string, number int) bool) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		if !yield(Overview(run, links), nil) || !yield(Servers(run, links), nil) {
			return
		}
		for _, task := range run.Results.Tasks {
			for _, result := range task.Runs {
				if !has(task.TestID, result.RunNumber) {
					continue
				}
				page, err := f.trialPage(run, task.TestID, result.RunNumber, links, most)
				if !yield(page, err) || err != nil {
					return
				}
			}
		}
	}
}

func (f file) trialPage(run view.Run, task string, number int, links Links, most Bounds) (Page, error) {
	trial, err := ReadTrial(f.trialDir(run.Dir, task, number), most)
	if err != nil {
		return Page{}, fmt.Errorf("trial %s/%d: %w", task, number, err)
	}
	trial.Within(run, string(f.trialDir("", task, number)))
	return OfTrial(trial, links), nil
}
