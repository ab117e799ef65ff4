package evidence

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/jsontext"
)

// WriteTrial writes trial.json.
func (d Dir) WriteTrial(t Trial) error { return WriteJSON(filepath.Join(string(d), TrialFile), t) }

// WriteVerdicts writes verdicts.json.
func (d Dir) WriteVerdicts(v Verdicts) error {
	return WriteJSON(filepath.Join(string(d), VerdictsFile), v)
}

// WriteCalls writes calls.jsonl.
func (d Dir) WriteCalls(calls []Call) error { return writeLines(d, CallsFile, calls) }

// WriteCatalogs writes catalogs.jsonl.
func (d Dir) WriteCatalogs(catalogs []Catalog) error { return writeLines(d, CatalogsFile, catalogs) }

// WriteNarration writes narration.json.
func (d Dir) WriteNarration(n Narration) error {
	return WriteJSON(filepath.Join(string(d), NarrationFile), n)
}

// AddStep appends a step to a trial whose recorder is closed, atomically even if the runner
// crashes. It supersedes an earlier step with the same Ask.
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

// newAbove is the number of parent directories that may have been created with a trial's:
// those of the task, of all trials, and of the run.
const newAbove = 3

// Sync syncs the files of a trial's directory, the directory itself and parent directories
// that may be new, so that they survive a power failure.
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

// Marshal encodes v as one line of JSON, without HTML escaping so that captured text stays
// readable.
func Marshal(v any) ([]byte, error) { return jsontext.Marshal(v) }

// MarshalIndent encodes v as a JSON document, indented by two spaces and without HTML
// escaping, ending with a newline.
func MarshalIndent(v any) ([]byte, error) {
	return jsontext.MarshalIndent(v)
}

// WriteJSON writes v to the file at path, encoded by [MarshalIndent], like [WriteFile].
func WriteJSON(path string, v any) error {
	data, err := MarshalIndent(v)
	if err != nil {
		return err
	}
	return WriteFile(path, data)
}

// WriteFile replaces the file at path atomically and syncs it, so that after a crash it has
// either the old or the new content.
func WriteFile(path string, data []byte) error {
	return explained(files.Write(path, data))
}

// WriteFileBy is like [WriteFile], with the content written by a function. If that fails
// the file at path is unchanged. If the file cannot be created the error is a
// [fs.PathError] with path.
func WriteFileBy(path string, write func(io.Writer) error) error {
	return explained(files.Replace(path, write))
}

// syncPath syncs a file, or a directory so that its entries are kept.
func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
