package view

import (
	"slices"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

func TestStateOfEvent(t *testing.T) {
	t.Parallel()
	for kind, of := range map[string]map[State]map[string]any{
		"health":               {Plain: nil},
		"dns":                  {Plain: nil},
		"server_exit":          {Plain: {"asked": true}, Bad: {"asked": false}},
		"oom":                  {Bad: nil},
		"egress":               {Plain: {"allowed": true}, Doubtful: {"allowed": false}},
		evidence.EventAnswer:   {Plain: {"unmet": false}, Doubtful: {"unmet": true}},
		evidence.EventHookCall: {Plain: nil},
		EventCommand:           {Plain: {"response_index": 0.0}, Bad: {"response_index": -1.0}},
		"cancelled":            {Doubtful: nil},
	} {
		for want, data := range of {
			if got := StateOfEvent(evidence.Event{Kind: kind, Data: data}); got != want {
				t.Errorf("%s with %v: %d, want %d", kind, data, got, want)
			}
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	r := results.RunResult{
		Commands: []evidence.CommandInvocation{{Command: "az", Args: []string{"group", "show"}, ResponseIndex: -1}, {Command: "az", ResponseIndex: 0}},
		Servers: []results.ServerReport{
			{Name: "it", RugPulls: []string{"the description changed"}, Ends: []string{"its process was ended by SIGKILL"}, Unpinned: []string{"differs from its pin"}},
			{Name: "crm", Unmatched: []string{"no response matches a call"}},
		},
	}
	want := []string{
		`mock of command "az": no response matches ["group" "show"]`, `server "it": rug pull: the description changed`,
		`server "it": differs from its pin`, `server "it": its process was ended by SIGKILL`, `mock server "crm": no response matches a call`,
	}
	var got []string
	for _, e := range Events(r) {
		got = append(got, e.Line())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
