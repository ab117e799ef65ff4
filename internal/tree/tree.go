// Package tree packs and unpacks file trees as tar, in directories that hostile programs
// write to, without following links out of them.
//
// It holds no content in memory and limits no sizes; writers must do so.
package tree

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/internal/defence"
)

// Unpack unpacks a tar into root. It returns an error for names that lead out of root,
// including through links, and for names rejected by takes, if not nil. The files belong to
// the user of this process.
func Unpack(root *os.Root, r io.Reader, takes func(name string) bool) error {
	for e, err := range Entries(r) {
		if err == nil && takes != nil && !takes(e.Path) {
			err = fmt.Errorf("%s: not a valid path here", e.Name)
		}
		if err == nil {
			err = unpackEntry(root, e)
		}
		if err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, r) // the padding after the end
	return err
}

func unpackEntry(root *os.Root, e Entry) error {
	name := e.Path
	mode := e.FileInfo().Mode().Perm()
	if name == "." {
		return nil
	}
	mkdirAll, openFile, at := root.MkdirAll, root.OpenFile, name
	if !defence.ConfinedTrees { // a name may lead anywhere
		mkdirAll, openFile, at = os.MkdirAll, os.OpenFile, path.Join(root.Name(), name)
	}
	if err := mkdirAll(path.Dir(at), 0o755); err != nil {
		return err
	}
	switch e.Typeflag {
	case tar.TypeDir:
		return mkdirAll(at, mode|0o700)
	case tar.TypeSymlink:
		return root.Symlink(e.Linkname, name)
	case tar.TypeReg:
		file, err := openFile(at, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, e.Content)
		if !defence.PlainRights {
			err = errors.Join(err, file.Chmod(e.FileInfo().Mode()))
		}
		return errors.Join(err, file.Close())
	default:
		return fmt.Errorf("%s: entries of type %q are not put", e.Name, e.Typeflag)
	}
}

// MaxDepth is the maximum depth of packed directories. Each level needs a file descriptor.
const MaxDepth = 128

// cutRecord is the PAX record of a directory with the reason why its content was omitted.
const cutRecord = "WAZA.cut"

// Pack writes the tree of the directory at a path under root as tar. Links are packed as links and
// never followed; sockets, devices and pipes are packed as empty entries. Links to a path in omit
// are omitted, as are directories that contain nothing else.
//
// Nothing in the tree can hide it. Pack first makes directories and files readable for their owner:
// the directory itself, those above it, and its content. If the directory itself was closed, the
// first entry is "./" with its original mode; see [Entry.Closed]. Entries that still cannot be read
// are packed without content, as are directories deeper than [MaxDepth]; [Entry.Cut] says why. So
// Pack fails only if w fails, the disk fails, or there is no directory at the path.
func Pack(root *os.Root, name string, omit []string, w io.Writer) error {
	p := &packer{omit: omit, out: tar.NewWriter(w)}
	info, err := reach(root, name)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return err
	}
	if err := p.top(found{root, name, "./", info}); err != nil {
		return err
	}
	return p.out.Close()
}

// reach returns the file info of a path, without following a link there. It makes the directories
// above searchable for their owner.
func reach(root *os.Root, name string) (fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if !errors.Is(err, fs.ErrPermission) || name == "." || !defence.RestoredRights {
		return info, err
	}
	above := path.Dir(name)
	info, err = reach(root, above)
	if err != nil {
		return nil, err
	}
	_ = unlock(found{root, above, above, info}, 0o700)
	return root.Lstat(name)
}

// top packs the content of the root of the tree.
func (p *packer) top(f found) error {
	if f.closed() && !defence.RestoredRights {
		return fs.ErrPermission
	}
	dir, names, err := enter(f)
	if err != nil && !defence.EveryName {
		return err
	}
	if err != nil {
		return p.unread(f, err)
	}
	defer func() { _ = dir.Close() }()
	if f.closed() {
		if err := p.header(f.path, f.info, "", ""); err != nil {
			return err
		}
	}
	return p.all(dir, ".", names, 1)
}

