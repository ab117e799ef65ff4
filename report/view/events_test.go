package view

import (
	"testing"

	"github.com/waza-isolate/waza/evidence"
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
