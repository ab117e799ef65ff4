package runner

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/waza-isolate/waza/runner/evidence"
)

// isAside says whether a directory of a trial's is no part of its evidence.
func isAside(name string) bool {
	return name == evidence.AttemptsDir || name == evidence.InterruptedDir
}

// SetAside makes room in the directory of a trial that is to be run: what is there
// goes to earlier attempts where it is one that ended, else to what was interrupted.
func (r Recovered) SetAside(run string, id TrialID) error {
	dir := TrialDir(run, id.Task, id.Number)
	if attempt, ok := r.infra[id]; ok {
		return setAside(dir, attempt)
	}
	return setInterrupted(dir)
}

// movingDir is the one of those that were interrupted which is being filled.
const movingDir = "moving"

// setInterrupted moves all of a trial into a new directory, numbered from 1. Where
// that was begun before and a crash came between, it is completed. A trial that is
// half moved has no trial.json: that goes first.
func setInterrupted(dir evidence.Dir) error {
	entries, err := os.ReadDir(string(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	to := filepath.Join(string(dir), evidence.InterruptedDir)
	moving := filepath.Join(to, movingDir)
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return isAside(e.Name()) })
	if _, err := os.Stat(moving); len(entries) == 0 && err != nil {
		return nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(rank(a), rank(b)) })
	if err := os.MkdirAll(moving, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(string(dir), e.Name()), filepath.Join(moving, e.Name())); err != nil {
			return err
		}
	}
	there, err := os.ReadDir(to)
	if err != nil {
		return err
	}
	return os.Rename(moving, filepath.Join(to, strconv.Itoa(len(there)))) // which counts moving
}

func rank(e fs.DirEntry) int {
	if e.Name() == evidence.TrialFile {
		return 0
	}
	return 1
}
