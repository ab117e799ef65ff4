package serve

import (
	"cmp"
	"errors"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// page is an HTML document of one or more report pages.
type page struct {
	title string
	nav   []report.NavItem
	pages []report.Page
	again int // seconds after which the browser loads it again; 0 for never
}

// pageOf returns a document of a run.
func pageOf(run view.ListedRun, pages ...report.Page) page {
	links := report.ServedRun(run.ID)
	return page{title: cmp.Or(run.Eval, run.ID), pages: pages, nav: []report.NavItem{
		{Text: "Overview", Path: report.PathOverview, To: links.To(report.PathOverview)},
		{Text: "Servers", Path: report.PathServers, To: links.To(report.PathServers)},
	}}
}

func (p page) send(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if p.again > 0 {
		w.Header().Set("Refresh", strconv.Itoa(p.again))
	}
	w.WriteHeader(status)
	runs := report.NavItem{Text: "All runs", Path: report.PathRuns, To: "/"}
	d := report.Document{Title: p.title, Served: true, Nav: append([]report.NavItem{runs}, p.nav...)}
	_ = d.Write(w, p.all) // an error means that the client disconnected or is too slow
}

// all yields the document's pages.
func (p page) all(yield func(report.Page, error) bool) {
	for _, one := range p.pages {
		if !yield(one, nil) {
			return
		}
	}
}

// refresh is the number of seconds after which the page of something in progress is loaded again.
const refresh = 2

// maxListed is the maximum number of runs on a page.
const maxListed = 1000

func (s *Server) listPage(*http.Request) (page, error) {
	runs, err := s.runs.list()
	if err != nil {
		return page{}, err
	}
	return page{title: "waza runs", pages: []report.Page{report.Runs(s.runs.dir, len(runs), runs[:min(len(runs), maxListed)])}}, nil
}

func toOverview(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Location", string(report.ServedRun(r.PathValue("id")).To(report.PathOverview)))
	w.WriteHeader(http.StatusSeeOther)
	return nil
}

// find returns the run that a request names, and its view.
func (s *Server) find(r *http.Request) (view.ListedRun, view.Run, error) {
	run, err := s.runs.find(r.PathValue("id"))
	if err != nil {
		return run, view.Run{}, err
	}
	shown, err := s.runs.shown(run)
	return run, shown, err
}

func (s *Server) overviewPage(r *http.Request) (page, error) {
	began := time.Now()
	run, shown, err := s.find(r)
	if err != nil {
		return page{}, err
	}
	links, p := report.ServedRun(run.ID), pageOf(run)
	if run.State.Live() {
		now := s.runs.progress(run)
		p.again = refresh + 10*int(time.Since(began).Seconds()) // reading the evidence of a large run takes long
		if run.Planned > 0 {
			p.pages = append(p.pages, report.LiveOverview(shown, now, links))
		} else {
			p.pages = append(p.pages, report.AtWork(now, links))
		}
		return p, nil
	}
	if run.Problem != "" {
		p.pages = append(p.pages, report.Notice(run.ID, "This run cannot be read whole. "+run.Problem))
	}
	if run.Planned > 0 {
		p.pages = append(p.pages, report.Overview(shown, links))
	}
	return p, nil
}

func (s *Server) serversPage(r *http.Request) (page, error) {
	run, shown, err := s.find(r)
	return pageOf(run, report.Servers(shown, report.ServedRun(run.ID))), err
}

func (s *Server) trialPage(r *http.Request) (page, error) {
	at, within, err := s.trialDir(r.PathValue("id"), r.PathValue("task"), r.PathValue("number"))
	if errors.Is(err, errNotThere) || errors.Is(err, errNotEnded) {
		return s.trialAtWork(r, err)
	}
	if err != nil {
		return page{}, err
	}
	run, err := s.runs.find(r.PathValue("id"))
	if err != nil {
		return page{}, err
	}
	q := r.URL.Query()
	from := 1
	if text := q.Get("from"); text != "" {
		if from, err = strconv.Atoi(text); err != nil || from < 1 {
			return page{}, badRequest("from must be the number of a step.")
		}
	}
	trial, err := report.ReadTrial(at, report.Windowed(report.Window{From: from - 1, At: q.Get("at"), Find: text.Shorten(q.Get("find"), maxWord)}))
	if err != nil {
		return page{}, err
	}
	shown, err := s.runs.shown(run)
	if err != nil {
		shown = view.Run{Dir: run.ID}
	}
	trial.Within(shown, within)
	return pageOf(run, report.OfTrial(trial, report.ServedRun(run.ID)), report.Files(linked(run.ID, at, within))), nil
}

// trialAtWork returns the page of a trial that has not ended, at its final address. It
// returns missing if there is no such trial or the run is not live.
func (s *Server) trialAtWork(r *http.Request, missing error) (page, error) {
	run, err := s.runs.find(r.PathValue("id"))
	if err != nil || !run.State.Live() {
		return page{}, missing
	}
	dir, err := s.runs.at(run.ID)
	if err != nil {
		return page{}, err
	}
	record, err := runner.ReadRecord(dir)
	if err != nil {
		return page{}, missing
	}
	now := s.runs.progress(run)
	task, links := r.PathValue("task"), report.ServedRun(run.ID)
	number, _ := strconv.Atoi(r.PathValue("number")) // parsed by trialDir before
	planned := slices.ContainsFunc(record.Tasks, func(t runner.TaskRecord) bool {
		return t.ID == task && number >= 1 && number <= record.TrialsOf(t)
	})
	ended := slices.ContainsFunc(now.Trials, func(t view.TrialProgress) bool { return t.Task == task && t.Number == number && t.Ended() })
	if !planned || ended {
		return page{}, missing
	}
	p := pageOf(run, report.TrialAtWork(now, task, number, links))
	p.again = refresh
	return p, nil
}

// maxFiles is the maximum number of a trial's files on its page.
const maxFiles = 1000

// linked returns links to the first files of a trial. within is the path of the trial in its run's
// directory.
func linked(run string, at evidence.Dir, within string) (all []report.File) {
	_ = filepath.WalkDir(string(at), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), "."):
			return nil
		case len(all) == maxFiles:
			return fs.SkipAll
		}
		if info, err := entry.Info(); err == nil {
			name, _ = filepath.Rel(string(at), name)
			name = filepath.ToSlash(name)
			all = append(all, report.File{To: report.ServedRun(run).To("files/" + path.Join(within, name)), Name: name, Bytes: info.Size()})
		}
		return nil
	})
	return all
}

