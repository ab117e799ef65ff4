package eval

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// Limits of files next to an eval.
const (
	maxFileBytes      = 64 << 20
	MaxWorkspaceBytes = 256 << 20 // for all files of a task
	maxRead           = 1 << 20   // for a file whose content is read; each trial's evidence has a copy of a grader's
	maxFiles          = 10_000    // for a task, or a directory
)

// WorkspaceFile is a file of the workspace before the agent starts.
type WorkspaceFile struct {
	Path    string  // path in the workspace: clean, relative, with slashes
	Content []byte  // set if the task file contains the content
	Source  *Source // set otherwise
	Added   []byte  // appended to either of them
}

// Open reads the file's content.
func (f WorkspaceFile) Open() (io.ReadCloser, error) {
	if f.Source == nil {
		return io.NopCloser(io.MultiReader(bytes.NewReader(f.Content), bytes.NewReader(f.Added))), nil
	}
	source, err := f.Source.Open()
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(source, bytes.NewReader(f.Added)), source}, nil
}

// Size returns the size in bytes that the file had when the task was resolved.
func (f WorkspaceFile) Size() int64 {
	if f.Source == nil {
		return int64(len(f.Content) + len(f.Added))
	}
	return f.Source.Size + int64(len(f.Added))
}

// Executable reports whether the file is executable.
func (f WorkspaceFile) Executable() bool { return f.Source != nil && f.Source.Executable }

// Source is a regular file below a directory.
type Source struct {
	Dir, Path  string
	Size       int64
	Executable bool
}

// Open opens the file. It does not follow links that lead out of the directory.
func (s Source) Open() (io.ReadCloser, error) { return files.OpenIn(s.Dir, s.Path) }

// read reads the whole file, which must have at most maxRead bytes. The file's name is the subject of its
// errors.
func (s Source) read() ([]byte, error) {
	file, err := s.Open()
	if err != nil {
		return nil, errors.New("cannot be read: " + cause(err))
	}
	content, err := files.ReadFrom(file, maxRead)
	switch err := errors.Join(err, file.Close()); {
	case errors.Is(err, files.ErrTooLarge):
		return nil, err
	case err != nil:
		return nil, errors.New("cannot be read: " + cause(err))
	}
	return content, nil
}

// readText is like read for a text file.
func (s Source) readText() ([]byte, error) {
	content, err := s.read()
	if err != nil {
		return nil, err
	}
	return files.Text(content)
}

// Sources finds files next to the eval, including files in directories. Keys are absolute paths in a
// container. A file that is listed by itself takes precedence over one from a listed directory.
func Sources(e *Eval, wanted map[string]string) (map[string]Source, error) {
	files := make(map[string]Source, len(wanted))
	var errs []error
	for _, target := range slices.Sorted(maps.Keys(wanted)) {
		sources, err := e.roots().findAll(wanted[target])
		if err != nil {
			errs = append(errs, &fs.PathError{Op: "file for " + target, Path: wanted[target], Err: err})
			continue
		}
		for below, source := range sources {
			files[path.Join(target, below)] = source
		}
	}
	return files, errors.Join(errs...)
}

// roots are the directories that paths in an eval may be relative to: the eval's own and, if there is one,
// the directory that waza was started in.
type roots []string

// find returns the regular file at path in the first directory that has one. In directories other than the
// eval's own it ignores hidden files, except those of agents and of GitHub.
func (r roots) find(path string) (Source, error) {
	var first error
	for i, dir := range r {
		if i > 0 && isHidden(path) {
			continue
		}
		source, err := local(dir, path)
		if err == nil {
			return source, nil
		}
		if first == nil {
			first = err
		}
	}
	return Source{}, first
}

