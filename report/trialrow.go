package report

import (
	"strconv"
	"time"

	"github.com/waza-isolate/waza/report/view"
)

// Kinds of rows.
const (
	rowTurn    = "turn"
	rowCall    = "call"
	rowBuiltin = "builtin"
	rowSkill   = "skill"
	rowClaim   = "claim"
	rowSaid    = "saying"
	rowEvent   = "event"
)

// Row is a step of a trial.
type Row struct {
	Kind    string
	Anchor  string // empty for what nothing leads to
	Number  string
	At      string // seconds since the agent's start; empty where no time is known
	Source  string // key of its source
	Lane    string // of a server: its colour
	Who     string // the server's name, or what it is in a word
	What    string // the tool's name, or the event's kind
	Preview string
	Flags   []Flag
	End     *Mark
	Took    string
	Failed  bool
	Notes   []Note
	Parts   []Part

	start time.Time
}

// Flag says something odd of a row in a word or two.
type Flag struct{ Text, Kind string } // of colour: warn, fail, infra, or none

// Note is a sentence about a row. One that is about a call, which it names, leads there.
type Note struct {
	Text string
	Call int
}

// Pieces are the note's text, of which what names its call leads there.
func (n Note) Pieces() []Note { return pieces(n.Text, []int{n.Call}) }

// Part is a text of a row.
type Part struct {
	Name string
	Text
	Folded bool
	Where  string // has the rest of it
}

func callAnchor(seq int) string { return "call-" + strconv.Itoa(seq) }
func turnAnchor(seq int) string { return "turn-" + strconv.Itoa(seq) }

func (r *Row) flag(kind, text string) { r.Flags = append(r.Flags, Flag{text, kind}) }

// note adds a sentence, as far as a row has room for such.
func (r *Row) note(text string, call ...int) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, noteOf(text, call...))
	}
}

func (r *Row) part(name, where string, t Text) {
	r.Parts = append(r.Parts, Part{Name: name, Text: t, Where: where})
}
func (r *Row) folded(name, where string, t Text) {
	r.Parts = append(r.Parts, Part{Name: name, Text: t, Where: where, Folded: true})
}

func noteOf(text string, call ...int) Note {
	n := Note{Text: brief(text, noteSize)}
	if len(call) > 0 {
		n.Call = call[0]
	}
	return n
}

// How many columns of texts are shown that stand on a line.
const (
	previewSize = 160
	nameSize    = 120
	noteSize    = 500
)

// maxNotes is how many sentences a row has.
const maxNotes = 20

// offset is a time in seconds since another.
func offset(from, at time.Time) string {
	if from.IsZero() || at.IsZero() {
		return ""
	}
	return strconv.FormatFloat(at.Sub(from).Seconds(), 'f', 3, 64)
}

// lasted is how long something took; empty where it has no end.
func lasted(start, end time.Time) string {
	if end.IsZero() || end.Before(start) {
		return ""
	}
	return view.Took(end.Sub(start))
}
