package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// Files of a run directory.
const (
	RunFile     = "run.json"
	ResultsFile = "results.json"
	// baselineFile contains the results of the baseline without skills, if there is one.
	baselineFile = "baseline.json"
)

// Trials returns the completed trials in a run directory, ordered by task and number.
func Trials(dir string) ([]evidence.Dir, error) {
	found, err := fs.Glob(os.DirFS(dir), trialsDir+"/*/*/"+evidence.TrialFile)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, byTaskAndNumber)
	var dirs []evidence.Dir
	for _, file := range found {
		dirs = append(dirs, evidence.Dir(filepath.Join(dir, filepath.FromSlash(path.Dir(file)))))
	}
	return dirs, nil
}

// byTaskAndNumber compares paths of trials, with numbers in numeric order.
func byTaskAndNumber(a, b string) int {
	a, b = path.Dir(a), path.Dir(b)
	return cmp.Or(
		cmp.Compare(path.Dir(a), path.Dir(b)),
		cmp.Compare(len(path.Base(a)), len(path.Base(b))),
		cmp.Compare(a, b),
	)
}

// WriteResults computes a run's results from its directory and writes results.json. It reads
// the trials twice, for figures and for texts, and holds one at a time in memory: all trials of
// 1,000 tasks would not fit.
func WriteResults(dir string, r Record) (results.Results, error) {
	computed, err := computeResults(dir, r)
	if err != nil {
		return results.Results{}, err
	}
	return computed, evidence.WriteFileBy(filepath.Join(dir, ResultsFile), func(w io.Writer) error {
		return PrintResults(w, dir, computed)
	})
}

// PrintResults writes the results of the run in dir as in results.json.
func PrintResults(w io.Writer, dir string, computed results.Results) error {
	return computed.Write(w, func(task string, number int) (results.Trial, error) {
		return readTrial(TrialDir(dir, task, number))
	})
}

// Complete adds data of a trial's evidence to its result, as in results.json.
func Complete(dir, task string, run results.RunResult) (results.RunResult, error) {
	trial, err := readTrial(TrialDir(dir, task, run.RunNumber))
	if err != nil {
		return run, err
	}
	return run.Complete(trial)
}

// computeResults computes a run's results from the trials that have verdicts.
func computeResults(dir string, r Record) (results.Results, error) {
	dirs, err := Trials(dir)
	if err != nil {
		return results.Results{}, err
	}
	builder := results.NewBuilder(r.forResults())
	for _, d := range dirs {
		trial, err := readTrial(d)
		if err != nil {
			return results.Results{}, err
		}
		if TrialDir(dir, trial.Task, trial.Number) != d {
			return results.Results{}, fmt.Errorf("%s is of another trial", filepath.Join(string(d), evidence.TrialFile))
		}
		if trial.Verdicts.Class == "" {
			continue
		}
		if trial.Earlier, err = d.Earlier(); err != nil {
			return results.Results{}, err
		}
		if err := builder.Add(trial); err != nil {
			return results.Results{}, err
		}
	}
	computed := builder.Results()
	return computed, addBaseline(dir, &computed)
}

// addBaseline compares results with those of the baseline without skills, if the run has one.
func addBaseline(dir string, to *results.Results) error {
	data, err := evidence.ReadFile(dir, baselineFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var base results.Results
	if err == nil {
		err = json.Unmarshal(data, &base)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", baselineFile, err)
	}
	return to.Against(base)
}

// readTrial reads one trial's evidence and verdicts. A trial that was not graded because of a
// crash has no verdicts.
func readTrial(d evidence.Dir) (results.Trial, error) {
	var t results.Trial
	var err error
	if t.Trial, err = d.Trial(); err != nil {
		return t, err
	}
	t.Path = filepath.ToSlash(string(TrialDir("", t.Task, t.Number)))
	if t.Verdicts, err = d.Verdicts(); errors.Is(err, fs.ErrNotExist) {
		return t, nil
	} else if err != nil {
		return t, err
	}
	t.Verdicts = d.Explained(t.Trial, t.Verdicts)
	return readRecorded(d, t)
}

// readRecorded adds the evidence of a trial that is not in trial.json.
func readRecorded(d evidence.Dir, t results.Trial) (results.Trial, error) {
	var err error
	if t.Calls, err = d.Calls(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if n, err := d.Narration(); err == nil {
		t.Narration = &n
	} else if !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if t.Catalogs, err = d.Catalogs(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	if t.Events, err = d.Events(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, err
	}
	t.Events = slices.DeleteFunc(t.Events, func(e evidence.Event) bool { return !results.OfServers(e) })
	if err := readActivity(d, &t); err != nil {
		return t, err
	}
	if t.Steps, err = d.Steps(); err != nil {
		return t, err
	}
	for _, c := range t.Checkpoints {
		steps, err := d.Checkpoint(c.AfterTurn).Steps()
		if err != nil {
			return t, err
		}
		t.Steps = append(t.Steps, steps...)
	}
	t.Gateway = d.Gateway(t.Trial)
	for call, err := range d.ModelCalls() {
		if err != nil {
			break // reported by grading
		}
		call.Request, call.Response = nil, nil
		t.Models = append(t.Models, call)
	}
	t.Transcript, _ = d.Transcript() // reported by the agent; grading reports errors
	return t, nil
}

// readActivity reads what a trial's servers did besides answering.
func readActivity(d evidence.Dir, t *results.Trial) (err error) {
	if t.Observed, err = d.Observed(); err != nil {
		return err
	}
	if len(t.Redacted) > 0 {
		if t.Echoes, err = d.Echoes(t.Trial); err != nil {
			return err
		}
	}
	t.Stderr = map[string]results.Written{}
	for _, s := range t.Servers {
		bytes, lines, err := d.ServerWrote(s.Name)
		if err != nil {
			return err
		}
		t.Stderr[s.Name] = results.Written{Bytes: bytes, Lines: lines}
	}
	return nil
}

// ReadEntry reads a run to compare: a run directory, or a results.json, which may also be one
// of upstream waza. If there is a run.json next to it, the entry includes the run's settings.
func ReadEntry(path string) (results.Entry, error) {
	entry := results.Entry{Path: path}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return entry, fmt.Errorf("%s does not exist; name a run directory or a %s", path, ResultsFile)
	}
	if err != nil {
		return entry, err
	}
	dir, open := path, func() (*os.File, error) { return evidence.Open(path, ResultsFile) }
	if !info.IsDir() {
		dir, open = filepath.Dir(path), func() (*os.File, error) { return files.Open(path) }
	}
	record, unread := ReadRecord(dir)
	if unread == nil {
		entry.Made, entry.LeftOut = record.Settings(), record.leftOut()
	} else if errors.Is(unread, evidence.ErrNotPlain) {
		return entry, unread
	}
	file, err := open()
	if errors.Is(err, fs.ErrNotExist) && unread == nil {
		return entry, fmt.Errorf("the run in %s has not ended: it has no %s; complete it with waza run --resume %s", dir, ResultsFile, text.ShellWord(dir))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return entry, fmt.Errorf("%s is not a run directory: it has no %s", dir, ResultsFile)
	}
	if err != nil {
		return entry, err
	}
	defer func() { _ = file.Close() }()
	if entry.Outline, err = results.ReadOutline(file); err != nil {
		return entry, fmt.Errorf("%s: %w; name a run directory, or the results.json in one", file.Name(), err)
	}
	return entry, nil
}
