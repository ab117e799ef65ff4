package eval

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
)

// readSnapshot reads a snapshot that the run will write. If it is missing, it returns no content.
func (e *Eval) readSnapshot(name string) ([]byte, error) {
	if _, err := e.snapshotFile(name); err != nil {
		return nil, err
	}
	source, err := e.roots().inside(name)
	if err != nil {
		return []byte{}, nil
	}
	return source.read()
}

// WriteSnapshot writes a snapshot that a diff grader of the eval names, and returns created, updated or
// unchanged. It writes only in the eval's directory, and never through a link.
func (e *Eval) WriteSnapshot(name string, content []byte) (status string, err error) {
	if len(content) > maxRead {
		return "", fmt.Errorf("snapshot %q would have %d bytes, and at most %d are read", name, len(content), maxRead)
	}
	file, err := e.snapshotFile(name)
	if err != nil {
		return "", fmt.Errorf("snapshot %q %w", name, err)
	}
	old, err := files.Read(file, maxRead)
	switch {
	case err == nil && bytes.Equal(old, content):
		return "unchanged", nil
	case err == nil, errors.Is(err, files.ErrTooLarge):
		status, err = "updated", nil
	case errors.Is(err, fs.ErrNotExist):
		status, err = "created", files.MakeDir(filepath.Dir(file))
	}
	if err != nil {
		return "", err
	}
	return status, evidence.WriteFile(file, content)
}

// snapshotFile returns the path of a snapshot. The name of the snapshot is the subject of its errors.
func (e *Eval) snapshotFile(name string) (string, error) {
	if !files.IsInside(name) {
		return "", errOutside
	}
	dir, err := filepath.Abs(e.Dir())
	if err != nil {
		return "", err
	}
	path := filepath.FromSlash(name)
	file := filepath.Join(dir, path)
	for _, root := range e.roots()[1:] {
		from, err := filepath.Abs(root)
		if err != nil {
			return "", err
		}
		source, errFound := e.roots().find(path)
		if started := filepath.Join(from, path); errFound == nil && source.Dir == root || errFound != nil && isWithin(dir, started) {
			file = started
		}
	}
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return "", errors.New("is not in the eval's directory, and snapshots are written nowhere else")
	}
	for at := rel; at != "."; at = filepath.Dir(at) {
		info, err := os.Lstat(filepath.Join(dir, at))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", errors.New("cannot be written: " + cause(err))
		case at == rel && !info.Mode().IsRegular(), at != rel && !info.IsDir():
			return "", fmt.Errorf("cannot be written: %q is a link or no file, and snapshots are written through none", filepath.ToSlash(at))
		}
	}
	return e.Place(rel)
}
