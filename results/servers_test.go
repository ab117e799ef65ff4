package results

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

// A server's end is reported once, with the calls that failed by it.
func TestServerReports(t *testing.T) {
	call := func(seq int, conn string, outcome evidence.Outcome) evidence.Call {
		return evidence.Call{Seq: seq, Server: "files", Conn: conn, Outcome: outcome}
	}
	exit := func(server, conn, message, signal string, asked bool) evidence.Event {
		return evidence.Event{Kind: "server_exit", Where: server, Message: message, Data: map[string]any{"conn": conn, "signal": signal, "asked": asked}}
	}
	got := Trial{
		Trial: evidence.Trial{Servers: []evidence.ServerRecord{{Name: "files"}, {Name: "web"}, {Name: "calm"}}},
		Calls: []evidence.Call{
			call(1, "a", evidence.OutcomeOK), call(2, "b", evidence.OutcomeTransportError),
			call(3, "a", evidence.OutcomeTransportError), call(4, "a", evidence.OutcomeTransportError),
		},
		Events: []evidence.Event{
			exit("files", "a", "was ended by SIGKILL", "SIGKILL", false),
			exit("files", "b", "exited with code 3", "", false),
			exit("files", "c", "exited with code 0", "", true),
			{Kind: "oom", Where: "files", Message: "the container ran out of memory"},
			{Kind: "service_exit", Where: "web/db", Message: "exited with code 1"},
			{Kind: "service_exit", Where: "web/db", Message: "exited with code 1"},
			{Kind: "container_exit", Where: "web", Message: "process 1 of its container went away: EOF"},
			{Kind: "container_exit", Where: "agent", Message: "?"},
		},
	}.Reports()
	const why = "nothing is on record"
	unseen := map[string]string{"files": why, "programs": why, "connections": why}
	want := []ServerReport{
		{Name: "files", Activity: &Activity{Limits: []string{"the container ran out of memory"}, Unseen: unseen}, Tally: Tally{Calls: 4, Outcomes: map[evidence.Outcome]int{"ok": 1, "transport_error": 3}}, Lost: 3, Ends: []string{
			"its process was ended by SIGKILL (out of memory) during calls 3, 4", "its process exited with code 3 during call 2",
		}},
		{Name: "web", Ends: []string{`its service "db" exited with code 1`, "process 1 of its container went away: EOF"}},
		{Name: "calm"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var many Trial
	many.Servers = []evidence.ServerRecord{{Name: "files"}}
	for i := range 100 {
		many.Events = append(many.Events, exit("files", "", fmt.Sprintf("exited with code %d", i), "", false))
	}
	if ends := many.Reports()[0].Ends; len(ends) != maxEnds+1 || ends[maxEnds] != "and 92 more" {
		t.Errorf("%q", ends)
	}
}

// A changed tool is reported with its server, for at most a few tools.
func TestServerReportsTellRugPulls(t *testing.T) {
	catalog := evidence.Catalog{Server: "files", Changes: []evidence.Change{
		{Server: "files", Tool: "y", What: evidence.ToolAdded, Frame: 4},
		{Server: "files", Tool: "x", What: evidence.ChangedInputSchema, Frame: 6, Before: `{}`, After: `{"required":["key"]}`},
		{Server: "files", Tool: "x", What: evidence.ChangedAnnotations, Frame: 6},
	}}
	trial := Trial{Trial: evidence.Trial{Servers: []evidence.ServerRecord{{Name: "files"}, {Name: "web"}}}, Catalogs: []evidence.Catalog{catalog}}
	want := []string{`the input schema of tool "x" changed in frame 6, from {} to {"required":["key"]}`}
	got := trial.Reports()
	if diff := cmp.Diff(want, got[0].RugPulls); diff != "" || got[1].RugPulls != nil {
		t.Errorf("%s %q", diff, got[1].RugPulls)
	}
	for range 100 {
		trial.Catalogs[0].Changes = append(trial.Catalogs[0].Changes, catalog.Changes[1])
	}
	if pulls := trial.Reports()[0].RugPulls; len(pulls) != maxEnds+1 || pulls[maxEnds] != "and 93 more" {
		t.Errorf("%q", pulls)
	}
}
