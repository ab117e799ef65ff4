package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
)

// maxListed is how many runs a page lists.
const maxListed = 1000

// linksOf leads to the pages of a run.
func linksOf(id string) report.Links { return report.Links{Base: "/runs/" + url.PathEscape(id)} }

func (s *Server) listPage(w http.ResponseWriter, r *http.Request) {
	runs, err := s.index.list()
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	l := report.Listing{Dir: s.index.dir, Total: len(runs)}
	for _, run := range runs[:min(len(runs), maxListed)] {
		l.Runs = append(l.Runs, listed(run))
	}
	s.show(w, "waza runs", "", nil, report.One(report.Runs(l)))
}

func listed(r Run) report.ListedRun {
	l := report.ListedRun{
		ID: r.ID, Value: url.PathEscape(r.ID), Eval: r.Eval, Agent: r.Agent, Model: r.Model, State: string(r.State), Live: r.live(), Problem: r.Problem,
		Started: r.Started, Took: r.Ended.Sub(r.Started), HasEnded: !r.Ended.IsZero(), Isolated: r.Isolated,
		Verdict: string(r.Verdict), Tasks: r.Tasks, Passed: r.Passed, Attacked: r.Attacked > 0, PassRate: r.PassRate, Planned: r.Planned, Done: r.Done,
	}
	l.To = linksOf(r.ID).To(report.PathOverview)
	return l
}

func (s *Server) toOverview(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Location", string(linksOf(r.PathValue("id")).To(report.PathOverview)))
	w.WriteHeader(http.StatusSeeOther)
}

func (s *Server) overviewPage(w http.ResponseWriter, r *http.Request) {
	run, err := s.index.find(r.PathValue("id"))
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	links, live := linksOf(run.ID), ""
	var pages []report.Page
	if run.live() {
		live = links.Base + "/events"
		page, err := s.livePage(run, links)
		if err != nil {
			s.denyFor(w, r, err)
			return
		}
		pages = append(pages, page)
	} else if run.Problem != "" {
		pages = append(pages, report.Notice(run.ID, "This run cannot be read whole. "+run.Problem))
	}
	if run.Planned > 0 {
		shown, err := s.index.shown(run)
		if err != nil {
			s.denyFor(w, r, err)
			return
		}
		pages = append(pages, report.Overview(shown, links))
	}
	s.show(w, titleOf(run), live, nav(links), all(pages))
}

// all are pages in their order.
func all(pages []report.Page) iter.Seq2[report.Page, error] {
	return func(yield func(report.Page, error) bool) {
		for _, p := range pages {
			if !yield(p, nil) {
				return
			}
		}
	}
}

func titleOf(run Run) string {
	if run.Eval == "" {
		return run.ID
	}
	return run.Eval
}

func (s *Server) serversPage(w http.ResponseWriter, r *http.Request) {
	run, err := s.index.find(r.PathValue("id"))
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	shown, err := s.index.shown(run)
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	links := linksOf(run.ID)
	s.show(w, titleOf(run), "", nav(links), report.One(report.Servers(shown, links)))
}

func (s *Server) trialPage(w http.ResponseWriter, r *http.Request) {
	run, err := s.index.find(r.PathValue("id"))
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	at, within, err := s.trialDir(run.ID, r.PathValue("task"), r.PathValue("number"))
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	trial, err := report.ReadTrial(at, report.Share(1))
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	trial.Dir = within
	links := linksOf(run.ID)
	pages := []report.Page{report.OfTrial(trial, links), report.Files(linked(run.ID, at, within))}
	s.show(w, titleOf(run), "", nav(links), all(pages))
}

// linked leads to the files of a trial.
func linked(run string, at evidence.Dir, within string) (files []report.File) {
	for _, f := range filesOf(at, within) {
		files = append(files, report.File{
			To: linksOf(run).To("files/" + f.Path), Name: strings.TrimPrefix(f.Path, within+"/"), Bytes: f.Bytes,
		})
	}
	return files
}

// trialDir returns where the evidence of a trial that has ended lies, also as a path from
// the run's directory.
func (s *Server) trialDir(run, task, numbered string) (at evidence.Dir, within string, err error) {
	n, ok := number(numbered)
	if !ok || !isName(task) {
		return "", "", errNotThere
	}
	dir, err := s.index.at(run)
	if err != nil {
		return "", "", err
	}
	within = trialPath(plan.TrialID{Task: task, Number: n})
	whole := filepath.Join(dir, filepath.FromSlash(within))
	if _, err := os.Lstat(whole); err != nil {
		return "", "", missing(err)
	}
	file, err := evidence.Open(dir, filepath.Join(within, evidence.VerdictsFile)) // which follows no link on the way
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", errNotEnded
	case err != nil:
		return "", "", missing(err)
	}
	return evidence.Dir(whole), within, errors.Join(file.Close(), evidence.CheckPlain(whole))
}