// maxShown is the size up to which a browser shows a file; larger ones are downloaded.
const maxShown = 8 << 20

// file serves a file of a run. Browsers show it as text or download it, but never interpret
// it as HTML.
func (s *Server) file(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("path")
	file, err := s.runs.openFile(r.PathValue("id"), name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if info.Size() > maxShown || strings.HasSuffix(name, ".tar") {
		h.Set("Content-Type", "application/octet-stream")
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	}
	http.ServeContent(w, r, "", time.Time{}, file)
	return nil
}

// trialDir returns the evidence of a trial, which must have ended, and its path in the
// run's directory.
func (s *Server) trialDir(id, task, number string) (at evidence.Dir, within string, err error) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || strconv.Itoa(n) != number || !isName(task) {
		return "", "", errNotThere
	}
	dir, err := s.runs.at(id)
	if err != nil {
		return "", "", err
	}
	within = trialPath(evidence.TrialID{Task: task, Number: n})
	whole := filepath.Join(dir, filepath.FromSlash(within))
	if _, err := os.Lstat(whole); err != nil {
		return "", "", missing(err)
	}
	file, err := evidence.Open(dir, filepath.Join(within, evidence.VerdictsFile)) // follows no link
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", "", errNotEnded
	case err != nil:
		return "", "", missing(err)
	}
	return evidence.Dir(whole), within, errors.Join(file.Close(), evidence.CheckPlain(whole))
}

// maxCompared is the maximum number of runs in a comparison.
const maxCompared = 8

func (s *Server) comparePage(r *http.Request) (page, error) {
	q := r.URL.Query()
	ids := append(slices.Clone(q["a"]), q["b"]...)
	for _, ticked := range q["run"] { // escaped, as in the list of runs
		id, err := url.PathUnescape(ticked)
		if err != nil {
			return page{}, errNotThere
		}
		ids = append(ids, id)
	}
	comparison, runs, err := s.compare(ids)
	var links []report.Links
	for _, id := range ids {
		links = append(links, report.ServedRun(id))
	}
	trial := func(run int, task string, number int) (evidence.Dir, error) {
		at, _, err := s.trialDir(ids[run], task, strconv.Itoa(number))
		return at, err
	}
	return page{title: "Comparison", pages: []report.Page{report.Comparison(comparison, runs, links, trial)}}, err
}

// compare compares runs with the first of them, by the trials that have verdicts.
func (s *Server) compare(ids []string) (c results.Comparison, shown []view.Run, err error) {
	if len(ids) < 2 || len(ids) > maxCompared {
		return c, nil, badRequest("Name from 2 to %d runs to compare.", maxCompared)
	}
	var entries []results.Entry
	for _, id := range ids {
		run, err := s.runs.find(id)
		if err != nil {
			return c, nil, err
		}
		entry := results.Entry{Path: id, Error: run.Problem}
		if entry.Outline, err = s.outline(run); err != nil {
			entry.Error = problemWith(runner.ResultsFile, err)
		}
		one, err := s.runs.shown(run)
		if err != nil {
			return c, nil, err
		}
		entry.Made = one.Made
		entries, shown = append(entries, entry), append(shown, one)
	}
	return results.Compare(entries), shown, nil
}

// outline returns a run's figures. If there are no results, it returns only the data of the run's record.
func (s *Server) outline(run view.ListedRun) (results.Outline, error) {
	empty := results.Outline{EvalName: run.Eval, OutlineConfig: results.OutlineConfig{Agent: run.Agent, Model: run.Model, Isolated: run.Isolated}}
	file, err := s.runs.openFile(run.ID, runner.ResultsFile)
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
