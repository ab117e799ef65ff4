package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/runner/evidence"
)

// quiet are kinds of events that are as they should be.
func quiet(e evidence.Event) bool {
	switch e.Kind {
	case "health", "dns", "shared_server", "transcript_noise", "stdout_noise":
		return true
	case "server_exit":
		asked, _ := e.Data["asked"].(bool)
		return asked
	case "egress":
		allowed, _ := e.Data["allowed"].(bool)
		return allowed
	}
	return false
}

// alike says whether two events make one row.
func alike(a, b evidence.Event) bool {
	return a.Kind == b.Kind && a.Where == b.Where && quiet(a) && quiet(b)
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

// eventRow is a row of events that are alike.
func (r *reading) eventRow(group []evidence.Event) Row {
	first := group[0]
	row := Row{
		Kind: rowEvent, At: offset(r.from, first.Time), Source: sourceEvent, Lane: r.sources[first.Where].Lane,
		Who: first.Where, What: strings.ReplaceAll(first.Kind, "_", " "), Preview: brief(first.Message, previewSize), start: first.Time,
	}
	if len(group) > 1 {
		row.Preview = fmt.Sprintf("%d times: %s", len(group), row.Preview)
	}
	if !quiet(first) {
		row.End, row.Failed = &Mark{"error", "notice", "warn"}, slices.Contains([]string{"oom", "pids", "disk", "limit", "canary", "gap", "box_exit", "service_exit", "server_exit"}, first.Kind)
	}
	return row
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
		fmt.Fprintf(&all, "%s  %s\n", offset(r.from, e.Time), e.Message)
		if len(e.Data) > 0 {
			if data, err := evidence.Marshal(e.Data); err == nil {
				fmt.Fprintf(&all, "  %s\n", data)
			}
		}
	}
	row.part("Events", evidence.EventsFile, r.room.show(all.String()))
}
