package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
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
	Anchor  string // empty if nothing links to it
	Number  string
	At      string // seconds since the agent's start; empty if unknown
	Source  string // key of its source
	Lane    string // color of a server
	Who     string // server name, or the kind of source
	What    string // tool name, or kind of event
	Preview string
	Flags   []Flag
	End     *Mark
	Took    string
	Failed  bool
	Notes   []Note
	Parts   []Part
}

// Flag marks something unusual about a row, in a word or two.
type Flag struct{ Text, Kind string } // of colour: warn, fail, infra, or none

// Note is a sentence about a row. If it names a call it links to it.
type Note struct {
	Text string
	Call int
}

// Pieces splits the note at the words that name its call, which are a link.
func (n Note) Pieces() []Note { return pieces(n.Text, []int{n.Call}) }

// Part is a text of a row.
type Part struct {
	Name string
	Text
	Folded bool
	Where  string // file with the rest of it

	raw  func() string
	show func(*budget, string) Text // formats the result of raw
}

// partFrames is the name of the part with the frames of a call.
const partFrames = "Frames"

func callAnchor(seq int) string { return "call-" + strconv.Itoa(seq) }
func turnAnchor(seq int) string { return "turn-" + strconv.Itoa(seq) }

func (r *Row) flag(kind, text string) { r.Flags = append(r.Flags, Flag{text, kind}) }

// note adds a sentence, which may refer to a call, unless the row has too many.
func (r *Row) note(text string, call ...int) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, Note{Text: brief(text, noteSize), Call: cmp.Or(append(call, 0)...)})
	}
}

// part adds a text. How much of it is shown is decided when all rows are known.
func (r *Row) part(name, where, raw string, show func(*budget, string) Text) {
	r.later(name, where, func() string { return raw }, show)
}

// later adds a text that is read when it is shown.
func (r *Row) later(name, where string, raw func() string, show func(*budget, string) Text) {
	r.Parts = append(r.Parts, Part{Name: name, Where: where, raw: raw, show: show})
}

// Maximum lengths of single-line texts, in columns.
const (
	previewSize = 160
	nameSize    = 120
	noteSize    = 500
)

// maxNotes is the maximum number of sentences of a row.
const maxNotes = 20

// offset returns the seconds between two times, or "" if either is unknown.
func offset(from, at time.Time) string {
	if from.IsZero() || at.IsZero() {
		return ""
	}
	return strconv.FormatFloat(at.Sub(from).Seconds(), 'f', 3, 64)
}

// lasted returns the duration of something, or "" if it has no end.
func lasted(start, end time.Time) string {
	if end.IsZero() || end.Before(start) {
		return ""
	}
	return view.Clock(end.Sub(start))
}

// rows returns the trial's steps and events in order, limited to a window, with as many
// texts as fit, and the number of rows before and after. Space is given first to failures,
// then to other rows, and then to frames.
func (r *reading) rows() (rows []Row, before, behind int) {
	all := r.inOrder()
	if words := strings.Fields(strings.ToLower(r.most.Find)); len(words) > 0 {
		all = slices.DeleteFunc(all, func(p entry) bool { return !p.row().has(words) })
	}
	from := min(max(r.most.From, 0), max(len(all)-1, 0))
	if r.most.At != "" {
		from = max(slices.IndexFunc(all, func(p entry) bool { return anchorOf(p.step) == r.most.At }), 0)
	}
	from -= from % r.most.Steps
	shown := all[from:min(from+r.most.Steps, len(all))]
	before, behind = from, len(all)-from-len(shown)
	var steps []view.Step
	for _, p := range shown {
		steps = append(steps, p.step)
	}
	r.note(r.framesOf(steps, before == 0 && behind == 0))
	for _, p := range shown {
		rows = append(rows, p.row())
	}
	for _, next := range []func(Row, Part) bool{
		func(row Row, p Part) bool { return row.Failed && p.Name != partFrames },
		func(row Row, p Part) bool { return !row.Failed && p.Name != partFrames },
		func(_ Row, p Part) bool { return p.Name == partFrames },
	} {
		for _, row := range rows {
			for i := range row.Parts {
				if p := &row.Parts[i]; next(row, *p) {
					p.Text, p.raw = p.show(&r.room, p.raw()), nil
				}
			}
		}
	}
	return rows, before, behind
}