var errNotEnded = errors.New("the trial has not ended")

// nav leads from every page of a run to the others.
func nav(links report.Links) []report.NavItem {
	return []report.NavItem{
		{Text: "Overview", Path: report.PathOverview, To: links.To(report.PathOverview)},
		{Text: "Servers", Path: report.PathServers, To: links.To(report.PathServers)},
	}
}

func (s *Server) show(w http.ResponseWriter, title, live string, items []report.NavItem, pages iter.Seq2[report.Page, error]) {
	s.showAs(w, http.StatusOK, title, live, items, pages)
}

func (s *Server) showAs(w http.ResponseWriter, status int, title, live string, items []report.NavItem, pages iter.Seq2[report.Page, error]) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	runs := report.NavItem{Text: "All runs", Path: report.PathRuns, To: "/"}
	d := report.Document{Title: title, Live: live, Served: true, Nav: append([]report.NavItem{runs}, items...)}
	_ = d.Write(w, pages) // who asked has gone, or takes too long
}

// maxCompared is how many runs are held side by side.
const maxCompared = 8

func (s *Server) comparePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ids := append(slices.Clone(q["a"]), q["b"]...)
	for _, ticked := range q["run"] { // names as the list has them, which hold nothing that could be taken otherwise
		id, err := url.PathUnescape(ticked)
		if err != nil {
			s.denyFor(w, r, errNotThere)
			return
		}
		ids = append(ids, id)
	}
	comparison, runs, err := s.compare(ids)
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	var links []report.Links
	for _, id := range ids {
		links = append(links, linksOf(id))
	}
	s.show(w, "Comparison", "", nil, report.One(report.Comparison(comparison, runs, links)))
}

// compare holds runs against the first of them, each by its trials that have verdicts.
func (s *Server) compare(ids []string) (c results.Comparison, shown []view.Run, err error) {
	if len(ids) < 2 || len(ids) > maxCompared {
		return c, nil, &badRequest{fmt.Sprintf("Name from 2 to %d runs to compare.", maxCompared)}
	}
	var entries []results.Entry
	for _, id := range ids {
		run, err := s.index.find(id)
		if err != nil {
			return c, nil, err
		}
		entry := results.Entry{Path: id, Error: run.Problem}
		if entry.Outline, err = s.outline(run); err != nil {
			entry.Error = problemWith(runner.ResultsFile, err)
		}
		one, err := s.index.shown(run)
		if err != nil {
			return c, nil, err
		}
		entry.Made = one.Made
		entries, shown = append(entries, entry), append(shown, one)
	}
	return results.Compare(entries), shown, nil
}

// outline is a run in figures; that of one which has no results is what its record says.
func (s *Server) outline(run Run) (results.Outline, error) {
	empty := results.Outline{EvalName: run.Eval, Agent: run.Agent, Model: run.Model, Isolated: run.Isolated}
	file, err := s.index.open(run.ID, runner.ResultsFile)
	if err != nil {
		return empty, err
	}
	defer func() { _ = file.Close() }()
	outline, err := results.ReadOutline(file)
	if err != nil {
		return empty, err
	}
	return outline, nil
}

// Of trials that a page has as it is loaded.
const (
	maxWorkingShown = 256 // as many as work at once
	maxEndedShown   = 20
)

// livePage is the part of a page that shows how a run stands.
func (s *Server) livePage(run Run, links report.Links) (report.Page, error) {
	p, err := s.watches.progress(run.ID)
	if err != nil {
		return report.Page{}, err
	}
	now := report.Now{Links: links, State: string(p.State), Planned: p.Planned, Done: p.Done, Elapsed: milliseconds(p.ElapsedMS)}
	if p.LeftMS != nil {
		now.Left = milliseconds(*p.LeftMS)
	}
	for _, outcome := range slices.Sorted(maps.Keys(p.Outcomes)) {
		now.Outcomes = append(now.Outcomes, report.CountOf{Outcome: string(outcome), Count: p.Outcomes[outcome]})
	}
	slices.SortStableFunc(p.Trials, func(a, b TrialProgress) int { return b.Since.Compare(a.Since) })
	for _, t := range p.Trials {
		if t.ended() && len(now.Ended) < maxEndedShown {
			now.Ended = append(now.Ended, report.EndedTrial{Task: t.Task, Number: t.Number, Outcome: string(t.Outcome), Message: t.Message})
		}
		if !t.ended() && len(now.Working) < maxWorkingShown {
			now.Working = append(now.Working, working(t))
		}
	}
	return report.AtWork(now), nil
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func working(t TrialProgress) report.WorkingTrial {
	w := report.WorkingTrial{Task: t.Task, Number: t.Number, Attempt: t.Attempt, Phase: t.Phase, Since: t.Since}
	if t.Call != nil {
		w.Call = t.Call.Server + " " + t.Call.Tool
	}
	return w
}
