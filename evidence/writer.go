package evidence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// WriteTrial writes trial.json.
func (d Dir) WriteTrial(t Trial) error { return d.writeJSON(TrialFile, t) }

// WriteVerdicts writes verdicts.json.
func (d Dir) WriteVerdicts(v Verdicts) error { return d.writeJSON(VerdictsFile, v) }

// WriteCalls writes calls.jsonl.
func (d Dir) WriteCalls(calls []Call) error { return writeLines(d, CallsFile, calls) }

// WriteCatalogs writes catalogs.jsonl.
func (d Dir) WriteCatalogs(catalogs []Catalog) error { return writeLines(d, CatalogsFile, catalogs) }

// WriteNarration writes narration.json.
func (d Dir) WriteNarration(n Narration) error { return d.writeJSON(NarrationFile, n) }

func (d Dir) writeJSON(name string, v any) error {
	data, err := MarshalIndent(v)
	if err != nil {
		return err
	}
	return WriteFile(filepath.Join(string(d), name), data)
}

// AddStep appends a step to a trial whose recorder is closed. After a crash the file is as
// before or has the whole step. An earlier step with the same Ask is superseded.
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

// newAbove is how many parent directories may have been created with a trial's: those of the task, of
// all trials, and of the run.
const newAbove = 3

// Sync syncs all files of a trial's directory, the directory itself and the directories above it
// that may be new, so that they survive a loss of power.
func (d Dir) Sync() error {
	err := filepath.WalkDir(string(d), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() && !entry.Type().IsRegular() {
			return err
		}
		return syncPath(path)
	})
	above := string(d)
	for range newAbove {
		above = filepath.Dir(above)
		err = errors.Join(err, syncPath(above))
	}
	return err
}

// Marshal encodes v as a JSON line of a run directory: without HTML escaping, so that captured
// text stays readable.
func Marshal(v any) ([]byte, error) { return jsontext.Marshal(v) }

// MarshalIndent encodes v as a JSON document of a run directory: indented by two spaces,
// without HTML escaping, with a newline at the end.
func MarshalIndent(v any) ([]byte, error) {
	return jsontext.MarshalIndent(v)
}

// WriteFile replaces the file at path in one step and syncs it, so that a crash
// leaves the old content or the new and nothing between.
func WriteFile(path string, data []byte) error {
	return WriteFileBy(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// WriteFileBy is [WriteFile] for content that write writes. If write fails, the file at path
// stays as it is. If the file cannot be created, the error is a [fs.PathError] with path.
func WriteFileBy(path string, write func(io.Writer) error) (err error) {
	defer func() { err = explained(err) }()
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	}
	temp, err := os.CreateTemp(filepath.Dir(path), halfWritten(filepath.Base(path)))
	if err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: files.Cause(err)}
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	err = errors.Join(write(temp), temp.Chmod(0o644), temp.Sync(), temp.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), path); err != nil {
		return err
	}
	return syncPath(filepath.Dir(path))
}

// halfWritten returns the pattern of the temporary names of a file that is being written.
func halfWritten(name string) string { return "." + name + "-*" }

// RemoveHalfWritten removes the temporary files in dir that a crash during [WriteFile] left.
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

// syncPath syncs a directory, so that names in it are kept, or a file.
func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
