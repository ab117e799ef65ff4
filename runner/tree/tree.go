// Package tree carries trees of files as tar, in and out of directories that
// hostile programs write to: it never follows a link out of one, and never fails
// for what it finds there.
//
// It holds nothing in memory and bounds no size: writers do.
package tree

import (
	"archive/tar"
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
)

// Unpack writes a tar's tree into root and nowhere else: names that lead out of
// it, also through links, fail. So do those that takes, where it is not nil, does
// not take. Everything belongs to whoever runs it.
func Unpack(root *os.Root, r io.Reader, takes func(name string) bool) error {
	for in := tar.NewReader(r); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, r) // the padding behind the end
			return err
		}
		if err == nil && takes != nil && !takes(path.Clean(header.Name)) {
			err = fmt.Errorf("%s: there is no such place here", header.Name)
		}
		if err == nil {
			err = unpackEntry(root, header, in)
		}
		if err != nil {
			return err
		}
	}
}

func unpackEntry(root *os.Root, header *tar.Header, content io.Reader) error {
	name := path.Clean(header.Name)
	mode := header.FileInfo().Mode().Perm()
	if name == "." {
		return nil
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink:
		return root.Symlink(header.Linkname, name)
	case tar.TypeReg:
		file, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return errors.Join(err, file.Close())
	default:
		return fmt.Errorf("%s: entries of type %q are not put", header.Name, header.Typeflag)
	}
}

// Pack writes the tree under root as tar. Links are told, not followed; of what is
// neither file, directory nor link, that it is there. Links to a path of omit are
// left out, and so is a directory with nothing else in it. What its owner made
// unreadable is made readable first: nothing hides by its mode.
func Pack(root *os.Root, omit []string, w io.Writer) error {
	p := &packer{root: root, omit: omit, out: tar.NewWriter(w)}
	if err := p.dir("."); err != nil {
		return err
	}
	return p.out.Close()
}

// PackOne writes what stands at a path under root as a tar of that one entry: a file
// with its content, of a directory nothing that is in it. Where nothing is there the
// tar is empty; where a link stands on the way, it has the link.
func PackOne(root *os.Root, name string, w io.Writer) error {
	p := &packer{root: root, out: tar.NewWriter(w)}
	if err := p.one(strings.TrimPrefix(path.Clean("/"+name), "/")); err != nil {
		return err
	}
	return p.out.Close()
}

func (p *packer) one(name string) error {
	steps := strings.Split(name, "/")
	for i := range steps {
		at := path.Join(steps[:i+1]...)
		info, err := p.root.Lstat(at)
		switch {
		case errors.Is(err, syscall.ENOTDIR):
			return nil
		case err != nil:
			return unlessGone(err)
		case info.Mode().Type() == fs.ModeSymlink:
			return p.link(at, info)
		case i < len(steps)-1:
		case info.IsDir():
			return p.header(at+"/", info, "")
		default:
			return p.entry(at)
		}
	}
	return nil
}

type packer struct {
	root *os.Root
	omit []string
	out  *tar.Writer
}

func (p *packer) dir(name string) error {
	entries, err := fs.ReadDir(p.root.FS(), name)
	if err != nil {
		return unlessGone(err)
	}
	for _, entry := range entries {
		if err := p.entry(path.Join(name, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (p *packer) entry(name string) error {
	info, err := p.root.Lstat(name)
	if err != nil {
		return unlessGone(err)
	}
	switch info.Mode().Type() {
	case 0:
		return p.file(name, info)
	case fs.ModeSymlink:
		return p.link(name, info)
	case fs.ModeDir:
		if err := p.unlock(name, info, 0o700); err != nil {
			return err
		}
		if p.onlyOmitted(name) {
			return nil
		}
		if err := p.header(name+"/", info, ""); err != nil {
			return err
		}
		return p.dir(name)
	default:
		return p.special(name, info)
	}
}

// unlock gives the owner the rights in want.
func (p *packer) unlock(name string, info fs.FileInfo, want fs.FileMode) error {
	if info.Mode()&want == want {
		return nil
	}
	return p.root.Chmod(name, info.Mode().Perm()|want)
}

// special tells of a socket, a device or a pipe, all of them as a pipe.
func (p *packer) special(name string, info fs.FileInfo) error {
	return p.out.WriteHeader(&tar.Header{Typeflag: tar.TypeFifo, Name: name, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second)})
}

// onlyOmitted says whether a directory holds links to leave out and nothing else.
func (p *packer) onlyOmitted(name string) bool {
	entries, err := fs.ReadDir(p.root.FS(), name)
	for _, entry := range entries {
		target, linkErr := p.root.Readlink(path.Join(name, entry.Name()))
		if linkErr != nil || !slices.Contains(p.omit, target) {
			return false
		}
	}
	return err == nil && len(entries) > 0
}

func (p *packer) link(name string, info fs.FileInfo) error {
	target, err := p.root.Readlink(name)
	if err != nil {
		return unlessGone(err)
	}
	if slices.Contains(p.omit, target) {
		return nil
	}
	return p.header(name, info, target)
}

// file packs a regular file; one that grows or shrinks meanwhile is cut or padded
// to the size it had.
func (p *packer) file(name string, info fs.FileInfo) error {
	if err := p.unlock(name, info, 0o400); err != nil {
		return unlessGone(err)
	}
	// Without O_NONBLOCK a pipe put in the file's place meanwhile would hold us up.
	file, err := p.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return unlessGone(err)
	}
	defer func() { _ = file.Close() }()
	info, err = file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	if err := p.header(name, info, ""); err != nil {
		return err
	}
	n, err := io.CopyN(p.out, file, info.Size())
	if errors.Is(err, io.EOF) {
		_, err = io.CopyN(p.out, zeros{}, info.Size()-n)
	}
	return err
}

func (p *packer) header(name string, info fs.FileInfo, target string) error {
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name = strings.TrimPrefix(name, "./")
	header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
	header.Format = tar.FormatPAX
	header.ModTime = info.ModTime().Truncate(time.Second)
	return p.out.WriteHeader(header)
}

// unlessGone drops the error of an entry that went away meanwhile.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
