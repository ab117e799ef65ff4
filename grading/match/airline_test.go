package match

import (
	"encoding/json"
	"slices"
	"testing"
)

// airline is a run of an agent in tau-bench, with the calls it should have made and
// whether the database was in the end as those would have left it.
type airline struct {
	TaskID, Trial int
	Reward        float64
	Gold          []struct {
		Name   string
		Kwargs map[string]json.RawMessage
	}
	Calls []struct {
		Name      string
		Arguments json.RawMessage
		Write     bool
		IsError   bool `json:"is_error"`
	}
}

// airlineWrites are the tools that change something. No agent calls the last one, so the
// calls do not show that it writes.
var airlineWrites = []string{
	"book_reservation", "cancel_reservation", "send_certificate", "update_reservation_baggages",
	"update_reservation_flights", "update_reservation_passengers",
}

// passes expects the gold writes, with exactly their arguments.
func (a airline) passes(t *testing.T, mode Mode) bool {
	var expected []Expected
	for _, gold := range a.Gold {
		if !slices.Contains(airlineWrites, gold.Name) {
			continue
		}
		values := map[string]json.RawMessage{}
		for name, value := range gold.Kwargs {
			values[name] = encode(t, map[string]any{"equals": value})
		}
		args := encode(t, ArgsConfig{Match: "exact", Values: values})
		expected = append(expected, Once(target(t, gold.Name, string(args))))
	}
	var calls []Call
	for _, call := range a.Calls {
		if call.Write != slices.Contains(airlineWrites, call.Name) {
			t.Fatalf("%s: write is %v", call.Name, call.Write)
		}
		calls = append(calls, Call{Tool: call.Name, Arguments: call.Arguments, OK: !call.IsError, ReadOnly: !call.Write})
	}
	return holds(Match(mode, expected, calls))
}

// A run passes if it made exactly the expected changes. Allowing other changes would pass
// runs that failed.
//
// Effects is wrong for two runs: in row 33 the right write overwrites a wrong one, which
// calls do not show; in row 54 the database is right, and the reward is for an answer that
// was not given.
func TestEffectsAgreeWithTheDatabase(t *testing.T) {
	runs := readCases[airline](t, shared(t, "tau_airline_sample.jsonl"))
	type outcome struct{ agree, falsePass, falseFail int }
	count := func(mode Mode) (o outcome) {
		for i, run := range runs {
			passes, good := run.passes(t, mode), run.Reward == 1
			switch {
			case passes == good:
				o.agree++
				continue
			case passes:
				o.falsePass++
			default:
				o.falseFail++
			}
			t.Logf("%s, row %d: passes %v, reward %v", mode, i+1, passes, run.Reward)
		}
		return o
	}
	effects, superset := count(Effects), count(Superset)
	t.Logf("of %d runs: effects %+v, superset %+v", len(runs), effects, superset)
	if effects.agree < 58 || superset.agree != 47 {
		t.Errorf("effects agrees in %d runs, want 58 at least; superset in %d, want 47", effects.agree, superset.agree)
	}
}
