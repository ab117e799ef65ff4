package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/changes"
	"github.com/waza-isolate/waza/internal/linediff"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/report/view"
)

// FileView is what became of a file, as it is shown.
type FileView struct {
	changes.Change
	Facts  []string // kind, mode, size and target, where they changed
	Pieces []Piece
	Cut    bool // lines are left out for want of room
}

// Piece is lines that stand together and became the same, each with its sign.
type Piece struct {
	Kind string // of colour: add, del, at, or none
	Text string
}

// Bounds of workspaces: most are small, and a report has many.
const (
	maxEntries   = 20_000
	maxRead      = 1 << 30
	maxFiles     = 200
	maxDiffed    = 256 << 10
	maxDiffedAll = 4 << 20
)

// workspace says what became of the agent's files.
func (r *reading) workspace(room *budget) Workspace {
	defer func() { r.room.total += room.total }()
	open := func(name string) changes.Opener {
		return func() (io.ReadCloser, error) { return evidence.Open(string(r.dir), name) }
	}
	tree, err := changes.Of(open(evidence.BeforeFile), open(evidence.WorkspaceFile), changes.Bounds{
		Entries: maxEntries, Read: maxRead, Files: maxFiles, Text: maxDiffed, Total: int64(min(maxDiffedAll, 4*room.total)),
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Workspace{None: "The workspace of before or after is not on record."}
	case err != nil:
		r.note(err)
		return Workspace{None: "The workspace cannot be read."}
	}
	w := Workspace{Tree: tree}
	w.Gaps = briefs(tree.Gaps)
	for _, change := range tree.Changes {
		w.Shown = append(w.Shown, viewOf(change, room))
	}
	w.Changes = nil
	return w
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
			v.add(signOf(line.Op), string(line.Op)+" "+line.Text+"\n", room)
		}
	}
	return v
}

func signOf(op linediff.Op) string {
	switch op {
	case linediff.Added:
		return "add"
	case linediff.Removed:
		return "del"
	}
	return ""
}

// add adds a line as far as there is room, to a piece of its kind where that is the last.
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

// factsOf are the facts of an entry that changed, or of one that came or went.
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
