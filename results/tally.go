package results

import (
	"maps"
	"slices"
	"time"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// Tally counts calls of a server.
type Tally struct {
	Calls        int                      `json:"calls"`
	Outcomes     map[evidence.Outcome]int `json:"outcomes,omitempty"`
	Incidents    int                      `json:"incidents,omitempty"`
	Recovered    int                      `json:"recovered,omitempty"`         // incidents that ended in a success
	Valid        int                      `json:"valid_arguments,omitempty"`   // calls whose arguments fit the tool's schema
	Invalid      int                      `json:"invalid_arguments,omitempty"` // that do not; of others it is not known
	UnknownTools int                      `json:"unknown_tools,omitempty"`     // calls of a tool that the server had not listed
}

// tally counts the calls of one server in one trial.
func tally(calls []evidence.Call) Tally {
	t := Tally{Calls: len(calls)}
	for _, call := range calls {
		t.count(call.Outcome, 1)
		switch {
		case call.Valid == nil:
		case *call.Valid:
			t.Valid++
		default:
			t.Invalid++
		}
		if call.Known != nil && !*call.Known {
			t.UnknownTools++
		}
	}
	for _, incident := range capture.Incidents(calls) {
		t.Incidents++
		if incident.Recovered {
			t.Recovered++
		}
	}
	return t
}

func (t *Tally) count(outcome evidence.Outcome, calls int) {
	if t.Outcomes == nil {
		t.Outcomes = map[evidence.Outcome]int{}
	}
	t.Outcomes[outcome] += calls
}

func (t *Tally) add(other Tally) {
	t.Calls += other.Calls
	for _, outcome := range slices.Sorted(maps.Keys(other.Outcomes)) {
		t.count(outcome, other.Outcomes[outcome])
	}
	t.Incidents += other.Incidents
	t.Recovered += other.Recovered
	t.Valid += other.Valid
	t.Invalid += other.Invalid
	t.UnknownTools += other.UnknownTools
}

// errors counts calls that went wrong.
func (t Tally) errors() (count int) {
	for outcome, calls := range t.Outcomes {
		if outcome.Failed() {
			count += calls
		}
	}
	return count
}

// givenUp counts calls that the agent gave up.
func (t Tally) givenUp() (count int) {
	for outcome, calls := range t.Outcomes {
		if outcome.GivenUp() {
			count += calls
		}
	}
	return count
}

// latency is how long a call took: until it was answered, or until its time was up.
// Others have none, nor has one that waited for the client's input.
func latency(call evidence.Call) (time.Duration, bool) {
	switch call.Outcome {
	case evidence.OutcomeOK, evidence.OutcomeToolError, evidence.OutcomeProtocolError, evidence.OutcomeTimeout:
		return call.End.Sub(call.Start), call.Rounds == 0 && !call.End.Before(call.Start)
	}
	return 0, false
}
