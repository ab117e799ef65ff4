package runner

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// Gone lists evidence that the run left in its directory dir and that is not there any
// more, by path: files, or in their place the directory of a trial of which nothing is
// left. What grading writes anew is no evidence, nor is how far the run was.
func (r Record) Gone(dir string) []string {
	isThere := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		return !errors.Is(err, fs.ErrNotExist)
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(r.Files)) {
		if regraded(name) || name == evidence.ProgressFile || isThere(name) {
			continue
		}
		if trial := trialOf(name); trial != "" && !isThere(trial) {
			name = trial
		}
		gone = append(gone, name)
	}
	return slices.Compact(gone)
}

// trialOf is the directory of the trial that a file of a run directory is of, by their
// paths in it; empty where it is of none.
func trialOf(file string) string {
	parts := strings.Split(file, "/")
	if len(parts) < 4 || parts[0] != trialsDir {
		return ""
	}
	return path.Join(parts[:3]...)
}

// Emptied says that the run left trials in its directory dir, and that none of them is
// there any more.
func (r Record) Emptied(dir string) (bool, error) {
	had := false
	for name := range r.Files {
		had = had || trialOf(name) != "" && path.Base(name) == evidence.TrialFile
	}
	if !had {
		return false, nil
	}
	left, err := Trials(dir)
	return len(left) == 0, err
}