// has reports whether a row's texts contain all the words, which must be lower case.
func (r Row) has(words []string) bool {
	text := r.Who + " " + r.What + " " + r.Preview
	if r.End != nil {
		text += " " + r.End.Word
	}
	for _, part := range r.Parts {
		text += "\n" + part.raw()
	}
	text = strings.ToLower(text)
	return !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
}

// bunch is the number of rows in a list that the browser renders when it comes into view.
// The style sheet depends on it.
const bunch = 100

// Bunches returns the rows in lists of bunch rows each.
func (t Trial) Bunches() [][]Row { return slices.Collect(slices.Chunk(t.Rows, bunch)) }

// entry is a row to be built, with its step if it has one.
type entry struct {
	step view.Step
	row  func() Row
}

// anchorOf returns the anchor of a turn or call.
func anchorOf(s view.Step) string {
	switch {
	case s.Turn != nil:
		return turnAnchor(s.Turn.Seq)
	case s.Call != nil:
		return callAnchor(s.Call.Seq)
	}
	return ""
}

// inOrder returns the steps with the events between them.
func (r *reading) inOrder() (all []entry) {
	event := func(row func([]evidence.Event) Row, group []evidence.Event) {
		all = append(all, entry{row: func() Row { return row(group) }})
	}
	early, groups := r.early(r.between())
	if len(early) > 0 {
		event(r.earlyRow, early)
	}
	for _, step := range r.talk.Steps {
		for len(groups) > 0 && groups[0][0].Time.Before(r.talk.Begins(step)) {
			event(r.eventRow, groups[0])
			groups = groups[1:]
		}
		all = append(all, entry{step, func() Row { return r.row(step) }})
	}
	for _, group := range groups {
		event(r.eventRow, group)
	}
	return all
}

// between returns the events, including the start and end of the agent.
func (r *reading) between() []evidence.Event {
	all := slices.Clone(r.talk.Events)
	t := r.talk.Trial
	if !t.AgentStart.IsZero() {
		all = append(all, evidence.Event{Time: t.AgentStart, Kind: eventStart, Where: sourceAgent, Message: "the agent started"})
	}
	if !t.AgentEnd.IsZero() {
		end := evidence.Event{Time: t.AgentEnd, Kind: eventEnd, Where: sourceAgent, Message: ending(t)}
		if t.ExitCode == nil || *t.ExitCode != 0 {
			end.Data = map[string]any{"signal": t.Signal, "class": t.Class}
		}
		all = append(all, end)
	}
	slices.SortStableFunc(all, func(a, b evidence.Event) int { return a.Time.Compare(b.Time) })
	return all
}

// sourcesOf returns the sources of rows: servers first, in the order of declaration.
func (r *reading) sourcesOf(rows []Row) (all []Source) {
	counts := map[string]int{}
	for _, row := range rows {
		counts[row.Source]++
	}
	for _, server := range r.talk.Trial.Servers {
		all = append(all, r.sources[server.Name])
	}
	for _, other := range []Source{
		{Key: sourceModel, Name: "model calls"}, {Key: rowBuiltin, Name: "builtin tools"}, {Key: rowSkill, Name: "skills"},
		{Key: sourceAgent, Name: "what the agent reports"}, {Key: sourceEvent, Name: "events"},
	} {
		if counts[other.Key] > 0 {
			all = append(all, other)
		}
	}
	for i := range all {
		all[i].Count = counts[all[i].Key]
	}
	return all
}

// Kinds of rows about the start and end of the agent.
const (
	eventStart = "start"
	eventEnd   = "end"
)

// stateOf returns the state of an event, or of the agent's start or end.
func stateOf(e evidence.Event) view.State {
	switch {
	case e.Kind == eventStart || e.Kind == eventEnd && e.Data == nil:
		return view.Plain
	case e.Kind == eventEnd:
		return view.Bad
	}
	return view.StateOfEvent(e)
}

// quiet reports whether an event is expected.
func quiet(e evidence.Event) bool { return stateOf(e) == view.Plain }

