package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ErrLink is wrapped by errors about links in the path of a file to write.
var ErrLink = errors.New("is a link, through which waza does not write")

// Named returns a directory that a user named, with its links resolved: users know where their
// links lead, and the other functions of this package follow none. A path that does not exist yet,
// or cannot be resolved, is returned unchanged.
func Named(dir string) string {
	at, rest := filepath.Clean(dir), ""
	for at != filepath.Dir(at) {
		if resolved, err := filepath.EvalSymlinks(at); err == nil {
			at = resolved
			break
		}
		at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest)
	}
	if at = filepath.Join(at, rest); at == filepath.Clean(dir) && dir != "" {
		return dir
	}
	return at
}

// NamedFile is like [Named] for a file. It does not resolve a link in place of the file itself.
func NamedFile(file string) string {
	return filepath.Join(Named(filepath.Dir(file)), filepath.Base(file))
}

// Dir opens a directory for writing in it. It follows no links in the path. Operations in the
// directory cannot leave it, even if somebody changes its parents.
func Dir(path string) (*os.Root, error) { return walk(path, false) }

// MakeDir creates a directory and its parents. It follows no links in the path.
func MakeDir(path string) error {
	root, err := walk(path, true)
	if err != nil {
		return pathError("mkdir", path, err)
	}
	return root.Close()
}

// walk opens a directory step by step, and creates missing ones if makes is set.
func walk(path string, makes bool) (*os.Root, error) {
	at, rest := ".", filepath.Clean(path)
	if filepath.IsAbs(rest) {
		at, rest = "/", rest[1:]
	}
	for above := ".." + string(filepath.Separator); rest == ".." || strings.HasPrefix(rest, above); {
		at, rest = filepath.Join(at, ".."), cmp.Or(strings.TrimPrefix(rest[2:], "/"), ".")
	}
	root, err := os.OpenRoot(at)
	if err != nil || rest == "." || rest == "" {
		return root, err
	}
	for name := range strings.SplitSeq(rest, string(filepath.Separator)) {
		at = filepath.Join(at, name)
		next, err := step(root, name, makes)
		_ = root.Close() // nothing was written through it
		if errors.Is(err, ErrLink) {
			err = fmt.Errorf("%s %w", at, ErrLink)
		}
		if err != nil {
			return nil, pathError("open", path, err)
		}
		root = next
	}
	return root, nil
}

// step opens the directory name in root, which must not be a link. If makes is set and it does not
// exist, step creates it.
func step(root *os.Root, name string, makes bool) (*os.Root, error) {
	if makes {
		if err := root.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	before, err := root.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case before.Mode()&fs.ModeSymlink != 0:
		return nil, ErrLink
	case !before.IsDir():
		return nil, syscall.ENOTDIR
	}
	next, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if now, err := next.Lstat("."); err != nil || !os.SameFile(before, now) { // replaced in the meantime
		return nil, errors.Join(ErrLink, next.Close())
	}
	return next, nil
}

// pathError returns an error about a path with the reason, without details of the lookup.
func pathError(op, path string, err error) error {
	return &fs.PathError{Op: op, Path: path, Err: Cause(err)}
}

// in calls do with the directory of path and the name in it. Its error names path.
func in(op, path string, do func(root *os.Root, name string) error) error {
	root, err := Dir(filepath.Dir(path))
	if err != nil {
		return pathError(op, path, err)
	}
	defer func() { _ = root.Close() }()
	if err := do(root, filepath.Base(path)); err != nil {
		return pathError(op, path, err)
	}
	return nil
}

// Create opens a regular file for writing, with additional flags of [os.OpenFile], and creates it
// if it does not exist. It follows no links.
func Create(path string, flags int) (file *os.File, err error) {
	err = in("write", path, func(root *os.Root, name string) error {
		if err := writable(root, name); err != nil {
			return err
		}
		file, err = root.OpenFile(name, os.O_CREATE|flags&^os.O_TRUNC|syscall.O_NONBLOCK, 0o644)
		if err != nil {
			return err
		}
		err = only(file)
		if err == nil && flags&os.O_TRUNC != 0 {
			err = file.Truncate(0)
		}
		if err != nil {
			_ = file.Close()
		}
		return err
	})
	return file, err
}

// only returns an error if an open file is not regular, or has another hard link, whose content
// would change too.
func only(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrNotRegular
	}
	if isHardLink(info) {
		return errors.New("it is a hard link, and what it leads to would change too")
	}
	return nil
}

// Write replaces the content of a file like [Replace].
func Write(path string, content []byte) error {
	return Replace(path, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Writable returns the error that [Replace] would return because of a link in the path, or because
// path is not a regular file.
func Writable(path string) error { return in("write", path, writable) }

// writable returns an error if name exists and is not a regular file.
func writable(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.IsDir():
		return syscall.EISDIR
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("it %w", ErrLink)
	case !info.Mode().IsRegular():
		return ErrNotRegular
	}
	return nil
}

// Remove removes a file, a link or an empty directory. It follows no links.
func Remove(path string) error {
	return in("remove", path, func(root *os.Root, name string) error { return root.Remove(name) })
}

// RemoveAll removes a file or a directory with its content. It follows no links.
func RemoveAll(path string) error {
	err := in("remove", path, func(root *os.Root, name string) error { return root.RemoveAll(name) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Replace replaces a file atomically with the output of write, and syncs it, so that after a crash
// the file has either the old or the new content. If write fails, the file is unchanged. A new file
// is readable by everyone; an existing file keeps its permissions. Replace follows no links.
func Replace(path string, write func(io.Writer) error) error {
	root, err := Dir(filepath.Dir(path))
	if err != nil {
		return pathError("write", path, err)
	}
	defer func() { _ = root.Close() }()
	name := filepath.Base(path)
	if err := writable(root, name); err != nil {
		return pathError("write", path, err)
	}
	temp, half, err := createHalf(root, name)
	if err != nil {
		return pathError("write", path, err)
	}
	mode := fs.FileMode(0o644)
	if before, err := root.Lstat(name); err == nil {
		mode = before.Mode().Perm()
	}
	err = errors.Join(write(temp), temp.Chmod(mode), temp.Sync(), temp.Close())
	if err == nil {
		err = root.Rename(half, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(half))
	}
	return syncDir(root)
}

// halfWritten returns the pattern for names of temporary files of name.
func halfWritten(name string) string { return "." + name + "-*" }

func createHalf(root *os.Root, name string) (*os.File, string, error) {
	for range 100 {
		half := strings.Replace(halfWritten(name), "*", strconv.FormatUint(rand.Uint64(), 36), 1)
		file, err := root.OpenFile(half, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if !errors.Is(err, fs.ErrExist) {
			return file, half, err
		}
	}
	return nil, "", fmt.Errorf("temporary files of %s: %w", name, fs.ErrExist)
}

// RemoveHalfWritten removes the temporary files that a crash during [Replace] left in dir.
func RemoveHalfWritten(dir string) error {
	root, err := Dir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if half, _ := filepath.Match(halfWritten("*"), e.Name()); half && e.Type().IsRegular() {
			err = errors.Join(err, root.Remove(e.Name()))
		}
	}
	return err
}

// syncDir syncs a directory, so that its entries survive a crash.
func syncDir(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
