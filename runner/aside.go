package runner

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
)

// movingDir is the one, among the numbers from 1 in the directories of what is aside,
// that is being filled.
const movingDir = "moving"

func isAside(name string) bool {
	return name == evidence.AttemptsDir || name == evidence.InterruptedDir
}

// wasSetAside says whether a file of a run directory, by its path in it, is of
// something that was set aside.
func wasSetAside(file string) bool {
	parts := strings.Split(file, "/")
	return len(parts) > 4 && parts[0] == trialsDir && isAside(parts[3])
}

// SetAside makes room in the directory of a trial that is to be run: what is there
// goes into [evidence.AttemptsDir] where it is an attempt that ended, else into
// [evidence.InterruptedDir].
func (r Recovered) SetAside(run string, id plan.TrialID) error {
	kind := evidence.InterruptedDir
	if r.again[id] {
		kind = evidence.AttemptsDir
	}
	return setAside(TrialDir(run, id.Task, id.Number), kind)
}

// setAside moves all of a trial into a new directory of a kind. Where that was
// begun before and a crash came between, it is completed first. A trial that is
// half moved has no trial.json: that goes first.
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
	if err := os.MkdirAll(moving, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Rename(filepath.Join(string(dir), e.Name()), filepath.Join(moving, e.Name())); err != nil {
			return err
		}
	}
	number, err := countAside(dir, kind)
	if err != nil {
		return err
	}
	return os.Rename(moving, filepath.Join(string(dir), kind, strconv.Itoa(number+1)))
}

func rank(e fs.DirEntry) int {
	if e.Name() == evidence.TrialFile {
		return 0
	}
	return 1
}

// countAside is how many directories of a kind a trial has.
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
