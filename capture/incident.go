package capture

import "github.com/waza-isolate/waza/evidence"

// Incident is a failure of a tool and what the agent did about it, as
// [evidence.Call.Incident] counts them.
type Incident struct {
	Calls     []int // their numbers, in order; the first one failed
	Recovered bool  // the last one succeeded
	Adapted   bool  // ... with other arguments than the first one
}

// Incidents are those of calls, which are a trial's or those to some of its servers, in
// the order in which they began.
func Incidents(calls []evidence.Call) []Incident {
	var incidents []Incident
	type begun struct{ at, first int }
	known := map[int]begun{} // by the incident's number
	for i, call := range calls {
		if call.Incident == 0 {
			continue
		}
		b, ok := known[call.Incident]
		if !ok {
			b = begun{len(incidents), i}
			known[call.Incident] = b
			incidents = append(incidents, Incident{})
		}
		incident := &incidents[b.at]
		incident.Calls = append(incident.Calls, call.Seq)
		if call.Outcome == evidence.OutcomeOK {
			incident.Recovered = true
			incident.Adapted = !Equal(call.Arguments, calls[b.first].Arguments)
		}
	}
	return incidents
}

// numberIncidents finds the incidents in a trial's calls, which have their outcomes.
//
// A call follows a failure if it was made when the failure was known: what was asked at
// the same time is no answer to it. So calls that fail side by side are one incident,
// and a success beside them does not end it. A call that the client gave up is no
// failure and no success.
func numberIncidents(calls []*call) {
	type name struct{ server, tool string }
	type incident struct {
		number int
		known  int64 // frame of its first failure's end; 0 is none yet
	}
	count := 0
	open := map[name]*incident{}
	for _, k := range calls {
		n := name{k.Server, k.Tool}
		at := open[n]
		failed := k.Outcome.Failed()
		switch follows := at != nil && at.known > 0 && k.RequestFrame > at.known; {
		case at == nil && failed:
			count++
			at = &incident{number: count}
			open[n] = at
		case !follows && !failed:
			continue
		}
		k.Incident = at.number
		if failed && k.ended > 0 && (at.known == 0 || k.ended < at.known) {
			at.known = k.ended
		}
		if k.Outcome == evidence.OutcomeOK {
			delete(open, n)
		}
	}
}
