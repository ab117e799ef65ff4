package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/runner/trial"
)

// Recovered is what remains of a run that ended early.
type Recovered struct {
	// Kept are the trials with a final outcome.
	Kept map[evidence.TrialID]bool
	// Damaged explains why completed trials are not in Kept.
	Damaged []string
	// Complete is set if there is no trial left to run.
	Complete bool

	again map[evidence.TrialID]bool // completed trials that are retried as another attempt
}

// Recover reads the trials of a run that ended early. Trials that have ended but were not
// graded are graded, after asking their judge.
//
// A trial has ended if it has a trial.json, which is written last. Trials with outcome infra,
// and failed ones with attempts left, are run again.
func Recover(ctx context.Context, dir string, r Record, c trial.Consulting) (Recovered, error) {
	all := Recovered{Kept: map[evidence.TrialID]bool{}, again: map[evidence.TrialID]bool{}}
	if err := files.RemoveHalfWritten(dir); err != nil {
		return all, err
	}
	from := recovery{dir: dir, record: r, digests: r.Files.byTrial(), judges: c}
	type leftTrial struct {
		class evidence.Class
		again bool // it is run again
		err   error
	}
	found := map[evidence.TrialID]*leftTrial{}
	var reading errgroup.Group
	reading.SetLimit(runtime.GOMAXPROCS(0))
	for id, task := range r.trials() {
		one := &leftTrial{}
		found[id] = one
		reading.Go(func() error {
			result, err := from.read(ctx, id)
			one.class, one.err = result.Verdicts.Class, err
			// A failed trial was interrupted between two attempts.
			one.again = !task.Kept && (one.class == evidence.ClassInfra || result.failedWithMoreAttempts(r.MaxAttempts) && task.Trigger == nil)
			return nil
		})
	}
	_ = reading.Wait()
	lost := false
	for id, task := range r.trials() {
		one := found[id]
		var damaged *damage
		switch err := one.err; {
		case err != nil && task.Kept:
			return all, mistake("trial %s, which was kept from the run %s, cannot be used: %w; start a new run", id, r.Merged[0], err)
		case errors.As(err, &damaged):
			all.Damaged = append(all.Damaged, fmt.Sprintf("trial %s: %s", id, damaged.why))
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return all, fmt.Errorf("trial %s: %w", id, err)
		case one.again:
			all.again[id] = true
		default:
			all.Kept[id] = true
			lost = lost || one.class != evidence.ClassPass && task.Trigger == nil && !task.Kept
		}
	}
	all.Complete = len(all.Kept) == r.Planned() || r.FailFast && lost
	return all, nil
}

// damage is why a completed trial cannot be used.
type damage struct{ why string }

func (d *damage) Error() string { return d.why }

// recovery reads the trials of a run that ended early.
type recovery struct {
	dir     string
	record  Record
	digests map[string]Digests // of trials of a run that has ended, by directory
	judges  trial.Consulting

	renewing sync.Mutex // held while the record's digests are renewed
}

// read reads the last attempt of a trial.
func (r *recovery) read(ctx context.Context, id evidence.TrialID) (Result, error) {
	result, err := r.readLast(ctx, id)
	if err == nil && result.Verdicts.Class != evidence.ClassInfra {
		result.Earlier, err = result.Dir.Earlier()
	}
	return result, err
}

func (r *recovery) readLast(ctx context.Context, id evidence.TrialID) (Result, error) {
	result := Result{Dir: TrialDir(r.dir, id.Task, id.Number)}
	err := files.RemoveHalfWritten(string(result.Dir))
	if err != nil {
		return result, err
	}
	result.Trial, err = result.Dir.Trial()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return result, err
	case err != nil:
		return result, &damage{err.Error()}
	case !r.record.ran(result.Trial.Run) || result.Trial.Task != id.Task || result.Trial.Number != id.Number:
		return result, &damage{evidence.TrialFile + " is of another trial"}
	}
	if !result.Trial.Class.OfAgent() {
		result.Verdicts.Class = result.Trial.Class // parts of its evidence may have been moved
		return result, nil
	}
	digests := r.digests[filepath.ToSlash(string(TrialDir("", id.Task, id.Number)))]
	if gone := digests.Gone(r.dir); len(gone) > 0 {
		return result, &damage{gone[0] + " is missing"}
	}
	changed, err := digests.Changed(r.dir)
	if len(changed) > 0 {
		return result, &damage{changed[0] + " was changed after the run"}
	}
	if err != nil {
		return result, err
	}
	if result.Verdicts, err = result.Dir.Verdicts(); err == nil && result.Verdicts.Class != "" {
		return result, nil
	}
	if _, err := r.judges.Ask(ctx, result.Dir, result.Trial); err != nil {
		return result, err
	}
	if err := r.renew(result.Dir); err != nil {
		return result, err
	}
	result.Verdicts, err = grade(result.Dir, result.Trial)
	return result, err
}

// renew updates the digests of a trial whose judge was asked.
func (r *recovery) renew(dir evidence.Dir) error {
	r.renewing.Lock()
	defer r.renewing.Unlock()
	return r.record.renew(r.dir, dir, evidence.StepsFile)
}

// movingDir is the directory, next to the numbered ones in [evidence.AttemptsDir] and
// [evidence.InterruptedDir], that is being filled.
const movingDir = "moving"

func isAside(name string) bool {
	return name == evidence.AttemptsDir || name == evidence.InterruptedDir
}

// wasSetAside reports whether a file was moved aside, given its path in the run directory.
func wasSetAside(file string) bool {
	parts := strings.Split(file, "/")
	return len(parts) > 4 && parts[0] == trialsDir && isAside(parts[3])
}

// SetAside moves away the files of a trial that will be run again: into [evidence.AttemptsDir] if
// the attempt had ended, else into [evidence.InterruptedDir].
func (r Recovered) SetAside(run string, id evidence.TrialID) error {
	kind := evidence.InterruptedDir
	if r.again[id] {
		kind = evidence.AttemptsDir
	}
	return setAside(TrialDir(run, id.Task, id.Number), kind)
}

// setAside moves the files of a trial into a new directory of a kind. If a crash interrupted an
// earlier move, that is completed first. trial.json is moved first, so a partly moved trial has
// none.
func setAside(dir evidence.Dir, kind string) error {
	for _, begun := range []string{evidence.AttemptsDir, evidence.InterruptedDir} {
		if _, err := os.Stat(filepath.Join(string(dir), begun, movingDir)); err == nil {
			kind = begun
		}
	}
	entries, err := os.ReadDir(string(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	moving := filepath.Join(string(dir), kind, movingDir)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return isAside(e.Name()) })
	if _, err := os.Stat(moving); len(entries) == 0 && err != nil {
		return nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(rank(a), rank(b)) })
	root, err := files.Dir(string(dir))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.MkdirAll(filepath.Join(kind, movingDir), 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if err := root.Rename(e.Name(), filepath.Join(kind, movingDir, e.Name())); err != nil {
			return err
		}
	}
	number, err := countAside(dir, kind)
	if err != nil {
		return err
	}
	return root.Rename(filepath.Join(kind, movingDir), filepath.Join(kind, strconv.Itoa(number+1)))
}

func rank(e fs.DirEntry) int {
	if e.Name() == evidence.TrialFile {
		return 0
	}
	return 1
}

// countAside returns how many directories of a kind a trial has.
func countAside(dir evidence.Dir, kind string) (count int, err error) {
	entries, err := os.ReadDir(filepath.Join(string(dir), kind))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			count = max(count, n)
		}
	}
	return count, err
}
