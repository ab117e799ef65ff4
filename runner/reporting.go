package runner

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/report/junit"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Files that are generated from the results.
const (
	ReportFile = "report.html"
	JUnitFile  = "junit.xml"
)

// output is a file that is generated from the results.
type output struct {
	name  string
	write func(io.Writer, view.Run) error
}

// outputs returns the files that every run generates.
func outputs() []output {
	return []output{
		{JUnitFile, junit.Write},
		{ReportFile, func(w io.Writer, run view.Run) error { return report.Write(w, []view.Run{run}, TrialDir) }},
	}
}

// Report writes the outputs of the run in dir, from the results of [WriteResults]. If one
// fails, the others are still written.
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

// conclude writes the results and reports of the run in dir.
func (r Record) conclude(dir string) (out Outcome, err error) {
	out = Outcome{Dir: dir, Record: r}
	if out.Results, err = WriteResults(dir, r); err != nil {
		return out, err
	}
	err = r.Report(dir, out.Results)
	out.Written = err == nil
	return out, err
}

// end concludes the run in dir, and then adds the digests of its evidence to run.json.
func (r Record) end(dir string) (Outcome, error) {
	out, err := r.conclude(dir)
	if out.Results.Timestamp.IsZero() { // nothing was written
		return out, err
	}
	err = errors.Join(err, r.WriteDigests(dir))
	out.Written = err == nil
	return out, err
}

// ReportInto writes the reports of the completed run in dir without grading again. It warns of
// missing evidence.
func ReportInto(dir string, warn func(error)) error {
	record, held, err := holdEnded(dir)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }()
	WarnOfGone(dir, record, warn)
	run, err := ViewOf(dir, record)
	if err != nil {
		return err
	}
	return record.Report(dir, run.Results)
}

// WriteReport writes one HTML report of the runs in dirs, side by side. It does not change the
// directories, and runs may still be in progress. It holds only one trial at a time in memory.
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

// ViewOf returns the view of the run in dir with record r. Its results cover the trials that
// have verdicts; the run may still be in progress. It writes nothing.
func ViewOf(dir string, r Record) (view.Run, error) {
	computed, err := computeResults(dir, r)
	if err != nil {
		return view.Run{}, err
	}
	run := r.View(dir, computed)
	run.AtWork = r.Ended.IsZero() && Held(dir)
	return run, nil
}

// View returns the view of the run in dir, given its results.
func (r Record) View(dir string, computed results.Results) view.Run {
	run := view.Run{
		Dir: dir, ID: r.ID, Eval: r.Eval.Path, EvalSHA256: r.Eval.SHA256, Waza: r.Waza, Build: r.Build,
		Started: r.Started, Ended: r.Ended, Interrupted: r.Interrupted, FailFast: r.FailFast, Planned: r.Planned(),
		Isolated: r.Isolated, Network: r.Network, Guarantees: r.Guarantees, Certificate: r.Certificate,
		Engine: r.Engine, Images: r.Images, Inputs: r.Inputs, Made: r.Settings(), Results: computed,
	}
	if run.Kept = r.kept(); run.Kept > 0 {
		run.Repeats = r.Merged[0]
	}
	return run
}
