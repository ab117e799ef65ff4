package grading

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/tree"
)

const (
	maxContent = 16 << 20 // maximum size of a file whose content is read, in bytes
	maxEntries = 1 << 20  // maximum number of entries in a workspace
)

var (
	errTooManyEntries = fmt.Errorf("more than %d entries", maxEntries)
	errTorn           = errors.New("it ends before its end mark")
)

// workspace maps paths to the wanted entries of a workspace.
type workspace map[string]*entry

// read checks that a file can be read, and returns its content.
func (w workspace) read(r *report, t evidence.Trial, name string) checkedText {
	clean := path.Clean(name)
	file := w[clean]
	why := file.unread()
	p := checkedText{what: quote(name), unread: why != ""}
	if p.removed = nameRemoved(t, clean); p.removed != nil {
		r.lacks(p.removed)
		return p
	}
	r.check("path", !p.unread, "Expected to read %s; %s.", p.what, why)
	if !p.unread {
		p.text = string(file.content)
		p.removed = removedAt(t.Redacted[evidence.WorkspaceFile].Marks.Spans(clean), p.text, quote(name))
	}
	return p
}

// exists reports whether something exists at a path, and describes it. A link counts as its target within the
// workspace.
func (w workspace) exists(name string) (bool, string) {
	first := w.at(name)
	at := first
	for range maxLinks {
		if at == nil || at.kind != tar.TypeSymlink {
			break
		}
		at = w.at(at.link)
	}
	switch {
	case first == nil:
		return false, "it does not"
	case at == nil, at.kind == tar.TypeSymlink:
		return false, "it is a symbolic link that leads to nothing in the workspace"
	}
	return true, ""
}

// at returns what is at a path whose directories may be links within the workspace, or nil. If one of them leads
// elsewhere, it returns that link.
func (w workspace) at(name string) *entry { return w[w.behind(path.Clean(name))] }

// behind returns the path without links among its directories that a clean path leads to, or the path of the
// link that leads out of the workspace or in a circle.
func (w workspace) behind(name string) string {
	for left := maxLinks; ; left-- {
		link := ""
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if e := w[dir]; e != nil && e.kind == tar.TypeSymlink {
				link = dir // the last one is the outermost
			}
		}
		switch {
		case link == "":
			return name
		case w[link].link == "" || left == 0:
			return link
		}
		name = path.Join(w[link].link, strings.TrimPrefix(name, link))
	}
}

// maxLinks is the maximum number of links that are followed in a row.
const maxLinks = 16

// entry is a file of the workspace.
type entry struct {
	kind    byte   // as in tar
	link    string // target of a symbolic link; empty if it is, or may be, outside of the workspace
	size    int64
	content []byte
}

// String describes the kind of file.
func (e *entry) String() string {
	if e == nil {
		return "nothing"
	}
	kind := map[byte]string{tar.TypeReg: "a file", tar.TypeDir: "a directory", tar.TypeSymlink: "a symbolic link", tar.TypeLink: "a hard link"}[e.kind]
	return cmp.Or(kind, "a special file")
}

// unread says why the content is not readable, or returns "".
func (e *entry) unread() string {
	switch {
	case e == nil:
		return "it does not exist"
	case e.kind == tar.TypeSymlink:
		return "it is a symbolic link, and those are not followed"
	case e.kind != tar.TypeReg:
		return "it is " + e.String()
	case e.size > maxContent:
		return fmt.Sprintf("it has %d bytes, and at most %d are looked into", e.size, maxContent)
	}
	return ""
}

// readWorkspace reads the wanted paths; the value is true if the content is wanted too. It extracts nothing.
// It also reads what links within the workspace lead to, without content. It ignores names outside the
// workspace; of several entries for a path, the last one counts.
func readWorkspace(dir evidence.Dir, wanted map[string]bool) (found workspace, err error) {
	for range maxLinks {
		known := len(wanted)
		for _, name := range slices.Collect(maps.Keys(wanted)) {
			ends := []string{name, found.behind(name)}
			if e := found.at(name); e != nil && e.link != "" {
				ends = append(ends, e.link)
			}
			for _, end := range ends {
				want(wanted, end)
				for above := path.Dir(end); above != "."; above = path.Dir(above) { // it may be a link
					want(wanted, above)
				}
			}
		}
		if found != nil && len(wanted) == known {
			break
		}
		if found, err = scanWorkspace(dir, wanted); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// want adds a path whose content is not wanted unless it was before.
func want(wanted map[string]bool, name string) {
	if !wanted[name] {
		wanted[name] = false
	}
}

func scanWorkspace(dir evidence.Dir, wanted map[string]bool) (workspace, error) {
	file, err := dir.Workspace()
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	watched := &endWatcher{in: file}
	found, err := scan(watched, wanted)
	if err == nil && watched.ended {
		err = errTorn
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", evidence.WorkspaceFile, err)
	}
	return found, nil
}

// endWatcher detects an archive that was truncated between two entries. A tar reader stops
// at the end marker, and does not reach the end of the file.
type endWatcher struct {
	in    io.Reader
	ended bool
}

func (w *endWatcher) Read(p []byte) (int, error) {
	n, err := w.in.Read(p)
	w.ended = w.ended || errors.Is(err, io.EOF)
	return n, err
}

func scan(in io.Reader, wanted map[string]bool) (workspace, error) {
	found := workspace{}
	left := maxEntries
	for e, err := range tree.Entries(in) {
		if left--; err == nil && left < 0 {
			err = errTooManyEntries
		}
		if err != nil {
			return nil, err
		}
		if path.IsAbs(e.Name) || strings.ContainsRune(e.Name, 0) {
			continue
		}
		name := e.Path
		impliedParents(found, wanted, name)
		content, ok := wanted[name]
		if !ok {
			continue
		}
		at := &entry{kind: e.Typeflag, size: e.Size}
		if target := path.Join(path.Dir(name), e.Linkname); e.Typeflag == tar.TypeSymlink && !path.IsAbs(e.Linkname) && !tree.Winds(e.Linkname) && filepath.IsLocal(target) {
			at.link = target
		}
		if !defence.LinksUnfollowed {
			if data, err := os.ReadFile(e.Linkname); err == nil {
				found[name] = &entry{kind: tar.TypeReg, size: int64(len(data)), content: data}
				continue
			}
		}
		if content && at.unread() == "" {
			if at.content, err = io.ReadAll(e.Content); err != nil {
				return nil, err
			}
		}
		found[name] = at
	}
	return found, nil
}

// impliedParents adds wanted directories that have no entry of their own.
func impliedParents(found workspace, wanted map[string]bool, name string) {
	for p := range wanted {
		inside := p == "." || strings.HasPrefix(name, p+"/")
		if inside && found[p] == nil {
			found[p] = &entry{kind: tar.TypeDir}
		}
	}
}