// closed reports whether a directory is closed to its owner.
func (f found) closed() bool { return isClosed(f.info.Mode()) }

// PackOne writes the file, directory or link at a path under root as a tar with one entry; a
// directory without its content. If the path does not exist, the tar is empty. If the path leads
// through a link, the tar contains that link. Like [Pack], it makes files readable if it may.
func PackOne(root *os.Root, name string, w io.Writer) error {
	p := &packer{out: tar.NewWriter(w)}
	if err := p.one(root, strings.TrimPrefix(path.Clean("/"+name), "/")); err != nil {
		return err
	}
	return p.out.Close()
}

func (p *packer) one(root *os.Root, name string) error {
	steps := strings.Split(name, "/")
	for i := range steps {
		at := path.Join(steps[:i+1]...)
		info, err := reach(root, at)
		switch {
		case errors.Is(err, syscall.ENOTDIR):
			return nil
		case err != nil:
			return unlessGone(err)
		case info.Mode().Type() == fs.ModeSymlink:
			return p.link(found{root, at, at, info})
		case i < len(steps)-1:
		case info.IsDir():
			return p.header(at+"/", info, "", "")
		default:
			return p.entry(found{root, at, at, info}, 1)
		}
	}
	return nil
}

type packer struct {
	omit []string
	out  *tar.Writer
}

// found is a directory entry, with its name in the directory and its path in the tree.
type found struct {
	dir  *os.Root
	name string
	path string
	info fs.FileInfo
}

// all packs the entries of a directory.
func (p *packer) all(dir *os.Root, at string, names []string, depth int) error {
	for _, name := range names {
		f := found{dir: dir, name: name, path: path.Join(at, name)}
		var err error
		if f.info, err = dir.Lstat(name); err == nil {
			err = p.entry(f, depth)
		} else {
			err = p.unread(f, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unread packs an entry that cannot be read, without content. It skips entries that have been
// removed, and returns errors of the disk, which programs cannot cause.
func (p *packer) unread(f found, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, syscall.EIO) || !defence.ReadableRest {
		return err
	}
	why := "cannot be read: " + err.Error()
	if cause := new(fs.PathError); errors.As(err, &cause) {
		why = "cannot be read: " + cause.Err.Error()
	}
	switch {
	case f.info == nil:
		return p.write(&tar.Header{Typeflag: tar.TypeReg, Name: f.path}, why)
	case f.info.IsDir():
		return p.header(strings.TrimSuffix(f.path, "/")+"/", f.info, "", why)
	}
	return p.write(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: int64(f.info.Mode().Perm())}, why)
}

// Names returns the sorted names in a directory. fs.ReadDir would reject directories whose
// own name is not UTF-8.
func Names(dir *os.Root) ([]string, error) {
	file, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	names, err := file.Readdirnames(-1)
	if !defence.EveryName && slices.ContainsFunc(names, func(name string) bool { return !fs.ValidPath(name) }) {
		return nil, fs.ErrInvalid
	}
	slices.Sort(names)
	return names, err
}

func (p *packer) entry(f found, depth int) error {
	switch f.info.Mode().Type() {
	case 0:
		return p.file(f)
	case fs.ModeSymlink:
		if !defence.LinksAsLinks {
			return p.followed(f)
		}
		return p.link(f)
	case fs.ModeDir:
		return p.dir(f, depth)
	default:
		if !defence.UnopenedPipes {
			return errors.Join(p.file(f), p.special(f))
		}
		return p.special(f)
	}
}

func (p *packer) dir(f found, depth int) error {
	levels := MaxDepth
	if !defence.FewLevels {
		levels *= 8
	}
	if depth > levels {
		return p.header(f.path+"/", f.info, "", fmt.Sprintf("is deeper than %d directories", MaxDepth))
	}
	dir, names, err := enter(f)
	if err != nil && !defence.EveryName {
		return err
	}
	if err != nil {
		return p.unread(f, err)
	}
	defer func() { _ = dir.Close() }()
	if p.onlyOmitted(dir, names) {
		return nil
	}
	if err := p.header(f.path+"/", f.info, "", ""); err != nil {
		return err
	}
	return p.all(dir, f.path, names, depth+1)
}

// enter opens and lists a directory.
func enter(f found) (*os.Root, []string, error) {
	locked := unlock(f, 0o700)
	dir, err := f.dir.OpenRoot(f.name)
	if err != nil {
		return nil, nil, cmp.Or(locked, err)
	}
	names, err := Names(dir)
	if err != nil {
		_ = dir.Close()
	}
	return dir, names, err
}

// unlock adds the permissions in want for the owner.
func unlock(f found, want fs.FileMode) error {
	if f.info.Mode()&want == want {
		return nil
	}
	return f.dir.Chmod(f.name, f.info.Mode().Perm()|want)
}

// special packs a socket, a device or a pipe as a pipe.
func (p *packer) special(f found) error {
	return p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeFifo, Name: f.path, Mode: int64(f.info.Mode().Perm()), ModTime: f.info.ModTime().Truncate(time.Second)})
}

