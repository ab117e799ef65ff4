package serve

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner"
)

// index is the directory that runs lie in. It knows again what has not changed since it
// last looked, and reads no file of that.
type index struct {
	dir  string
	held func(dir string) bool // [runner.Held]

	mu   sync.Mutex
	kept map[string]*kept // by directory; guarded by mu
	read int              // runs that were read, for tests; guarded by mu
}

// kept is a run as it was when its files had these stamps.
type kept struct {
	stamps   stamps
	run      Run
	progress *tracker // of a run that has not ended
}

// stamps tell whether files that say what a run came to are the same.
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

func stampsOf(p *place) (s stamps) {
	for i, name := range []string{".", runner.RunFile, runner.ResultsFile, evidence.ProgressFile} {
		s[i], _ = p.root.Lstat(name)
	}
	return s
}

func newIndex(dir string, held func(string) bool) *index {
	return &index{dir: dir, held: held, kept: map[string]*kept{}}
}

// list is all runs, the newest first. Before anything was run it is empty.
func (s *index) list() ([]Run, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]bool{}
	all := []Run{}
	for _, entry := range entries {
		if !entry.IsDir() || !isName(entry.Name()) {
			continue
		}
		if run, err := s.lookLocked(entry.Name()); err == nil {
			found[entry.Name()] = true
			all = append(all, run)
		}
	}
	maps.DeleteFunc(s.kept, func(id string, _ *kept) bool { return !found[id] })
	slices.SortFunc(all, newestFirst)
	return all, nil
}

func newestFirst(a, b Run) int { return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID)) }

// find is one run.
func (s *index) find(id string) (Run, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookLocked(id)
}

// tracker follows a run that was found not to have ended; nil for another.
func (s *index) tracker(id string) *tracker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.kept[id]; k != nil {
		return k.progress
	}
	return nil
}

func (s *index) lookLocked(id string) (Run, error) {
	p, err := openPlace(s.dir, id)
	if err != nil {
		delete(s.kept, id) // another of that name has nothing of it
		return Run{}, err
	}
	defer func() { _ = p.Close() }()
	now, k := stampsOf(p), s.kept[id]
	if k == nil {
		k = &kept{}
		s.kept[id] = k
	}
	if !now.same(k.stamps) {
		s.read++
		k.stamps, k.run = now, readRun(p, id)
		k.follow(p)
	}
	run := k.run
	if run.State == StateEnded {
		return run, nil
	}
	return s.atWork(run, now), nil
}

// follow reads how far a run has come, unless it had ended when it was first seen.
func (k *kept) follow(p *place) {
	if k.progress == nil {
		if k.run.State == StateEnded {
			return
		}
		k.progress = newTracker()
	}
	k.progress.read(p)
	if k.run.State != StateEnded {
		k.run.Done, _ = k.progress.counts()
	}
}

// atWork is a run that has not ended, by whether somebody is at work on it.
func (s *index) atWork(run Run, now stamps) Run {
	hasRecord, held := now[1] != nil, s.held(filepath.Join(s.dir, run.ID))
	switch {
	case held && !hasRecord:
		run.State, run.Problem = StateStarting, ""
	case held && run.Problem == "":
		run.State, run.Verdict, run.Passed, run.Attacked, run.PassRate = StateRunning, "", 0, 0, nil // those were of before it was resumed
	}
	return run
}