// folds reports whether an expected event may share a row with others. The start and end of the agent, each
// invocation of a mocked program, each answer to a server and each call of a hook have rows of their own.
func folds(e evidence.Event) bool {
	return quiet(e) && !slices.Contains([]string{eventStart, eventEnd, view.EventCommand, evidence.EventAnswer, evidence.EventHookCall}, e.Kind)
}

// eventGroups returns events in order, with consecutive expected ones grouped.
func eventGroups(events []evidence.Event) (groups [][]evidence.Event) {
	for _, e := range events {
		if n := len(groups); n > 0 && folds(groups[n-1][0]) && folds(e) {
			groups[n-1] = append(groups[n-1], e)
		} else {
			groups = append(groups, []evidence.Event{e})
		}
	}
	return groups
}

// early returns the expected events before the agent's start, and the other events in
// groups.
func (r *reading) early(events []evidence.Event) (early []evidence.Event, groups [][]evidence.Event) {
	start := r.talk.Trial.AgentStart
	var others []evidence.Event
	for _, e := range events {
		if e.Time.Before(start) && quiet(e) && e.Kind != evidence.EventHookCall {
			early = append(early, e)
		} else {
			others = append(others, e)
		}
	}
	return early, eventGroups(others)
}

// earlyRow returns a row of events before the agent's start.
func (r *reading) earlyRow(events []evidence.Event) Row {
	row := r.eventRow(events)
	row.severalKinds("before the start", events)
	return row
}

// severalKinds describes a row of events of several kinds.
func (r *Row) severalKinds(what string, events []evidence.Event) {
	var kinds []string
	for _, e := range events {
		if kind := view.EventWord(e) + " of " + e.Where; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	r.Lane, r.Who, r.What = "", "sandbox", what
	r.Preview = brief(fmt.Sprintf("%s: %s", text.Count(len(events), "event"), strings.Join(kinds, ", ")), previewSize)
}

// eventRow returns a row for one event, or for several expected ones.
func (r *reading) eventRow(group []evidence.Event) Row {
	first := group[0]
	row := Row{
		Kind: rowEvent, At: offset(r.from, first.Time), Source: sourceEvent, Lane: r.sources[first.Where].Lane,
		Who: brief(first.Where, nameSize), What: brief(view.EventWord(first), nameSize), Preview: brief(first.Message, previewSize),
	}
	if first.Kind == eventStart || first.Kind == eventEnd {
		row.What, row.Preview = row.Preview, ""
	}
	if slices.ContainsFunc(group, func(e evidence.Event) bool { return e.Kind != first.Kind || e.Where != first.Where }) {
		row.severalKinds("as expected", group)
	} else if len(group) > 1 {
		row.Preview = fmt.Sprintf("%d: %s", len(group), brief(messages(group), previewSize))
	}
	state := stateOf(first)
	row.Failed = state == view.Bad
	if first.Kind == view.EventCommand {
		end, _ := view.Invocation(first)
		row.End = &Mark{"none", end, "infra"}
		if row.Failed {
			row.End = &Mark{"fail", end, "fail"}
		}
	} else if state != view.Plain {
		row.End = &Mark{"error", "notice", "warn"}
	}
	r.eventTexts(&row, group)
	return row
}

// messages returns the distinct messages of events, up to the limit of a row.
func messages(group []evidence.Event) string {
	var all []string
	for _, e := range group {
		if len(all) < 6 && !slices.Contains(all, e.Message) {
			all = append(all, e.Message)
		}
	}
	return strings.Join(all, ", ")
}

// maxEvents is the maximum number of events of a row with their texts.
const maxEvents = 50

func (r *reading) eventTexts(row *Row, group []evidence.Event) {
	var all strings.Builder
	for i, e := range group {
		if i == maxEvents {
			row.note(fmt.Sprintf("%d more are in %s.", len(group)-i, evidence.EventsFile))
			break
		}
		if all.Len() > r.most.Text {
			break // a row shows no more
		}
		fmt.Fprintf(&all, "%s  %s\n", offset(r.from, e.Time), e.Message)
		if len(e.Data) > 0 {
			if data, err := evidence.Marshal(e.Data); err == nil {
				fmt.Fprintf(&all, "  %s\n", data)
			}
		}
	}
	row.part("Events", evidence.EventsFile, all.String(), (*budget).show)
}
