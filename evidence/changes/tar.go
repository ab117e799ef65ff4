package changes

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/waza-isolate/waza/internal/tree"
)

// maxPath is the maximum length in bytes of the path of a compared entry, and of a link's
// target.
const maxPath = 4096

// list reads a tar's entries. gap says why some are missing.
func list(open Opener, seed maphash.Seed, most Bounds) (entries map[string]Entry, gap string, err error) {
	entries = map[string]Entry{}
	err = walk(open, most.Read, func(found tree.Entry) error {
		if len(entries) == most.Entries {
			return fmt.Errorf("only the first %d entries are compared", most.Entries)
		}
		entry := entryOf(found)
		if entry.Kind == tree.File {
			var sum maphash.Hash
			sum.SetSeed(seed)
			if _, err := io.Copy(&sum, found.Content); err != nil {
				return err
			}
			entry.sum = sum.Sum64()
		}
		entries[found.Path] = entry
		return nil
	})
	var broken *brokenError
	if errors.As(err, &broken) {
		return entries, broken.Error(), nil
	}
	return entries, "", err
}

func entryOf(e tree.Entry) Entry {
	entry := Entry{Kind: e.Kind(), Mode: e.FileInfo().Mode().Perm(), Cut: e.Cut()}
	switch entry.Kind {
	case tree.File:
		entry.Size = e.Size
	case tree.Link:
		// The mode of a link has no meaning.
		entry.Mode, entry.Target = 0, e.Linkname[:min(len(e.Linkname), maxPath)]
	}
	return entry
}

// contents reads the wanted files.
func contents(open Opener, wanted map[string]bool, most Bounds) (map[string][]byte, error) {
	found := map[string][]byte{}
	err := walk(open, most.Read, func(e tree.Entry) error {
		if !wanted[e.Path] || e.Kind() != tree.File {
			return nil
		}
		var err error
		found[e.Path], err = io.ReadAll(io.LimitReader(e.Content, most.Text))
		return err
	})
	var broken *brokenError
	if errors.As(err, &broken) {
		err = nil // reported by list
	}
	return found, err
}

// brokenError is the reason why a tar was not read to its end.
type brokenError struct{ error }

// walk calls take for each entry of a tar except its root. Errors other than from opening
// the tar are of type brokenError.
func walk(open Opener, most int64, take func(tree.Entry) error) error {
	file, err := open()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	left := most
	for e, err := range tree.Entries(file) {
		if err != nil {
			return &brokenError{err}
		}
		if left -= 512 + e.Size; left < 0 || e.Size < 0 {
			return &brokenError{fmt.Errorf("only the first %d MiB are compared", most>>20)}
		}
		if e.Path == "." {
			continue
		}
		if len(e.Path) > maxPath {
			return &brokenError{fmt.Errorf("a path has more than %d bytes", maxPath)}
		}
		if err := take(e); err != nil {
			return &brokenError{err}
		}
	}
	return nil
}

// isBinary reports whether content has a zero byte, as git decides, or is not UTF-8.
func isBinary(content []byte) bool {
	return bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content)
}

func endsLine(content []byte) bool { return len(content) == 0 || content[len(content)-1] == '\n' }

// ended returns content with a line break at the end.
func ended(content []byte) []byte {
	if endsLine(content) {
		return content
	}
	return append(slices.Clone(content), '\n')
}
