package results

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// did is a call of a tool of a server's that took so many milliseconds.
func did(server string, outcome evidence.Outcome, ms int) evidence.Call {
	return evidence.Call{Server: server, Tool: "get", Outcome: outcome, Start: began, End: began.Add(time.Duration(ms) * time.Millisecond)}
}

func TestTally(t *testing.T) {
	calls := []evidence.Call{
		did("s", evidence.OutcomeToolError, 5), did("s", evidence.OutcomeOK, 5), // recovered
		did("s", evidence.OutcomeTimeout, 5), did("s", evidence.OutcomeProtocolError, 5), // not
		did("s", evidence.OutcomeCancelled, 5), did("s", evidence.OutcomeTransportError, 0), did("s", evidence.OutcomeOK, 5),
		did("s", evidence.OutcomeAbandoned, 5),
	}
	calls[0].Incident, calls[1].Incident, calls[2].Incident, calls[3].Incident, calls[5].Incident = 1, 1, 2, 2, 3
	calls[0].Valid, calls[1].Valid, calls[2].Valid = new(false), new(true), new(true)
	calls[3].Known, calls[6].Known = new(false), new(true)
	got := tally(calls)
	want := Tally{
		Calls: 8, Incidents: 3, Recovered: 1, Valid: 2, Invalid: 1, UnknownTools: 1,
		Outcomes: map[evidence.Outcome]int{"ok": 2, "tool_error": 1, "protocol_error": 1, "transport_error": 1, "timeout": 1, "cancelled": 1, "abandoned": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.with(evidence.Outcome.Failed) != 4 || got.with(evidence.Outcome.GivenUp) != 2 {
		t.Errorf("%d errors, %d given up", got.with(evidence.Outcome.Failed), got.with(evidence.Outcome.GivenUp))
	}
}

func TestLatency(t *testing.T) {
	waited, unanswered := did("s", evidence.OutcomeOK, 9), did("s", evidence.OutcomeTimeout, 9)
	waited.Rounds = 1
	unanswered.End = time.Time{}
	for _, test := range []struct {
		call  evidence.Call
		timed bool
	}{
		{did("s", evidence.OutcomeOK, 9), true}, {did("s", evidence.OutcomeToolError, 9), true},
		{did("s", evidence.OutcomeProtocolError, 9), true}, {did("s", evidence.OutcomeTimeout, 9), true},
		{did("s", evidence.OutcomeCancelled, 9), false}, {did("s", evidence.OutcomeAbandoned, 9), false}, {did("s", evidence.OutcomeTransportError, 9), false},
		{waited, false}, {unanswered, false},
	} {
		if took, timed := latency(test.call); timed != test.timed || timed && took != 9*time.Millisecond {
			t.Errorf("%+v: %v, %t", test.call, took, timed)
		}
	}
}

func TestQuantiles(t *testing.T) {
	for _, test := range []struct {
		n           int
		median, p95 float64 // of 1, 2, … n milliseconds; none if 0
	}{{0, 0, 0}, {1, 1, 0}, {2, 1.5, 0}, {19, 10, 0}, {20, 10.5, 19}, {21, 11, 20}, {100, 50.5, 95}, {101, 51, 96}} {
		var times []time.Duration
		for i := range test.n {
			times = append(times, time.Duration(i+1)*time.Millisecond)
		}
		for name, got := range map[string][2]*float64{"median": {median(times), &test.median}, "p95": {p95(times), &test.p95}} {
			if *got[1] == 0 && got[0] != nil || *got[1] != 0 && (got[0] == nil || *got[0] != *got[1]) {
				t.Errorf("%s of %d: %v; want %v", name, test.n, got[0], *got[1])
			}
		}
	}
}

func TestListed(t *testing.T) {
	definition := `{"name":"get","description":"a<b","inputSchema":{"type":"object"}}`
	got := listed(evidence.Catalog{
		Server: "s", SHA256: "abc",
		Tools: []evidence.Tool{
			{Name: "get", Description: "a<b", InputSchema: json.RawMessage(`{ "type": "object" }`), Annotations: json.RawMessage(`{"readOnlyHint":true}`)},
			{Name: "hidden", Hidden: true}, {Name: "gone", Removed: 7},
		},
	})
	want := &Listed{SHA256: "abc", Tools: 1, Hidden: 1, Bytes: len(definition), Tokens: (len(definition) + 3) / 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// graded is a trial with an mcp_compliance verdict of those parts.
func graded(task string, number int, class evidence.Class, selection, params float64) Trial {
	return Trial{
		Trial: evidence.Trial{Task: task, Number: number, Attempt: 1, Servers: []evidence.ServerRecord{{Name: "inventory"}, {Name: "payments-eu"}}},
		Verdicts: evidence.Verdicts{Class: class, Verdicts: []evidence.Verdict{{
			Name: "use", Type: "mcp_compliance", Result: evidence.VerdictPass, Score: selection, Weight: 1,
			Details: map[string]any{"parts": map[string]any{
				"selection": map[string]any{"score": selection, "weight": .4}, "params": map[string]any{"score": params, "weight": .6},
			}},
		}}},
	}
}

func gather(t testing.TB, run Run, trials ...Trial) Results {
	t.Helper()
	b := NewBuilder(run)
	for _, trial := range trials {
		if err := b.Add(trial); err != nil {
			t.Fatal(err)
		}
	}
	return b.Results()
}

// Trials that ended as infra count nowhere; one without a verdict's evidence counts as
// not passed, and has no parts.
func TestStatistics(t *testing.T) {
	unjudged := graded("a", 3, evidence.ClassError, .1, .1)
	unjudged.Verdicts.Verdicts[0].Result = evidence.VerdictError
	odd := graded("c", 1, evidence.ClassFail, 7, .5)
	got := gather(t, Run{Results: Results{Config: Config{Isolated: true}, Tasks: []Task{{TestID: "a"}, {TestID: "b"}, {TestID: "c"}, {TestID: "d"}}}},
		graded("a", 1, evidence.ClassPass, 1, 1), graded("a", 2, evidence.ClassPass, .5, 1), unjudged, graded("a", 4, evidence.ClassInfra, 0, 0),
		graded("b", 1, evidence.ClassPass, .5, .5), graded("b", 2, evidence.ClassPass, .5, .5),
		odd, graded("c", 2, evidence.ClassTimeout, 1, 1),
		graded("d", 1, evidence.ClassInfra, 0, 0),
	)
	s := got.Summary.Statistics
	if want := (ConsistencyCounts{Always: 1, Mixed: 1, Never: 1}); s.Consistency != want {
		t.Errorf("%+v", s.Consistency)
	}
	if at, hat := []float64{(2./3 + 1 + 0) / 3, (1 + 1 + 0) / 3.}, []float64{(2./3 + 1 + 0) / 3, (1./3 + 1 + 0) / 3}; !slices.EqualFunc(s.PassAtK, at, near) || !slices.EqualFunc(s.PassHatK, hat, near) {
		t.Errorf("pass@k %v, pass^k %v; want %v, %v", s.PassAtK, s.PassHatK, at, hat)
	}
	// Of selection the values are 1 and .5, .5 and .5, and 1: one is not between 0 and 1.
	if s.Selection == nil || s.Selection.Trials != 5 || s.Selection.Tasks != 3 || !near(s.Selection.Mean, .7) {
		t.Errorf("selection %+v", s.Selection)
	}
	if s.Params == nil || s.Params.Trials != 6 || !near(s.Params.Mean, 4.5/6) {
		t.Errorf("params %+v", s.Params)
	}
	if s.Score == nil || s.Score.Trials != 7 {
		t.Errorf("score %+v", s.Score)
	}
	for i, want := range []Consistency{Mixed, Always, Never} {
		if stats := got.Tasks[i].Stats; stats.Consistency != want || len(stats.PassHatK) != stats.TotalRuns {
			t.Errorf("task %d: %+v", i, stats)
		}
	}
	if got.Tasks[3].Stats != nil || got.Servers[0].Trials != 7 {
		t.Errorf("infra counts: %+v, server %+v", got.Tasks[3].Stats, got.Servers[0])
	}
}

// cardRun has two servers, one much used.
func cardRun(t testing.TB) Results {
	var trials []Trial
	for _, task := range []string{"find-a-bearing", "reserve", "refund"} {
		for number := range 3 {
			trial := graded(task, number+1, []evidence.Class{evidence.ClassPass, evidence.ClassPass, evidence.ClassFail}[min(number, len(task)-6)%3], 1-.1*float64(number), 1-.05*float64(len(task)))
			for i := range 8 {
				call := did("inventory", evidence.OutcomeOK, 4+i*number)
				call.Valid, call.Known = new(i != 3), new(true)
				trial.Calls = append(trial.Calls, call)
			}
			trial.Calls[3].Outcome, trial.Calls[3].Incident, trial.Calls[4].Incident = evidence.OutcomeToolError, 1, 1
			trial.Catalogs = []evidence.Catalog{{Server: "inventory", SHA256: "5f2c9a1b77", Tools: []evidence.Tool{{Name: "get", Description: strings.Repeat("x", 200)}}}}
			if number == 2 {
				trial.Calls = append(trial.Calls, did("payments-eu", evidence.OutcomeTimeout, 30_000))
				trial.Catalogs = append(trial.Catalogs, evidence.Catalog{Server: "payments-eu", SHA256: task})
			}
			trials = append(trials, trial)
		}
	}
	return gather(t, Run{Results: Results{Config: Config{Isolated: true, RunsPerTest: 3}, Tasks: []Task{{TestID: "find-a-bearing"}, {TestID: "reserve"}, {TestID: "refund"}}}}, trials...)
}
