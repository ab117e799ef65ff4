package report

import (
	"slices"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/conversation"
)

// item is a row to be, and what its texts are of.
type item struct {
	row    Row
	step   conversation.Step
	events []evidence.Event
}

// rows are the trial's steps and events in order, with as many texts as there is room
// for, and how many of them are not shown.
func (r *reading) rows() (rows []Row, unshown int) {
	items, unshown := r.items()
	for _, failed := range []bool{true, false} {
		for i := range items {
			if it := &items[i]; it.row.Failed == failed {
				r.fill(it)
			}
		}
	}
	r.crossed(items)
	for i := range items {
		rows = append(rows, items[i].row)
	}
	return rows, unshown
}

// bunch is how many rows are a list of their own, which the browser lays out when it comes
// into view; the style counts on it.
const bunch = 100

// Bunches are the rows in lists.
func (t Trial) Bunches() [][]Row { return slices.Collect(slices.Chunk(t.Rows, bunch)) }

func (r *reading) fill(it *item) {
	if it.events != nil {
		r.eventTexts(&it.row, it.events)
	} else {
		r.texts(&it.row, it.step)
	}
}

// items are steps with the events between them, up to the bounds.
func (r *reading) items() (items []item, unshown int) {
	calls, others := 0, 0
	add := func(it item) {
		n := &others
		if it.row.Kind == rowCall {
			n = &calls
		}
		if *n++; *n > r.most.Calls {
			unshown++
			return
		}
		items = append(items, it)
	}
	early, groups := r.early(r.between())
	if len(early) > 0 {
		add(item{row: r.earlyRow(early), events: early})
	}
	for _, step := range r.talk.Steps {
		row := r.row(step)
		before := row.start
		if before.IsZero() { // what the agent tells is not before it started
			before = r.talk.Trial.AgentStart.Add(1)
		}
		for len(groups) > 0 && groups[0][0].Time.Before(before) {
			add(item{row: r.eventRow(groups[0]), events: groups[0]})
			groups = groups[1:]
		}
		add(item{row: row, step: step})
	}
	for _, group := range groups {
		add(item{row: r.eventRow(group), events: group})
	}
	return items, unshown
}

// between are the events, and when the agent started and ended among them.
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

// sourcesOf are those of rows: servers first, as they are declared.
func (r *reading) sourcesOf(rows []Row) (all []Source) {
	counts := map[string]int{}
	for _, row := range rows {
		counts[row.Source]++
	}
	for _, server := range r.talk.Trial.Servers {
		all = append(all, r.sources[server.Name])
	}
	for _, other := range []Source{
		{Key: sourceModel, Name: "model turns"}, {Key: rowBuiltin, Name: "builtin tools"}, {Key: rowSkill, Name: "skills"},
		{Key: sourceAgent, Name: "what the agent tells"}, {Key: sourceEvent, Name: "events"},
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
