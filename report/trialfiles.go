package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/changes"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/report/view"
)

// Log is the output of a program: its beginning, and its end if there is more.
type Log struct {
	Name string
	File string // relative to the trial's directory
	Size int64
	Head Text
	Tail Text
	Left int64 // number of bytes between the two
}

// part takes one n-th out of a budget and returns it.
func (b *budget) part(n int) *budget {
	own := b.total / n
	b.total -= own
	return &budget{text: min(b.text, own), total: own}
}

// logsOf returns the non-empty logs of the agent and its servers. The error lists those
// that cannot be read.
func logsOf(dir evidence.Dir, servers []evidence.ServerRecord, room *budget) (all []Log, unread error) {
	type source struct{ name, file string }
	files := []source{{"agent, stdout", evidence.StdoutFile}, {"agent, stderr", evidence.StderrFile}}
	for _, server := range servers {
		files = append(files, source{server.Name + ", stderr", filepath.Join(evidence.ServersDir, server.Name+".stderr")})
	}
	each := room.total / len(files)
	for _, f := range files {
		log, err := readLog(dir, f.file, &budget{text: min(room.text, each/2), total: each})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			unread = errors.Join(unread, err)
		}
		if err == nil && log.Size > 0 {
			log.Name, log.File = f.name, f.file
			room.total -= cost(log.Head.Text) + cost(log.Tail.Text)
			all = append(all, log)
		}
	}
	return all, unread
}

// readLog reads the beginning and the end of a file.
func readLog(dir evidence.Dir, name string, room *budget) (Log, error) {
	file, err := evidence.Open(string(dir), name)
	if err != nil {
		return Log{}, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return Log{}, err
	}
	log := Log{Size: info.Size()}
	half := int64(room.text)
	head, err := readAt(file, 0, min(log.Size, half))
	if err != nil {
		return Log{}, err
	}
	log.Head = room.show(head)
	shown := int64(len(head)) - log.Head.Left
	from := max(log.Size-half/2, shown)
	tail, err := readAt(file, from, log.Size-from)
	if err != nil {
		return Log{}, err
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	log.Tail = room.show(tail)
	log.Left = log.Size - shown - (int64(len(tail)) - log.Tail.Left)
	return log, nil
}

func readAt(file *os.File, from, size int64) (string, error) {
	content := make([]byte, size)
	n, err := file.ReadAt(content, from)
	if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(content[:n]), err
}

// FileView is the view of a changed file.
type FileView struct {
	changes.Change
	Facts  []string // kind, mode, size and target, if they changed
	Pieces []Piece
	Cut    bool // lines are omitted because of the limit
}

// Piece is a part of a text of one kind, such as adjacent lines with the same change.
type Piece struct {
	Kind string // color: add, del, at or differs, or none
	Text string
}

// Limits of workspaces. Most are small, and a report has many.
const (
	maxEntries   = 20_000
	maxRead      = 1 << 30
	maxFiles     = 200
	maxDiffed    = 256 << 10
	maxDiffedAll = 4 << 20
)

// workspaceOf returns the changes to the agent's files. An error is also shown in the
// workspace.
func workspaceOf(dir evidence.Dir, room *budget) (Workspace, error) {
	open := func(name string) changes.Opener {
		return func() (io.ReadCloser, error) { return evidence.Open(string(dir), name) }
	}
	tree, err := changes.Of(open(evidence.BeforeFile), open(evidence.WorkspaceFile), changes.Bounds{
		Entries: maxEntries, Read: maxRead, Files: maxFiles, Text: maxDiffed, Total: int64(min(maxDiffedAll, 4*room.total)),
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Workspace{None: "The workspace of before or after is not on record."}, nil
	case err != nil:
		return Workspace{None: "The workspace cannot be read."}, err
	}
	w := Workspace{Tree: tree}
	w.Gaps = briefs(tree.Gaps)
	for _, change := range tree.Changes {
		w.Shown = append(w.Shown, viewOf(change, room))
	}
	w.Changes = nil
	return w, nil
}

func viewOf(c changes.Change, room *budget) FileView {
	v := FileView{Change: c, Facts: factsOf(c)}
	v.Hunks, v.Path = nil, brief(c.Path, nameSize)
	for i := range v.Facts {
		v.Facts[i] = brief(v.Facts[i], nameSize)
	}
	for _, hunk := range c.Hunks {
		v.add("at", fmt.Sprintf("line %d, before line %d\n", hunk.New, hunk.Old), room)
		for _, line := range hunk.Lines {
			v.add(signs[line[0]], line[:1]+" "+line[1:]+"\n", room)
		}
	}
	return v
}

// signs maps the first character of a line to its kind.
var signs = map[byte]string{'+': "add", '-': "del"}

// add appends a line if it fits, to the last piece if that has the same kind.
func (v *FileView) add(kind, line string, room *budget) {
	text := room.show(line)
	if v.Cut || text.Left > 0 {
		v.Cut = true
		return
	}
	if n := len(v.Pieces); n > 0 && v.Pieces[n-1].Kind == kind {
		v.Pieces[n-1].Text += text.Text
		return
	}
	v.Pieces = append(v.Pieces, Piece{kind, text.Text})
}

// factsOf returns the properties of an entry that changed, or that was added or removed.
func factsOf(c changes.Change) (facts []string) {
	old, now := c.Old, c.New
	switch c.What {
	case changes.Added:
		old = now
	case changes.Removed:
		now = old
	}
	if old.Kind != now.Kind {
		facts = append(facts, old.Kind+" became "+now.Kind)
	} else if now.Kind != tree.File {
		facts = append(facts, now.Kind)
	}
	if old.Mode != now.Mode && old.Kind == now.Kind {
		facts = append(facts, fmt.Sprintf("mode %o became %o", old.Mode, now.Mode))
	}
	switch {
	case old.Target != now.Target:
		facts = append(facts, fmt.Sprintf("leads to %s, before to %s", or(now.Target, "nothing"), or(old.Target, "nothing")))
	case now.Target != "":
		facts = append(facts, "leads to "+now.Target)
	}
	if now.Kind == tree.File {
		facts = append(facts, view.Bytes(now.Size))
	}
	for _, text := range []string{now.Cut, c.Unshown} {
		if text != "" {
			facts = append(facts, text)
		}
	}
	return facts
}

func or(text, other string) string {
	if strings.TrimSpace(text) == "" {
		return other
	}
	return text
}
