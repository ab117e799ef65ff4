package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
)

// Entry is an entry of a tar with its content.
type Entry struct {
	*tar.Header
	Path    string // cleaned name; may lead out of the tree
	Content io.Reader
}

// Kinds of entries.
const (
	File      = "file"
	Directory = "directory"
	Link      = "link"
	Special   = "special"
)

// Kind returns the kind of an entry.
func (e Entry) Kind() string {
	switch e.Typeflag {
	case tar.TypeReg:
		return File
	case tar.TypeDir:
		return Directory
	case tar.TypeSymlink:
		return Link
	}
	return Special
}

// Cut returns why the content of a packed file or directory was omitted, or "".
func (e Entry) Cut() string { return e.PAXRecords[cutRecord] }

// Closed reports whether the entry is the packed directory itself, and that was closed to its
// owner.
func (e Entry) Closed() bool { return e.Path == "." && isClosed(e.FileInfo().Mode()) }

func isClosed(mode fs.FileMode) bool { return mode&0o500 != 0o500 }

// HasHoles reports whether a file is sparse, so that it may be much larger than its tar.
func (e Entry) HasHoles() bool {
	if e.Typeflag == tar.TypeGNUSparse {
		return true
	}
	for key := range e.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// Head returns the bytes of the entry's header, including extended headers.
func (e Entry) Head() ([]byte, error) {
	var out bytes.Buffer
	err := tar.NewWriter(&out).WriteHeader(e.Header)
	return out.Bytes(), err
}

// Entries yields the entries of a tar in order, and an error if it cannot be read to its
// end. The content of an entry is valid until the next. Nothing is followed or limited: the
// tar may be hostile, and a sparse file may be much larger than the tar.
func Entries(r io.Reader) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for in := tar.NewReader(r); ; {
			header, err := in.Next()
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil && !errors.Is(err, tar.ErrInsecurePath): // callers check the paths
				yield(Entry{}, err)
				return
			}
			if !yield(Entry{header, path.Clean(header.Name), in}, nil) {
				return
			}
		}
	}
}

// First returns the first entry of a tar, or io.EOF if it is empty.
func First(r io.Reader) (Entry, error) {
	for e, err := range Entries(r) {
		return e, err
	}
	return Entry{}, io.EOF
}

// Winds reports whether the target of a link climbs after it has descended. Then it depends on other links where
// it leads.
func Winds(target string) bool {
	descends := path.IsAbs(target)
	for part := range strings.SplitSeq(target, "/") {
		if part == ".." && descends {
			return true
		}
		descends = descends || part != "" && part != "." && part != ".."
	}
	return false
}
