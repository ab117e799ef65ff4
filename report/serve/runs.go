package serve

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// runs is a directory of runs. It reads the disk on every request.
type runs struct {
	dir  string
	held func(dir string) bool // [runner.Held]

	mu       sync.Mutex
	trackers map[string]*tracker // of runs that have not ended, by id; guarded by mu
	computed map[string]computed // by id; guarded by mu
}

func newRuns(dir string, held func(string) bool) *runs {
	return &runs{dir: dir, held: held, trackers: map[string]*tracker{}, computed: map[string]computed{}}
}

// openFile opens a regular file of a run, like [evidence.Open].
func (x *runs) openFile(id, name string) (*os.File, error) {
	if !isName(id) || !fs.ValidPath(name) {
		return nil, errNotThere
	}
	file, err := evidence.Open(x.dir, filepath.Join(id, name))
	return file, missing(err)
}

// missing returns errNotThere if err means that something does not exist, and any other err unchanged.
func missing(err error) error {
	for _, class := range []error{fs.ErrNotExist, evidence.ErrNotPlain, syscall.ENOTDIR, syscall.EISDIR, syscall.EINVAL} {
		if errors.Is(err, class) {
			return errNotThere
		}
	}
	return err
}

// isName reports whether name is a valid name of a non-hidden directory entry.
func isName(name string) bool {
	return name != "" && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, "/\x00")
}

// at returns the directory of a run.
func (x *runs) at(id string) (string, error) {
	if !isName(id) {
		return "", errNotThere
	}
	dir := filepath.Join(x.dir, id)
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return "", errors.Join(errNotThere, err)
	}
	return dir, nil
}

// list returns all runs, the newest first.
func (x *runs) list() ([]view.ListedRun, error) {
	entries, err := os.ReadDir(x.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := []view.ListedRun{}
	for _, entry := range entries {
		if run, err := x.find(entry.Name()); err == nil {
			all = append(all, run)
		}
	}
	slices.SortFunc(all, newestFirst)
	return all, nil
}

func newestFirst(a, b view.ListedRun) int {
	return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID))
}

// find reads a run. Problems with its files are reported in the result.
func (x *runs) find(id string) (view.ListedRun, error) {
	dir, err := x.at(id)
	if err != nil {
		return view.ListedRun{}, err
	}
	r := x.read(id, dir)
	if _, err := x.at(id); err != nil { // the run was removed while it was read, and would look interrupted
		return view.ListedRun{}, err
	}
	if r.State == view.StateEnded {
		x.mu.Lock()
		delete(x.trackers, id)
		x.mu.Unlock()
		return r, nil
	}
	r.Done = x.tracker(id).done(x)
	return r, nil
}

func (x *runs) read(id, dir string) view.ListedRun {
	r := view.ListedRun{ID: id, State: view.StateUnreadable}
	var record runner.Record
	err := missing(evidence.ReadJSON(x.dir, filepath.Join(id, runner.RunFile), &record))
	switch {
	case errors.Is(err, errNotThere) && x.held(dir):
		r.State = view.StateStarting
		return r
	case err != nil:
		r.Problem = problemWith(runner.RunFile, err)
		return r
	}
	describe(&r, record)
	r.State = view.StateInterrupted
	if !r.Ended.IsZero() && !record.Interrupted {
		r.State = view.StateEnded
	}
	switch head, err := x.readHead(id); {
	case err != nil && (r.State == view.StateEnded || !errors.Is(err, errNotThere)):
		r.State, r.Problem = view.StateUnreadable, problemWith(runner.ResultsFile, err)
	case r.State == view.StateInterrupted && x.held(dir):
		r.State = view.StateRunning // the results are from before it was resumed
	case err == nil:
		judge(&r, head)
	}
	return r
}

// maxWord is the maximum length in bytes of texts in lists of runs.
const maxWord = 500

