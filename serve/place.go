package serve

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/evidence"
)

// errNotThere says that there is no such run, trial or file.
var errNotThere = errors.New("is not there")

const (
	// maxDocument is how many bytes a JSON document of a run may have to be read.
	maxDocument = 64 << 20
	// maxRecords is how many bytes lines of JSON may have together.
	maxRecords = 1 << 30
	// maxEntries is how many files and directories a run may have to be shown.
	maxEntries = 1 << 18
)

// place is the directory of one run. Nothing outside of it can be read through it, and no
// link in it is followed.
type place struct {
	root *os.Root
	dir  string
}

// openPlace opens the run of that name among those of dir.
func openPlace(dir, id string) (*place, error) {
	if !isName(id) {
		return nil, errNotThere
	}
	all, err := os.OpenRoot(dir)
	if err != nil {
		return nil, missing(err)
	}
	defer func() { _ = all.Close() }()
	info, err := all.Lstat(id)
	if err != nil || !info.IsDir() {
		return nil, errors.Join(errNotThere, err)
	}
	root, err := all.OpenRoot(id)
	if err != nil {
		return nil, missing(err)
	}
	opened, err := root.Stat(".")
	if err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(errNotThere, err, root.Close())
	}
	return &place{root: root, dir: filepath.Join(dir, id)}, nil
}

// isName says whether a name is that of an entry of a directory that is not hidden.
func isName(name string) bool {
	return name != "" && !strings.HasPrefix(name, ".") && !strings.ContainsAny(name, "/\x00")
}

// missing is err, as errNotThere where it says that.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return errNotThere
	}
	return err
}

func (p *place) Close() error { return p.root.Close() }

// stat tells of a file by its path, of which no part may be a link.
func (p *place) stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) || strings.Contains(name, "\x00") {
		return nil, errNotThere
	}
	for at, c := range name {
		if c != '/' {
			continue
		}
		if above, err := p.root.Lstat(name[:at]); err != nil || !above.IsDir() {
			return nil, errors.Join(errNotThere, err)
		}
	}
	info, err := p.root.Lstat(name)
	return info, missing(err)
}

// open opens a regular file.
func (p *place) open(name string) (*os.File, fs.FileInfo, error) {
	info, err := p.stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is no file: %w", name, errNotThere)
	}
	file, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, missing(err)
	}
	opened, err := file.Stat()
	if err != nil || !os.SameFile(info, opened) {
		return nil, nil, errors.Join(errNotThere, err, file.Close())
	}
	return file, opened, nil
}

// read reads a file that has at most so many bytes.
func (p *place) read(name string, most int64) ([]byte, error) {
	file, info, err := p.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info.Size() > most {
		return nil, fmt.Errorf("%s has %d bytes, and at most %d are read", name, info.Size(), most)
	}
	return io.ReadAll(io.LimitReader(file, most))
}

// isPlain fails where something below name is neither a file nor a directory, so that a
// reader of it would be led away, or is too large for one.
func (p *place) isPlain(name string) error {
	if _, err := p.stat(name); err != nil {
		return err
	}
	count := 0
	return fs.WalkDir(p.root.FS(), name, func(name string, entry fs.DirEntry, err error) error {
		if count++; count > maxEntries {
			return fmt.Errorf("there are more than %d files", maxEntries)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it went while this looked
		case err != nil || entry.IsDir():
			return err
		case !entry.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a directory, and a run has nothing else: it is not followed", name)
		}
		return hasRoom(name, entry)
	})
}

// hasRoom fails for a file that a reader holds and that is too large for that. Frames and
// results are read piece by piece, and trees and output in part.
func hasRoom(name string, entry fs.DirEntry) error {
	most, held := map[string]int64{".json": maxDocument, ".jsonl": maxRecords}[path.Ext(name)]
	if base := path.Base(name); !held || base == evidence.FramesFile || base == runner.ResultsFile {
		return nil
	}
	info, err := entry.Info()
	if err != nil {
		return nil // it went while this looked
	}
	if info.Size() > most {
		return fmt.Errorf("%s has %d bytes, and at most %d are read", name, info.Size(), most)
	}
	return nil
}
