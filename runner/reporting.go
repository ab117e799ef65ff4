package runner

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/report/junit"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Files of a run directory that are made of its results.
const (
	ReportFile = "report.html"
	JUnitFile  = "junit.xml"
)

// Report writes the report of the run in dir and its junit.xml, from the results that
// [WriteResults] has computed. Where one cannot be written, the other is.
func (r Record) Report(dir string, computed results.Results) error {
	write := func(name string, write func(io.Writer) error) error {
		if err := evidence.WriteFileBy(filepath.Join(dir, name), write); err != nil {
			return fmt.Errorf("%s is not written: %w", name, err)
		}
		return nil
	}
	return errors.Join(
		write(JUnitFile, func(w io.Writer) error { return junit.Write(w, computed) }),
		write(ReportFile, func(w io.Writer) error { return writeReport(w, []view.Run{r.View(dir, computed)}) }),
	)
}

// conclude writes the results and the reports of the run in dir, and seals it.
func (r Record) conclude(dir string, done []Result, seal func(dir string) error) (out Outcome, err error) {
	out = Outcome{Dir: dir, Record: r, Trials: done}
	if out.Results, err = WriteResults(dir, r); err != nil {
		return out, err
	}
	err = errors.Join(r.Report(dir, out.Results), seal(dir))
	out.Written = err == nil
	return out, err
}

// ReportInto writes the reports of the ended run in dir into it, from what is there: nothing
// is graded again. It warns of evidence that is missing.
func ReportInto(dir string, warn func(error)) error {
	record, held, err := takeEnded(dir)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	WarnOfGone(dir, record, warn)
	run, err := ViewOf(dir, record)
	if err != nil {
		return err
	}
	return errors.Join(record.Report(dir, run.Results), record.Reseal(dir))
}

// WriteReport writes the report of the runs in the directories dirs as one file of HTML:
// where they are several, side by side. It writes nothing to them, and does not need the
// runs to have ended. It holds what figures need of all runs, and one trial at a time.
func WriteReport(w io.Writer, dirs []string) error {
	var runs []view.Run
	for _, dir := range dirs {
		record, err := ReadRecord(dir)
		if err != nil {
			return err
		}
		run, err := ViewOf(dir, record)
		if err != nil {
			return err
		}
		runs = append(runs, run)
	}
	return writeReport(w, runs)
}

// ViewOf returns what is shown of the run in dir, whose record is r: results over the trials
// that have verdicts. It writes nothing, and does not need the run to have ended.
func ViewOf(dir string, r Record) (view.Run, error) {
	computed, err := computeResults(dir, r)
	if err != nil {
		return view.Run{}, err
	}
	run := r.View(dir, computed)
	run.AtWork = r.Ended.IsZero() && Held(dir)
	return run, nil
}

// View returns what is shown of the run in dir, given its results.
func (r Record) View(dir string, computed results.Results) view.Run {
	run := view.Run{
		Dir: dir, ID: r.ID, Eval: r.Eval.Path, EvalSHA256: r.Eval.SHA256, Waza: r.Waza, Build: r.Build,
		Started: r.Started, Ended: r.Ended, Interrupted: r.Interrupted, FailFast: r.FailFast, Planned: r.Planned(),
		Isolated: r.Isolated, Network: r.Network, Guarantees: r.Guarantees, Certificate: r.Certificate, Engine: r.Engine,
		Made: r.Settings(), Results: computed,
	}
	for _, ref := range slices.Sorted(maps.Keys(r.Images)) {
		run.Images = append(run.Images, view.Image{Ref: ref, ID: r.Images[ref].ID})
	}
	for _, path := range slices.Sorted(maps.Keys(r.Inputs)) {
		run.Inputs = append(run.Inputs, view.Input{Path: path, SHA256: r.Inputs[path]})
	}
	return run
}

// maxServersInNav is how many runs at most have a link to their servers at the top of
// each page. Each overview has one.
const maxServersInNav = 3