// onlyOmitted reports whether a directory contains only links to omit.
func (p *packer) onlyOmitted(dir *os.Root, names []string) bool {
	for _, name := range names {
		target, err := dir.Readlink(name)
		if err != nil || !slices.Contains(p.omit, target) {
			return false
		}
	}
	return len(names) > 0
}

func (p *packer) link(f found) error {
	target, err := f.dir.Readlink(f.name)
	if err != nil {
		return p.unread(f, err)
	}
	if slices.Contains(p.omit, target) {
		return nil
	}
	return p.header(f.path, f.info, target, "")
}

// followed packs a link as the file that it leads to, if any.
func (p *packer) followed(f found) error {
	target, err := f.dir.Readlink(f.name)
	if err != nil {
		return unlessGone(err)
	}
	data, err := os.ReadFile(target)
	if err != nil {
		return p.link(f)
	}
	if err := p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: 0o644, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err = p.out.Write(data)
	return err
}

// file packs a regular file. If it grows or shrinks meanwhile, it is truncated or padded to its
// original size. If it cannot be read to its end, a second entry says so.
func (p *packer) file(f found) error {
	locked := unlock(f, 0o400)
	flags := os.O_RDONLY
	if defence.UnopenedPipes {
		flags |= syscall.O_NONBLOCK // a pipe that replaced the file would block
	}
	file, err := f.dir.OpenFile(f.name, flags, 0)
	if err != nil {
		return p.unread(f, cmp.Or(locked, err))
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("something else is there by now")
	}
	if err != nil {
		return p.unread(f, err)
	}
	if err := p.header(f.path, info, "", ""); err != nil {
		return err
	}
	content := &reading{file: file}
	n, err := io.CopyN(p.out, content, info.Size())
	if content.err == nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := io.CopyN(p.out, zeros{}, info.Size()-n); err != nil || content.err == nil {
		return err
	}
	return p.unread(f, content.err)
}

// reading is a file that remembers why it cannot be read.
type reading struct {
	file *os.File
	err  error
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	if !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

func (p *packer) header(name string, info fs.FileInfo, target, cut string) error {
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name = name
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	header.ModTime = info.ModTime().Truncate(time.Second)
	return p.write(header, cut)
}

// write writes a header, with the reason why content was omitted, if it was.
func (p *packer) write(header *tar.Header, cut string) error {
	header.Format = tar.FormatPAX
	if cut != "" {
		header.PAXRecords = map[string]string{cutRecord: cut}
	}
	return p.out.WriteHeader(header)
}

// unlessGone returns nil if an entry was removed meanwhile, and err otherwise.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
