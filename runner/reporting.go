package runner

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/report"
)

// Reported is what is shown of the run in dir, whose record is r: results over the trials
// that have verdicts. It writes nothing, and does not need the run to have ended.
func Reported(dir string, r Record) (report.Run, error) {
	run, _, err := reported(dir, r)
	return run, err
}

func reported(dir string, r Record) (report.Run, map[TrialID]evidence.Dir, error) {
	computed, found, err := compute(dir, r)
	if err != nil {
		return report.Run{}, nil, err
	}
	run := report.Run{
		Dir: dir, ID: r.ID, Eval: r.Eval.Path, EvalSHA256: r.Eval.SHA256, Waza: r.Waza, Build: r.Build,
		Started: r.Started, Ended: r.Ended, Interrupted: r.Interrupted, Planned: r.Planned(),
		Isolated: r.Isolated, Network: r.Network, Guarantees: r.Guarantees, Certificate: r.Certificate, Engine: r.Engine,
		Results: computed,
	}
	for _, ref := range slices.Sorted(maps.Keys(r.Images)) {
		run.Images = append(run.Images, report.Image{Ref: ref, ID: r.Images[ref].ID})
	}
	for _, path := range slices.Sorted(maps.Keys(r.Inputs)) {
		run.Inputs = append(run.Inputs, report.Input{Path: path, SHA256: r.Inputs[path]})
	}
	return run, found, nil
}

// WriteReport writes the report of the run in dir as one file of HTML, and holds one
// trial at a time.
func WriteReport(w io.Writer, dir string) error {
	record, err := ReadRecord(dir)
	if err != nil {
		return err
	}
	run, found, err := reported(dir, record)
	if err != nil {
		return err
	}
	links := report.Links{InFile: true}
	document := report.Document{Title: run.Results.EvalName, Paged: true, Nav: []report.NavItem{
		{Text: "Overview", Path: report.PathOverview, To: links.To(report.PathOverview)},
		{Text: "Servers", Path: report.PathServers, To: links.To(report.PathServers)},
	}}
	return document.Write(w, reportPages(dir, run, found, links))
}

func reportPages(dir string, run report.Run, found map[TrialID]evidence.Dir, links report.Links) iter.Seq2[report.Page, error] {
	return func(yield func(report.Page, error) bool) {
		if !yield(report.Overview(run, links), nil) || !yield(report.Servers(run, links), nil) {
			return
		}
		most := report.Share(run.Trials())
		for _, task := range run.Results.Tasks {
			for _, result := range task.Runs {
				page, err := trialPage(dir, found[TrialID{Task: task.TestID, Number: result.RunNumber}], links, most)
				if !yield(page, err) || err != nil {
					return
				}
			}
		}
	}
}

func trialPage(dir string, at evidence.Dir, links report.Links, most report.Bounds) (report.Page, error) {
	trial, err := report.ReadTrial(at, most)
	if err != nil {
		return report.Page{}, fmt.Errorf("report: %w", err)
	}
	if trial.Dir, err = filepath.Rel(dir, string(at)); err != nil {
		return report.Page{}, err
	}
	return report.OfTrial(trial, links), nil
}