// problemWith returns a sentence about a problem with a file of a run.
func problemWith(name string, err error) string {
	if errors.Is(err, errNotThere) {
		return fmt.Sprintf("It has no %s.", name)
	}
	return fmt.Sprintf("Its %s cannot be read: %s.", name, text.Shorten(err.Error(), maxWord))
}

func (x *runs) readHead(id string) (results.Results, error) {
	file, err := x.openFile(id, runner.ResultsFile)
	if err != nil {
		return results.Results{}, err
	}
	defer func() { _ = file.Close() }()
	return results.ReadHead(file)
}

func describe(r *view.ListedRun, record runner.Record) {
	r.Eval, r.Agent, r.Model = text.Shorten(record.Eval.Name, maxWord), text.Shorten(record.Eval.Executor, maxWord), text.Shorten(record.Eval.Model, maxWord)
	r.Isolated, r.Network, r.Started, r.Ended = record.Isolated, text.Shorten(record.Network, maxWord), record.Started, record.Ended
	r.Tasks, r.Planned, r.Workers = len(record.Tasks), record.Planned(), record.Workers
	if !r.Ended.IsZero() {
		r.DurationMS = r.Ended.Sub(r.Started).Milliseconds()
	}
}

func judge(r *view.ListedRun, head results.Results) {
	s := head.Summary
	r.EndedTasks = s.Ended()
	if passed := s.PassedTasks(); passed != nil {
		r.Passed = passed.Count
	}
	if s.Attacks != nil {
		r.Attacked = s.Attacks.Succeeded
	}
	if s.Statistics != nil && len(s.Statistics.PassAtK) > 0 {
		r.PassRate = &s.Statistics.PassAtK[0]
	}
	switch {
	case r.State == view.StateInterrupted:
		r.Verdict = results.StatusError
	case s.Failed > 0 || len(head.Unmet()) > 0:
		r.Verdict = results.StatusFailed
	case s.Succeeded < s.TotalTests || s.TotalTests == 0:
		r.Verdict = results.StatusError
	default:
		r.Verdict = results.StatusPassed
	}
}

// maxComputed is the number of cached views. Computing one is slow, because it reads the
// evidence of every trial.
const maxComputed = 8

// computed is a cached view of a run, with the version of the files that it was computed from.
type computed struct {
	stamps stamps
	run    view.Run
}

// stamps identify a version of the files that determine a run's results.
type stamps [4]os.FileInfo

func stampsOf(dir string) (s stamps) {
	for i, name := range []string{".", runner.RunFile, runner.ResultsFile, evidence.ProgressFile} {
		s[i], _ = os.Lstat(filepath.Join(dir, name))
	}
	return s
}

func (s stamps) same(other stamps) bool {
	for i, a := range s {
		b := other[i]
		if (a == nil) != (b == nil) || a != nil && (!os.SameFile(a, b) || a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime())) {
			return false
		}
	}
	return true
}

// shown returns the view of a run from its current files; it is empty without a record.
func (x *runs) shown(r view.ListedRun) (view.Run, error) {
	if r.Planned == 0 {
		return view.Run{ID: r.ID, AtWork: r.State.Live()}, nil
	}
	dir, err := x.at(r.ID)
	if err != nil {
		return view.Run{}, err
	}
	now := stampsOf(dir)
	x.mu.Lock()
	known := x.computed[r.ID]
	x.mu.Unlock()
	if !now.same(known.stamps) {
		record, err := runner.ReadRecord(dir)
		if err != nil {
			return view.Run{}, err
		}
		known.stamps = now
		if known.run, err = runner.ViewOf(dir, record); err != nil {
			return view.Run{}, err
		}
		x.keep(r.ID, known)
	}
	known.run.Dir, known.run.AtWork = r.ID, r.State.Live()
	return known.run, nil
}

func (x *runs) keep(id string, c computed) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.computed) == maxComputed {
		clear(x.computed)
	}
	x.computed[id] = c
}
