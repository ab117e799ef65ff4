package evidence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteTrial writes trial.json.
func (d Dir) WriteTrial(t Trial) error { return d.writeJSON(TrialFile, t) }

// WriteVerdicts writes verdicts.json.
func (d Dir) WriteVerdicts(v Verdicts) error { return d.writeJSON(VerdictsFile, v) }

// WriteCalls writes calls.jsonl.
func (d Dir) WriteCalls(calls []Call) error { return writeLines(d, CallsFile, calls) }

func (d Dir) writeJSON(name string, v any) error {
	data, err := MarshalIndent(v)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(string(d), name), data)
}

// WriteCatalogs writes catalogs.jsonl.
func (d Dir) WriteCatalogs(catalogs []Catalog) error { return writeLines(d, CatalogsFile, catalogs) }

// WriteNarration writes narration.json.
func (d Dir) WriteNarration(n Narration) error { return d.writeJSON(NarrationFile, n) }

// AddStep adds a step to a trial whose recorder is closed, in one step: a crash leaves
// it there or not. One of the same Ask counts no more.
func (d Dir) AddStep(s Step) error {
	line, err := Marshal(s)
	if err != nil {
		return err
	}
	before, err := ReadFile(string(d), StepsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return WriteFile(filepath.Join(string(d), StepsFile), append(append(before, line...), '\n'))
}

// Sync has the system keep all that is in a trial's directory, and that the
// directory is there, also through a loss of power. parents is how many of the
// directories above it may be new.
func (d Dir) Sync(parents int) error {
	err := filepath.WalkDir(string(d), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		return syncPath(path)
	})
	above := string(d)
	for range parents {
		above = filepath.Dir(above)
		err = errors.Join(err, syncPath(above))
	}
	return err
}

// RemoveHalfWritten removes what a crash in the midst of [WriteFile] left in dir.
func RemoveHalfWritten(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if half, _ := filepath.Match(halfWritten("*"), e.Name()); half && e.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// halfWritten is the pattern of names that a file has until it is whole.
func halfWritten(name string) string { return "." + name + "-*" }

// syncPath syncs a directory, so that names in it are kept, or a file.
func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
