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

// Seal contains the SHA-256 of every file of a run directory at the end of the run, by path
// with slashes. Some files are rewritten by grading; see [regraded].
type Seal map[string]string

// sealOf returns the seal of a run directory, without run.json, which contains it.
func sealOf(dir string) (Seal, error) {
	seal := Seal{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil || name == RunFile {
			return err
		}
		seal[filepath.ToSlash(name)], err = files.Digest(file)
		return err
	})
	return seal, err
}

// renew updates the digests of files of the run directory dir. It skips missing files.
func (s Seal) renew(dir string, names ...string) error {
	for _, name := range names {
		sum, err := digestIn(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		s[name] = sum
	}
	return nil
}

// renewTrial updates the digest of a file of a trial and of its checkpoints.
func (s Seal) renewTrial(dir string, trial evidence.Dir, name string) error {
	checkpoints, err := fs.Glob(os.DirFS(string(trial)), evidence.CheckpointsDir+"/*/"+name)
	if err != nil {
		return err
	}
	for _, file := range append(checkpoints, name) {
		path, err := filepath.Rel(dir, filepath.Join(string(trial), filepath.FromSlash(file)))
		if err == nil {
			err = s.renew(dir, filepath.ToSlash(path))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// renewGraded updates the digests of files that grading writes, and removes those of missing
// ones.
func (s Seal) renewGraded(dir string) error {
	var names []string
	for _, o := range outputs() { // an interrupted run may not have had them
		names = append(names, o.name)
	}
	for name := range s {
		if regraded(name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		delete(s, name)
	}
	return s.renew(dir, names...)
}

// Changed returns the evidence in the run directory dir that has changed since the run was
// sealed. Missing files are returned by [Seal.Gone] instead.
func (s Seal) Changed(dir string) ([]string, error) {
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if regraded(name) {
			continue
		}
		sum, err := digestIn(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if sum != s[name] {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// Gone returns the paths of evidence that is missing from the run directory dir: files, or the
// directory of a trial that is missing altogether. The progress file is not evidence.
func (s Seal) Gone(dir string) []string {
	exists := func(name string) bool {
		_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name)))
		return !errors.Is(err, fs.ErrNotExist)
	}
	var gone []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if regraded(name) || name == evidence.ProgressFile || exists(name) {
			continue
		}
		if trial := trialOf(name); trial != "" && !exists(trial) {
			name = trial
		}
		gone = append(gone, name)
	}
	return slices.Compact(gone)
}

// Emptied reports whether the run had trials and all of them are missing from dir.
func (s Seal) Emptied(dir string) (bool, error) {
	had := false
	for name := range s {
		had = had || trialOf(name) != "" && path.Base(name) == evidence.TrialFile
	}
	if !had {
		return false, nil
	}
	left, err := Trials(dir)
	return len(left) == 0, err
}

// byTrial splits the seal by trial directory, without files that were moved aside.
func (s Seal) byTrial() map[string]Seal {
	all := map[string]Seal{}
	for name, sum := range s {
		trial := trialOf(name)
		if trial == "" || wasSetAside(name) {
			continue
		}
		if all[trial] == nil {
			all[trial] = Seal{}
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
