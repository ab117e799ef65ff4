package runner

import (
	"errors"
	"fmt"
	"io"
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

// output is a file of a run directory that is made of the run's results.
type output struct {
	name  string
	write func(io.Writer, view.Run) error
}

// outputs returns what every run leaves.
func outputs() []output {
	return []output{
		{JUnitFile, func(w io.Writer, run view.Run) error { return junit.Write(w, run.Results) }},
		{ReportFile, func(w io.Writer, run view.Run) error { return report.Write(w, []view.Run{run}, TrialDir) }},
	}
}

// Report writes the outputs of the run in dir, from the results that [WriteResults] has computed.
// Where one cannot be written, the others are.
func (r Record) Report(dir string, computed results.Results) error {
	run := r.View(dir, computed)
	var errs []error
	for _, o := range outputs() {
		if err := evidence.WriteFileBy(filepath.Join(dir, o.name), func(w io.Writer) error { return o.write(w, run) }); err != nil {
			errs = append(errs, fmt.Errorf("%s is not written: %w", o.name, err))
		}
	}
	return errors.Join(errs...)
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
	return report.Write(w, runs, TrialDir)
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