func writeReport(w io.Writer, runs []view.Run) error {
	if len(runs) == 0 {
		return errors.New("runner: no run to report")
	}
	document := report.Document{Title: runs[0].Results.EvalName, Note: notes(runs), Paged: true}
	links := linksOf(runs)
	if len(runs) > 1 {
		document.Title = fmt.Sprintf("%d runs", len(runs))
		document.Nav = append(document.Nav, navItem("Comparison", report.PathCompare, report.Links{InFile: true}))
	}
	for i, l := range links {
		overview, servers := "Overview", "Servers"
		if len(runs) > 1 {
			overview, servers = fmt.Sprintf("Run %d", i+1), fmt.Sprintf("Servers %d", i+1)
		}
		document.Nav = append(document.Nav, navItem(overview, report.PathOverview, l))
		if len(runs) <= maxServersInNav {
			document.Nav = append(document.Nav, navItem(servers, report.PathServers, l))
		}
	}
	return document.Write(w, reportPages(runs, links))
}

func navItem(text, path string, l report.Links) report.NavItem {
	return report.NavItem{Text: text, Path: l.ID(path), To: l.To(path)}
}

// linksOf are the links of each of the runs of a file.
func linksOf(runs []view.Run) []report.Links {
	links := make([]report.Links, len(runs))
	for i := range links {
		links[i].InFile = true
		if len(runs) > 1 {
			links[i].Run = i + 1
		}
	}
	return links
}

// notes says which of the runs are not complete.
func notes(runs []view.Run) string {
	var all string
	for i, run := range runs {
		note := unfinished(run)
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

// unfinished says in a sentence that a run has not ended, or not as it was to; empty where
// it has.
func unfinished(run view.Run) string {
	trials := fmt.Sprintf("%d of %d trials have an outcome.", run.Trials(), run.Planned)
	switch {
	case run.AtWork:
		return "The run is at work: " + trials
	case run.Ended.IsZero():
		return "The run has not come to its end: " + trials
	case run.Interrupted:
		return "The run was interrupted: " + trials
	case run.Trials() < run.Planned:
		return "The run ended early: " + trials
	}
	return ""
}

// reportPages are the comparison where there are several runs, and then each run's pages.
func reportPages(runs []view.Run, links []report.Links) iter.Seq2[report.Page, error] {
	return func(yield func(report.Page, error) bool) {
		if len(runs) > 1 && !yield(report.Comparison(compareRuns(runs), runs, links), nil) {
			return
		}
		trials := 0
		for _, run := range runs {
			trials += run.Trials()
		}
		most := report.Share(trials)
		for i, run := range runs {
			for page, err := range pagesOf(run, links[i], most) {
				if !yield(page, err) || err != nil {
					return
				}
			}
		}
	}
}

func compareRuns(runs []view.Run) results.Comparison {
	var entries []results.Entry
	for _, run := range runs {
		entries = append(entries, results.Entry{Outline: run.Results.Outline(), Path: run.Dir, Made: run.Made})
	}
	return results.Compare(entries)
}

func pagesOf(run view.Run, links report.Links, most report.Bounds) iter.Seq2[report.Page, error] {
	return func(yield func(report.Page, error) bool) {
		if !yield(report.Overview(run, links), nil) || !yield(report.Servers(run, links), nil) {
			return
		}
		for _, task := range run.Results.Tasks {
			for _, result := range task.Runs {
				page, err := trialPage(run.Dir, task.TestID, result.RunNumber, links, most)
				if !yield(page, err) || err != nil {
					return
				}
			}
		}
	}
}

func trialPage(dir, task string, number int, links report.Links, most report.Bounds) (report.Page, error) {
	trial, err := report.ReadTrial(TrialDir(dir, task, number), most)
	if err != nil {
		return report.Page{}, fmt.Errorf("trial %s/%d: %w", task, number, err)
	}
	trial.Dir = string(TrialDir("", task, number))
	return report.OfTrial(trial, links), nil
}