// findAll returns the regular file at path, under an empty key. If path is a directory, it returns its files,
// without git's, under their slash-separated paths in the directory.
func (r roots) findAll(path string) (map[string]Source, error) {
	source, err := r.find(path)
	if err == nil {
		return map[string]Source{"": source}, nil
	}
	at := slices.IndexFunc(r, func(root string) bool {
		info, err := statIn(root, filepath.ToSlash(path))
		return err == nil && info.IsDir() && (root == r[0] || !isHidden(path))
	})
	if at < 0 {
		return nil, err
	}
	names, err := filesBelow(filepath.Join(r[at], path), func(at string, _ fs.DirEntry) bool { return filepath.Base(at) == ".git" })
	if err == nil && len(names) == 0 {
		err = errors.New("is a directory without files")
	}
	found, size := map[string]Source{}, int64(0)
	for _, name := range names {
		source, fileErr := local(r[at], filepath.Join(path, filepath.FromSlash(name)))
		if fileErr != nil {
			return nil, fmt.Errorf("has a file %s that %w", name, fileErr)
		}
		if size += source.Size; size > MaxWorkspaceBytes {
			return nil, fmt.Errorf("is larger than %d MiB", MaxWorkspaceBytes>>20)
		}
		found[name] = source
	}
	return found, err
}

var errOutside = errors.New("must be in the eval's directory: a relative path that does not lead out")

// inside finds a file by its slash-separated path, which must not lead out of the directory.
func (r roots) inside(name string) (Source, error) {
	if !files.IsInside(name) {
		return Source{}, errOutside
	}
	return r.find(filepath.FromSlash(name))
}

// read reads a file. Its path is slash-separated, and must not lead out of the directory.
func (r roots) read(name string) ([]byte, error) {
	source, err := r.inside(name)
	if err != nil {
		return nil, err
	}
	return source.read()
}

func isHidden(path string) bool {
	return slices.ContainsFunc(strings.Split(filepath.ToSlash(filepath.Clean(path)), "/"), func(step string) bool {
		return strings.HasPrefix(step, ".") && !slices.Contains(agentDirectories(), step)
	})
}

// local finds the regular file at path in dir, without leaving dir.
func local(dir, path string) (Source, error) {
	file, err := files.OpenIn(dir, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Source{}, errors.New("does not exist in " + show(dir) + "; create it, or correct its path")
	case errors.Is(err, files.ErrNotRegular), errors.Is(err, syscall.EISDIR):
		return Source{}, files.ErrNotRegular
	case err != nil:
		return Source{}, errors.New("cannot be read in " + show(dir) + ": " + cause(err))
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return Source{}, err
	}
	if info.Size() > maxFileBytes {
		return Source{}, fmt.Errorf("is larger than %d MiB", maxFileBytes>>20)
	}
	return Source{Dir: dir, Path: path, Size: info.Size(), Executable: info.Mode()&0o111 != 0}, nil
}

// show returns dir for a message.
func show(dir string) string {
	if dir == "." {
		return "this directory"
	}
	return dir
}

func cause(err error) string { return files.Cause(err).Error() }

// readBelow reads a text file in dir.
func readBelow(dir, name string) ([]byte, error) {
	if !files.IsInside(name) {
		return nil, errors.New("must be a relative path that does not lead out of " + show(dir))
	}
	source, err := local(dir, filepath.FromSlash(name))
	if err != nil {
		return nil, err
	}
	return source.readText()
}

// filesBelow lists the files below a directory by their slash-separated paths in it. It omits those for which
// skip returns true.
func filesBelow(dir string, skip func(at string, entry fs.DirEntry) bool) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s cannot be read: %s", at, cause(err))
		case at != dir && skip(at, entry) && entry.IsDir():
			return fs.SkipDir
		case entry.IsDir() || skip(at, entry):
			return nil
		case len(names) == maxFiles:
			return fmt.Errorf("directory %s has more than %d files", show(dir), maxFiles)
		}
		name, err := filepath.Rel(dir, at)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	return names, err
}

// same reports whether two paths lead to the same directory.
func same(a, b string) bool {
	left, errLeft := os.Stat(a)
	right, errRight := os.Stat(b)
	return errLeft == nil && errRight == nil && os.SameFile(left, right)
}

// checkInside checks that a value, if not empty, is a path that does not lead out of the eval's directory.
// what describes the value, which is at the position at.
func checkInside(doc *strictyaml.Document, at strictyaml.Path, value, what string) {
	if value != "" && !files.IsInside(value) {
		doc.Problemf(at, "%s must be %s, relative, with / and without ..", at, what)
	}
}
