package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/runner"
)

// isPlain fails where something below name is neither a file nor a directory, so that a
// reader of it would be led away, or is too much for one. It ends with ctx.
func (p *place) isPlain(ctx context.Context, name string) error {
	return p.isPlainWithin(ctx, name, maxRecords)
}

// isPlainWithin reads at most about so many bytes to know.
func (p *place) isPlainWithin(ctx context.Context, name string, most int64) error {
	if _, err := p.stat(name); err != nil {
		return err
	}
	left := most
	return p.walk(name, maxEntries, func(name string, entry fs.DirEntry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !entry.IsDir() && !entry.Type().IsRegular() {
			return fmt.Errorf("%s is neither a file nor a directory, and a run has nothing else: it is not followed", name)
		}
		size, err := p.hasRoom(name)
		if left -= size; err == nil && left < 0 {
			err = fmt.Errorf("its documents have more than %d bytes together", most)
		}
		return err
	})
}

// walk visits what lies below name, in the order of names and at most so many, and goes
// down into directories. What goes while it looks is not visited.
func (p *place) walk(name string, most int, visit func(name string, entry fs.DirEntry) error) error {
	left := most
	var into func(dir string) error
	into = func(dir string) error {
		entries, err := p.entries(dir, left+1)
		if left -= len(entries); err != nil {
			return err
		}
		switch {
		case left < 0:
			return fmt.Errorf("there are more than %d files", most)
		case len(entries) > 0 && strings.Count(dir, "/") >= maxDepth:
			return fmt.Errorf("more than %d directories lie in each other", maxDepth)
		}
		for _, entry := range entries {
			below := path.Join(dir, entry.Name())
			if err := visit(below, entry); err != nil {
				return err
			}
			if !entry.IsDir() {
				continue
			}
			if err := into(below); err != nil {
				return err
			}
		}
		return nil
	}
	return into(name)
}

// entries are the entries of a directory by name, at most so many; none where it is gone.
func (p *place) entries(dir string, most int) ([]fs.DirEntry, error) {
	file, err := p.root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	entries, err := file.ReadDir(most)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// hasRoom fails for a file that a reader holds and that is too much for that, and says how
// many bytes it read to know. Frames and results are read piece by piece, lines one by one,
// and trees and output in part.
func (p *place) hasRoom(name string) (read int64, err error) {
	base := path.Base(name)
	kind := path.Ext(base)
	if base == evidence.FramesFile || base == runner.ResultsFile || kind != ".json" && kind != ".jsonl" {
		return 0, nil
	}
	info, err := p.root.Lstat(name)
	switch {
	case err != nil:
		return 0, nil // it went while this looked
	case kind == ".jsonl" && info.Size() > maxRecords:
		return 0, tooLarge(name, info.Size(), maxRecords)
	case kind == ".jsonl" || info.Size() <= jsontext.MaxValues:
		return 0, nil
	}
	data, err := p.read(name)
	if errors.Is(err, errNotThere) {
		err = nil // likewise
	}
	return int64(len(data)), err
}

func tooLarge(name string, size, most int64) error {
	return fmt.Errorf("%s has %d bytes, and at most %d are read", name, size, most)
}
