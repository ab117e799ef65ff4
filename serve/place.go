package serve

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// errNotThere says that there is no such run, trial or file.
var errNotThere = errors.New("is not there")

const (
	// maxDocument is how many bytes a JSON document of a run may have to be read.
	maxDocument = 64 << 20
	// maxRecords is how many bytes lines of JSON may have together, or documents of a run
	// that are large.
	maxRecords = 1 << 30
	// maxEntries is how many files and directories a run may have to be shown.
	maxEntries = 1 << 18
	// maxDepth is how many directories may lie in each other. A run has a handful; to open
	// one costs as many steps as it lies deep.
	maxDepth = 32
)

// tree is a directory of which nothing outside can be read, whatever links in it say, or
// become while it is read: an [os.Root].
type tree interface {
	Lstat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error)
	OpenRoot(name string) (*os.Root, error)
	Close() error
}

// place is the directory of one run. No link in it is followed that was there when it was
// looked at, and none that came since leads out of it.
type place struct {
	root tree
	dir  string
}

// openPlace opens the run of that name among those of dir.
func openPlace(dir, id string) (*place, error) {
	all, err := os.OpenRoot(dir)
	if err != nil {
		return nil, missing(err)
	}
	defer func() { _ = all.Close() }()
	root, err := openIn(all, id)
	if err != nil {
		return nil, err
	}
	return &place{root: root, dir: filepath.Join(dir, id)}, nil
}

// openIn opens a run's directory, which is one of all.
func openIn(all tree, id string) (*os.Root, error) {
	if !isName(id) {
		return nil, errNotThere
	}
	info, err := all.Lstat(id)
	if err != nil || !info.IsDir() {
		return nil, errors.Join(errNotThere, err)
	}
	root, err := all.OpenRoot(id)
	return root, missing(err)
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
	if !fs.ValidPath(name) || strings.Contains(name, "\x00") || strings.Count(name, "/") > maxDepth {
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

// read reads a JSON document.
func (p *place) read(name string) ([]byte, error) {
	file, info, err := p.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if info.Size() > maxDocument {
		return nil, tooLarge(name, info.Size(), maxDocument)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxDocument))
	if err == nil && jsontext.MoreThan(jsontext.MaxValues, data) {
		err = fmt.Errorf("%s has more than %d values", name, jsontext.MaxValues)
	}
	return data, err
}
