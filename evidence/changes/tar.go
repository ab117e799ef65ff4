package changes

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/tree"
)

// Kinds of entries.
const (
	File      = "file"
	Directory = "directory"
	Link      = "link"
	Special   = "special"
)

// maxPath is how many bytes the path of an entry that is compared may have, and the
// target of a link.
const maxPath = 4096

// newSeed makes sums that nobody can have foreseen.
func newSeed() maphash.Seed { return maphash.MakeSeed() }

// list reads a tar's entries. The gap says why some are not there.
func list(open Opener, seed maphash.Seed, most Bounds) (entries map[string]Entry, gap string, err error) {
	entries = map[string]Entry{}
	err = walk(open, most.Read, func(name string, header *tar.Header, content io.Reader) error {
		if len(entries) == most.Entries {
			return fmt.Errorf("only the first %d entries are compared", most.Entries)
		}
		entry := entryOf(header)
		if entry.Kind == File {
			var sum maphash.Hash
			sum.SetSeed(seed)
			if _, err := io.Copy(&sum, content); err != nil {
				return err
			}
			entry.sum = sum.Sum64()
		}
		entries[name] = entry
		return nil
	})
	var broken *brokenError
	if errors.As(err, &broken) {
		return entries, broken.Error(), nil
	}
	return entries, "", err
}

func entryOf(header *tar.Header) Entry {
	entry := Entry{Mode: header.FileInfo().Mode().Perm(), Cut: tree.Cut(header)}
	switch header.Typeflag {
	case tar.TypeReg:
		entry.Kind, entry.Size = File, header.Size
	case tar.TypeDir:
		entry.Kind = Directory
	case tar.TypeSymlink:
		// A link's own mode means nothing.
		entry.Kind, entry.Mode, entry.Target = Link, 0, header.Linkname[:min(len(header.Linkname), maxPath)]
	default:
		entry.Kind = Special
	}
	return entry
}

// contents reads the wanted files.
func contents(open Opener, wanted map[string]bool, most Bounds) (map[string][]byte, error) {
	found := map[string][]byte{}
	err := walk(open, most.Read, func(name string, header *tar.Header, content io.Reader) error {
		if !wanted[name] || header.Typeflag != tar.TypeReg {
			return nil
		}
		var err error
		found[name], err = io.ReadAll(io.LimitReader(content, most.Text))
		return err
	})
	var broken *brokenError
	if errors.As(err, &broken) {
		err = nil // list has told of it
	}
	return found, err
}

// brokenError is why a tar is not read to its end.
type brokenError struct{ error }

// walk takes up each entry of a tar but its root. All errors but that of opening it are
// broken ones.
func walk(open Opener, most int64, take func(name string, header *tar.Header, content io.Reader) error) error {
	file, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	left := most
	for in := tar.NewReader(file); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			left -= 512 + header.Size
			if left < 0 || header.Size < 0 {
				err = fmt.Errorf("only the first %d MiB are compared", most>>20)
			}
		}
		if err == nil {
			name := path.Clean(header.Name)
			if name == "." {
				continue
			}
			if len(name) > maxPath {
				err = fmt.Errorf("a path has more than %d bytes", maxPath)
			} else {
				err = take(name, header, in)
			}
		}
		if err != nil {
			return &brokenError{err}
		}
	}
}

// isBinary is git's rule, and what no line can show.
func isBinary(content []byte) bool {
	return bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content)
}

func split(content []byte) []string {
	if len(content) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}

func endsLine(content []byte) bool { return len(content) == 0 || content[len(content)-1] == '\n' }
