// Package changes compares two trees of files, given as tar archives.
//
// Both archives may be hostile, so entries, bytes and lines are limited, and what is
// omitted is counted.
package changes

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/waza-isolate/waza/internal/tree"
)

// Kinds of changes.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Bounds limits the work and the result of a comparison. A zero bound allows nothing.
type Bounds struct {
	Entries int   // per tar
	Read    int64 // bytes per tar
	Files   int   // listed individually
	Text    int64 // bytes of a file whose lines are compared
	Total   int64 // bytes of lines in the result
}

// Entry is an entry of a tree.
type Entry struct {
	Kind   string // file, directory, link, or special
	Mode   fs.FileMode
	Size   int64
	Target string // of a link
	Cut    string // why the content of a directory is missing

	sum uint64
}

// Change is a change of one entry.
type Change struct {
	Path           string
	What           string
	Old, New       Entry
	Hunks          []Hunk
	Added, Removed int    // lines
	Unshown        string // why some or all lines are missing
}

// Hunk is a hunk of a unified diff: changed lines with unchanged context. Old and New are
// its first line numbers before and after, counting from 1. Each line begins with a space,
// - or +, and has no line break.
type Hunk struct {
	Old, New int
	Lines    []string
}

// Tree is the difference between two trees.
type Tree struct {
	Changes                 []Change // sorted by path
	Added, Removed, Changed int
	More                    int      // number of changes not listed
	Gaps                    []string // what was not compared, and why
}

// Opener opens a tar, from the beginning on each call.
type Opener func() (io.ReadCloser, error)

// Of compares two trees. It returns an error if one cannot be opened; errors within a tar
// become gaps.
func Of(before, after Opener, most Bounds) (Tree, error) {
	var t Tree
	seed := maphash.MakeSeed() // random, so that an agent cannot construct files with equal sums
	var sides [2]map[string]Entry
	for i, open := range []Opener{before, after} {
		entries, gap, err := list(open, seed, most)
		if err != nil {
			return Tree{}, err
		}
		if gap != "" {
			t.Gaps = append(t.Gaps, fmt.Sprintf("the tree %s: %s", []string{"before", "after"}[i], gap))
		}
		sides[i] = entries
	}
	t.compare(sides[0], sides[1])
	if len(t.Changes) > most.Files {
		t.More = len(t.Changes) - most.Files
		t.Changes = t.Changes[:most.Files]
	}
	return t, t.addLines(before, after, most)
}

// compare adds the changes between two trees.
func (t *Tree) compare(before, after map[string]Entry) {
	for path, old := range before {
		if now, still := after[path]; !still {
			t.Changes = append(t.Changes, Change{Path: path, What: Removed, Old: old})
			t.Removed++
		} else if now != old {
			t.Changes = append(t.Changes, Change{Path: path, What: Changed, Old: old, New: now})
			t.Changed++
		}
	}
	for path, now := range after {
		if _, was := before[path]; !was {
			t.Changes = append(t.Changes, Change{Path: path, What: Added, New: now})
			t.Added++
		}
	}
	slices.SortFunc(t.Changes, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
}

// addLines adds the changed lines of files, within the bounds.
func (t *Tree) addLines(before, after Opener, most Bounds) error {
	wanted, room := map[string]bool{}, most.Total
	for i := range t.Changes {
		c := &t.Changes[i]
		size := c.Old.Size + c.New.Size
		switch {
		case c.Old.Kind != tree.File && c.New.Kind != tree.File || c.Old.sum == c.New.sum && c.Old.Kind == c.New.Kind && c.Old.Size == c.New.Size:
		case c.Old.Size > most.Text || c.New.Size > most.Text:
			c.Unshown = fmt.Sprintf("a file of more than %d KiB", most.Text>>10)
		case size > room:
			c.Unshown = "the limit for a workspace is reached"
		default:
			room -= size
			wanted[c.Path] = true
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	olds, err := contents(before, wanted, most)
	if err != nil {
		return err
	}
	news, err := contents(after, wanted, most)
	if err != nil {
		return err
	}
	for i := range t.Changes {
		if c := &t.Changes[i]; wanted[c.Path] {
			c.compare(olds[c.Path], news[c.Path])
		}
	}
	return nil
}

func (c *Change) compare(before, after []byte) {
	if isBinary(before) || isBinary(after) {
		c.Unshown = "binary"
		return
	}
	c.Hunks = hunks(ended(before), ended(after))
	for _, h := range c.Hunks {
		for _, line := range h.Lines {
			switch line[0] {
			case '+':
				c.Added++
			case '-':
				c.Removed++
			}
		}
	}
	if endsLine(before) != endsLine(after) {
		c.Unshown = "one of the two has no line break at its end"
	}
}

// hunks returns the differences between two texts as hunks. Each line, including the last, must end with a
// line break.
func hunks(before, after []byte) (all []Hunk) {
	for line := range strings.Lines(string(diff.Diff("", before, "", after))) {
		line = strings.TrimSuffix(line, "\n")
		var old, now, lines int
		if n, _ := fmt.Sscanf(line, "@@ -%d,%d +%d,", &old, &lines, &now); n == 3 {
			all = append(all, Hunk{Old: max(old, 1), New: max(now, 1)})
		} else if len(all) > 0 { // lines before the first hunk name the files
			last := &all[len(all)-1]
			last.Lines = append(last.Lines, line)
		}
	}
	return all
}
