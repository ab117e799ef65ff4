package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/conversation"
)

// Kinds of the rows that say when the agent ran.
const (
	eventStart = "start"
	eventEnd   = "end"
)

// quiet are kinds of events that are as they should be.
func quiet(e evidence.Event) bool {
	switch e.Kind {
	case "dns", "shared_server", "transcript_noise", "stdout_noise", eventStart:
		return true
	case eventEnd:
		return e.Data == nil
	case conversation.EventCommand:
		_, matched := conversation.Invocation(e)
		return matched
	case "egress":
		allowed, _ := e.Data["allowed"].(bool)
		return allowed
	}
	return conversation.Usual(e)
}

// alike says whether two events make one row; each program that is mocked has one.
func alike(a, b evidence.Event) bool {
	return a.Kind != conversation.EventCommand && a.Kind == b.Kind && a.Where == b.Where && quiet(a) && quiet(b)
}

// eventGroups are events in order, those together that follow each other and are alike.
func eventGroups(events []evidence.Event) (groups [][]evidence.Event) {
	for _, e := range events {
		if n := len(groups); n > 0 && alike(groups[n-1][0], e) {
			groups[n-1] = append(groups[n-1], e)
		} else {
			groups = append(groups, []evidence.Event{e})
		}
	}
	return groups
}

// early are the events before the agent's start that are as they should be; the others
// are in groups.
func (r *reading) early(events []evidence.Event) (early []evidence.Event, groups [][]evidence.Event) {
	start := r.talk.Trial.AgentStart
	var others []evidence.Event
	for _, e := range events {
		if e.Time.Before(start) && quiet(e) {
			early = append(early, e)
		} else {
			others = append(others, e)
		}
	}
	return early, eventGroups(others)
}

// earlyRow is a row of events before the agent's start.
func (r *reading) earlyRow(events []evidence.Event) Row {
	row := r.eventRow(events)
	row.Lane, row.Who, row.What = "", "sandbox", "before the start"
	var kinds []string
	for _, e := range events {
		if kind := e.Kind + " of " + e.Where; !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	row.Preview = brief(fmt.Sprintf("%d events: %s", len(events), strings.Join(kinds, ", ")), previewSize)
	return row
}

// eventRow is a row of events that are alike.
func (r *reading) eventRow(group []evidence.Event) Row {
	first := group[0]
	row := Row{
		Kind: rowEvent, At: offset(r.from, first.Time), Source: sourceEvent, Lane: r.sources[first.Where].Lane,
		Who: brief(first.Where, nameSize), What: kindInWords(first), Preview: brief(first.Message, previewSize), start: first.Time,
	}
	if first.Kind == eventStart || first.Kind == eventEnd {
		row.What, row.Preview = row.Preview, ""
	}
	if len(group) > 1 {
		row.Preview = fmt.Sprintf("%d: %s", len(group), brief(messages(group), previewSize))
	}
	if first.Kind == conversation.EventCommand {
		end, matched := conversation.Invocation(first)
		row.End, row.Failed = &Mark{"none", end, "infra"}, !matched
		if !matched {
			row.End = &Mark{"fail", end, "fail"}
		}
	} else if !quiet(first) {
		row.End = &Mark{"error", "notice", "warn"}
		row.Failed = slices.Contains([]string{"oom", "pids", "disk", "limit", "canary", "gap", "box_exit", "service_exit", "server_exit", eventEnd}, first.Kind)
	}
	return row
}

// kindInWords is an event's kind as a person reads it.
func kindInWords(e evidence.Event) string {
	return brief(strings.ReplaceAll(e.Kind, "_", " "), nameSize)
}

// messages are those of events, each once, as far as a row shows them.
func messages(group []evidence.Event) string {
	var all []string
	for _, e := range group {
		if len(all) < 6 && !slices.Contains(all, e.Message) {
			all = append(all, e.Message)
		}
	}
	return strings.Join(all, ", ")
}

// maxEvents is how many events of a row have their texts.
const maxEvents = 50

func (r *reading) eventTexts(row *Row, group []evidence.Event) {
	var all strings.Builder
	for i, e := range group {
		if i == maxEvents {
			row.note(fmt.Sprintf("%d more are in %s.", len(group)-i, evidence.EventsFile))
			break
		}
		if all.Len() > r.most.Text {
			break // more is not shown
		}
		fmt.Fprintf(&all, "%s  %s\n", offset(r.from, e.Time), e.Message)
		if len(e.Data) > 0 {
			if data, err := evidence.Marshal(e.Data); err == nil {
				fmt.Fprintf(&all, "  %s\n", data)
			}
		}
	}
	row.part("Events", evidence.EventsFile, r.room.show(all.String()))
}
