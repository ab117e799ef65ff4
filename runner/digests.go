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
	"github.com/waza-isolate/waza/internal/files"
)

// Digests contains the SHA-256 of every file of evidence in a run directory at the end of the run, by
// path with slashes.
type Digests map[string]string

// digestsOf returns the digests of a run directory, except for run.json, which contains the
// digests, and for files that grading writes.
func digestsOf(dir string) (Digests, error) {
	all := Digests{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if name = filepath.ToSlash(name); err != nil || name == RunFile || regraded(name) {
			return err
		}
		all[name], err = files.Digest(file)
		return err
	})
	return all, err
}

// renew updates the digests of a file of a trial and of its checkpoints.
func (d Digests) renew(dir string, trial evidence.Dir, name string) error {
	checkpoints, err := fs.Glob(os.DirFS(string(trial)), evidence.CheckpointsDir+"/*/"+name)
	if err != nil {
		return err
	}
	for _, file := range append(checkpoints, name) {
		path, err := filepath.Rel(dir, filepath.Join(string(trial), filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		switch sum, err := digestIn(dir, path); {
		case err == nil:
			d[path] = sum
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	return nil
}

// Changed returns the evidence in the run directory dir that has changed since the end of the
// run. Missing files are returned by [Digests.Gone] instead.
func (d Digests) Changed(dir string) ([]string, error) {
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(d)) {
		sum, err := digestIn(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if sum != d[name] {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// Gone returns the paths of evidence that is missing from the run directory dir: single files, or
// the directory of a trial that is missing as a whole. The progress file is not evidence.
func (d Digests) Gone(dir string) []string {
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		return !errors.Is(err, fs.ErrNotExist)
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(d)) {
		if name == evidence.ProgressFile || exists(name) {
			continue
		}
		if trial := trialOf(name); trial != "" && !exists(trial) {
			name = trial
		}
		gone = append(gone, name)
	}
	return slices.Compact(gone)
}

// intact returns a [Mistake] if evidence in the run directory dir is missing or has changed since
// the end of the run.
func (d Digests) intact(dir string) error {
	if gone := d.Gone(dir); len(gone) > 0 {
		return mistake("%s is missing", gone[0])
	}
	changed, err := d.Changed(dir)
	if len(changed) > 0 {
		return mistake("%s was changed after the run", changed[0])
	}
	return err
}

// Emptied reports whether the run had trials and all of them are missing from dir.
func (d Digests) Emptied(dir string) (bool, error) {
	had := false
	for name := range d {
		had = had || trialOf(name) != "" && path.Base(name) == evidence.TrialFile
	}
	if !had {
		return false, nil
	}
	left, err := Trials(dir)
	return len(left) == 0, err
}

// byTrial splits the digests by trial directory, without files that were moved aside.
func (d Digests) byTrial() map[string]Digests {
	all := map[string]Digests{}
	for name, sum := range d {
		trial := trialOf(name)
		if trial == "" || wasSetAside(name) {
			continue
		}
		if all[trial] == nil {
			all[trial] = Digests{}
		}
		all[trial][name] = sum
	}
	return all
}

// trialOf returns the directory of the trial that a file belongs to, or "". Both are paths
// relative to the run directory.
func trialOf(file string) string {
	parts := strings.Split(file, "/")
	if len(parts) < 4 || parts[0] != trialsDir {
		return ""
	}
	return path.Join(parts[:3]...)
}

// regraded reports whether grading writes a file.
func regraded(name string) bool {
	if wasSetAside(name) {
		return false
	}
	switch name = path.Base(name); name {
	case evidence.CallsFile, evidence.CatalogsFile, evidence.NarrationFile, evidence.VerdictsFile, ResultsFile:
		return true
	}
	return slices.ContainsFunc(outputs(), func(o output) bool { return o.name == name })
}

// digestIn returns the SHA-256 of a file of the run directory dir, by path with slashes. Files
// of a trial are opened from the trial's directory, which takes a third of the system calls.
func digestIn(dir, name string) (string, error) {
	if trial := trialOf(name); trial != "" {
		dir, name = filepath.Join(dir, filepath.FromSlash(trial)), strings.TrimPrefix(name, trial+"/")
	}
	file, err := evidence.Open(dir, filepath.FromSlash(name))
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	return files.DigestOf(file)
}
