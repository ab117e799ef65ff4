package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/sandbox"
)

// runDir is a run directory that this process has created and holds.
type runDir struct {
	path string
	held *os.File
	made []string // directories that were created, innermost first
}

// ownDir is where runs and inspections are if no other directory is named.
const ownDir = ".waza"

// gitIgnore is the file that keeps ownDir out of git.
var gitIgnore = filepath.Join(ownDir, ".gitignore")

// makeDir makes a directory and its parents. If it makes [ownDir], it adds [gitIgnore].
func makeDir(path string) error {
	_, missing := os.Lstat(ownDir)
	err := files.MakeDir(path)
	if err == nil && missing != nil {
		_ = evidence.WriteFile(gitIgnore, []byte("*\n")) // fails if path is elsewhere
	}
	return err
}

// NamedDir returns the directory that a user named, with its links resolved. It does not resolve a
// link in place of [ownDir], which someone else may have made: nothing is written through it.
func NamedDir(dir string) string {
	first, _, _ := strings.Cut(filepath.Clean(dir), string(filepath.Separator))
	if first == ownDir {
		return dir
	}
	return files.Named(dir)
}

func makeRunDir(path string) (*runDir, error) {
	d := &runDir{path: path}
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		d.made = append(d.made, dir)
	}
	err := makeDir(path)
	if err != nil {
		err = mistake("the run directory cannot be made: %w; name another with --run-dir", err)
	} else {
		d.held, err = Hold(path)
	}
	if err != nil {
		d.removeMade()
		return nil, err
	}
	return d, nil
}

// abandon removes the directory of a run that started no trial, unless others have put files
// there.
func (d *runDir) abandon() error {
	defer d.removeMade()
	if err := files.Remove(filepath.Join(d.path, RunFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (d *runDir) removeMade() {
	for _, dir := range d.made {
		if entries, _ := os.ReadDir(dir); dir == ownDir && len(entries) == 1 {
			_ = files.Remove(gitIgnore)
		}
		if files.Remove(dir) != nil {
			return // not empty
		}
	}
}

// Latest returns the path of the newest run directory in dir, among those with a name that waza
// generated, or "".
func Latest(dir string) (latest string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	second, began := "", time.Time{} // the second in its name, and its exact start time
	for _, entry := range slices.Backward(entries) {
		named := idSecond.FindString(entry.Name())
		if named == "" || second != "" && named != second {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		if record, err := ReadRecord(path); err == nil && (second == "" || record.Started.After(began)) {
			latest, second, began = path, named, record.Started
		}
	}
	return latest, nil
}

// Hold locks a run directory for this process until the returned file is closed or the process
// exits. It returns [sandbox.ErrAlive] if another process holds it. On file systems without
// locks it does nothing.
func Hold(dir string) (*os.File, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if errors.Is(files.Lock(file, false), files.ErrLocked) {
		return nil, errors.Join(fmt.Errorf("%s: %w", dir, sandbox.ErrAlive), file.Close())
	}
	mark(file)
	return file, nil
}

// holdRun holds the run directory dir until held is closed, and reads its record. It returns
// [sandbox.ErrAlive] if another process holds it, and a [Mistake] if it is not a run directory.
func holdRun(dir string) (record Record, held io.Closer, err error) {
	if _, err := os.Lstat(filepath.Join(dir, RunFile)); err != nil { // opening a pipe would block
		if _, err := ReadRecord(dir); err != nil {
			return record, nil, Mistake{err}
		}
	}
	held, err = Hold(dir)
	if err != nil {
		return record, nil, err
	}
	record, err = ReadRecord(dir) // read again, now that nobody else writes to it
	if err != nil {
		return record, nil, errors.Join(Mistake{err}, held.Close())
	}
	return record, held, nil
}
