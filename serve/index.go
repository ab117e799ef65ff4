package serve

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/runner"
)

// errNotThere says that there is no such run, trial or file.
var errNotThere = errors.New("is not there")

// index is the directory that runs lie in. It reads a run again only after its files have
// changed.
type index struct {
	dir  string
	held func(dir string) bool // [runner.Held]

	mu     sync.Mutex
	kept   map[string]*kept // by directory; guarded by mu
	read   int              // runs that were read, for tests; guarded by mu
	recent []*shownRun      // the one asked for last is last; guarded by mu
}

// kept is a run as it was when its files had these stamps.
type kept struct {
	stamps   stamps
	run      Run
	progress *tracker // of a run that has not ended
}

// stamps identify a version of the files that say what a run came to.
type stamps [4]os.FileInfo

func (s stamps) same(other stamps) bool {
	for i, a := range s {
		b := other[i]
		if (a == nil) != (b == nil) || a != nil && (!os.SameFile(a, b) || a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime())) {
			return false
		}
	}
	return true
}

func newIndex(dir string, held func(string) bool) *index {
	return &index{dir: dir, held: held, kept: map[string]*kept{}}
}

// open opens a regular file of a run. It follows no link, and opens nothing that is not the
// run's.
func (x *index) open(id, name string) (*os.File, error) {
	if !isName(id) || !fs.ValidPath(name) {
		return nil, errNotThere
	}
	file, err := evidence.Open(x.dir, filepath.Join(id, name))
	return file, missing(err)
}

// missing returns errNotThere in place of an error that says so, and err otherwise.
func missing(err error) error {
	for _, class := range []error{fs.ErrNotExist, evidence.ErrNotPlain, syscall.ENOTDIR, syscall.EISDIR, syscall.EINVAL} {
		if errors.Is(err, class) {
			return errNotThere
		}
	}
	return err
}

// isName reports whether a name is that of an entry of a directory that is not hidden.
func isName(name string) bool {
	return name != "" && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, "/\x00")
}

// at returns the directory of a run.
func (x *index) at(id string) (string, error) {
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

func stampsOf(dir string) (s stamps) {
	for i, name := range []string{".", runner.RunFile, runner.ResultsFile, evidence.ProgressFile} {
		s[i], _ = os.Lstat(filepath.Join(dir, name))
	}
	return s
}

// list is all runs, the newest first. Before anything was run it is empty.
func (x *index) list() ([]Run, error) {
	entries, err := os.ReadDir(x.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	found := map[string]bool{}
	all := []Run{}
	for _, entry := range entries {
		if !entry.IsDir() || !isName(entry.Name()) {
			continue
		}
		if run, err := x.lookLocked(entry.Name()); err == nil {
			found[entry.Name()] = true
			all = append(all, run)
		}
	}
	maps.DeleteFunc(x.kept, func(id string, _ *kept) bool { return !found[id] })
	slices.SortFunc(all, newestFirst)
	return all, nil
}

func newestFirst(a, b Run) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID)) }

// find is one run.
func (x *index) find(id string) (Run, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.lookLocked(id)
}

// tracker follows a run that was found not to have ended; nil for another.
func (x *index) tracker(id string) *tracker {
	x.mu.Lock()
	defer x.mu.Unlock()
	if k := x.kept[id]; k != nil {
		return k.progress
	}
	return nil
}

func (x *index) lookLocked(id string) (Run, error) {
	dir, err := x.at(id)
	if err != nil {
		delete(x.kept, id) // another of that name has nothing of it
		return Run{}, err
	}
	now, k := stampsOf(dir), x.kept[id]
	if k == nil {
		k = &kept{}
		x.kept[id] = k
	}
	if !now.same(k.stamps) {
		x.read++
		k.stamps, k.run = now, x.readRun(id)
		k.follow(x)
	}
	run := k.run
	if run.State == StateEnded {
		return run, nil
	}
	return x.atWork(run, now), nil
}

// follow reads how far a run has come, unless it had ended when it was first seen.
func (k *kept) follow(x *index) {
	if k.progress == nil {
		if k.run.State == StateEnded {
			return
		}
		k.progress = newTracker(k.run.ID)
	}
	k.progress.read(x)
	if k.run.State != StateEnded {
		k.run.Done, _ = k.progress.counts()
	}
}

// atWork is a run that has not ended, by whether somebody is at work on it.
func (x *index) atWork(run Run, now stamps) Run {
	hasRecord, held := now[1] != nil, x.held(filepath.Join(x.dir, run.ID))
	switch {
	case held && !hasRecord:
		run.State, run.Problem = StateStarting, ""
	case held && run.Problem == "":
		run.State, run.Verdict, run.Passed, run.Attacked, run.PassRate = StateRunning, "", 0, 0, nil // those were of before it was resumed
	}
	return run
}

// maxShownRuns is how many runs are kept as they are shown, which takes a while to compute.
const maxShownRuns = 8

// shownRun is a run as it is shown.
type shownRun struct {
	id string

	mu     sync.Mutex // held while it is read, so that it is read once
	stamps stamps     // of its files; guarded by mu
	run    view.Run   // guarded by mu
	err    error      // guarded by mu
}

// shown returns what is shown of a run, as its files are now; without a record that is
// nothing.
func (x *index) shown(r Run) (view.Run, error) {
	if r.Planned == 0 {
		return view.Run{ID: r.ID, AtWork: r.live()}, nil
	}
	dir, err := x.at(r.ID)
	if err != nil {
		return view.Run{}, err
	}
	one := x.recently(r.ID)
	one.mu.Lock()
	defer one.mu.Unlock()
	if now := stampsOf(dir); !now.same(one.stamps) {
		one.stamps = now
		one.run, one.err = readReported(dir)
	}
	shown := one.run
	shown.AtWork = r.live()
	return shown, one.err
}

func readReported(dir string) (view.Run, error) {
	record, err := runner.ReadRecord(dir)
	if err != nil {
		return view.Run{}, err
	}
	shown, err := runner.Reported(dir, record)
	shown.Dir = filepath.Base(dir)
	return shown, err
}

// recently returns what is kept of a run as it is shown. Where there is no more room, that
// takes the place of the one that was asked for the longest time ago.
func (x *index) recently(id string) *shownRun {
	x.mu.Lock()
	defer x.mu.Unlock()
	one := &shownRun{id: id}
	if at := slices.IndexFunc(x.recent, func(r *shownRun) bool { return r.id == id }); at >= 0 {
		one = x.recent[at]
		x.recent = slices.Delete(x.recent, at, at+1)
	} else if len(x.recent) == maxShownRuns {
		x.recent = slices.Delete(x.recent, 0, 1)
	}
	x.recent = append(x.recent, one)
	return one
}
