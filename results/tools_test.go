package results

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
)

func cardOf(t *testing.T, trials ...Trial) ServerCard {
	t.Helper()
	b := NewBuilder(Run{Results: Results{Tasks: []Task{{TestID: "a"}}}})
	for _, trial := range trials {
		if err := b.Add(trial); err != nil {
			t.Fatal(err)
		}
	}
	return b.Results().Servers[0]
}

func using(number int, calls []evidence.Call, tools ...evidence.Tool) Trial {
	trial := graded("a", number, evidence.ClassPass, 1, 1)
	trial.Servers = []evidence.ServerRecord{{Name: "s"}}
	trial.Calls = calls
	if tools != nil {
		trial.Catalogs = []evidence.Catalog{{Server: "s", SHA256: fmt.Sprint(number), Tools: tools}}
	}
	return trial
}

func TestToolsOfACard(t *testing.T) {
	unlisted := did("s", evidence.OutcomeProtocolError, 1)
	unlisted.Tool, unlisted.Known = "drop", new(false)
	get := evidence.Tool{Name: "get", Description: strings.Repeat("x", 40)}
	card := cardOf(t,
		using(1, []evidence.Call{did("s", evidence.OutcomeOK, 10), unlisted}, evidence.Tool{Name: "idle"}, get),
		using(2, []evidence.Call{did("s", evidence.OutcomeToolError, 30), did("other", evidence.OutcomeOK, 1)},
			evidence.Tool{Name: "get"}, evidence.Tool{Name: "own", Hidden: true}, evidence.Tool{Name: "gone", Removed: 9}),
	)
	want := []ToolCard{
		{Name: "idle", Listed: 1, Tokens: 4},
		{Name: "get", Listed: 2, Tokens: tokens(definitionBytes(get)), Calls: 2, Errors: 1, MedianDurationMS: new(20.0)},
		{Name: "own", Listed: 1, Hidden: true, Tokens: 4},
		{Name: "drop", Calls: 1, Errors: 1, Unknown: 1, MedianDurationMS: new(1.0)},
	}
	if diff := cmp.Diff(want, card.Tools); diff != "" {
		t.Error(diff)
	}
	if card.MoreCalls != 0 || card.TimedCalls != 3 {
		t.Errorf("%d calls of others, %d timed", card.MoreCalls, card.TimedCalls)
	}
}

// Foreign names, many or long, do not make a card long, and no call is lost.
func TestToolsAreBounded(t *testing.T) {
	var calls []evidence.Call
	var tools []evidence.Tool
	for i := range 3 * maxTools {
		call := did("s", evidence.OutcomeOK, 1)
		call.Tool = fmt.Sprint(i) + strings.Repeat("n", 10*maxName)
		calls = append(calls, call)
		tools = append(tools, evidence.Tool{Name: call.Tool + "listed"})
	}
	card := cardOf(t, using(1, calls, tools...), using(2, calls))
	all := card.MoreCalls
	for _, tool := range card.Tools {
		all += tool.Calls
		if len(tool.Name) > maxName+len("…") {
			t.Fatalf("a name of %d bytes", len(tool.Name))
		}
	}
	if len(card.Tools) != maxTools || all != len(calls)*2 || card.TimedCalls != all {
		t.Errorf("%d tools, %d calls, %d timed", len(card.Tools), all, card.TimedCalls)
	}
}

// Trials that do not count leave no use behind.
func TestToolsOfTrialsThatCount(t *testing.T) {
	broke := using(1, []evidence.Call{did("s", evidence.OutcomeOK, 1)})
	broke.Verdicts.Class = evidence.ClassInfra
	if card := cardOf(t, broke, using(2, []evidence.Call{did("s", evidence.OutcomeOK, 2)})); len(card.Tools) != 1 || card.Tools[0].Calls != 1 || *card.Tools[0].MedianDurationMS != 2 {
		t.Errorf("%+v", card.Tools)
	}
}

func TestHistogram(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		times []time.Duration
		want  []LatencyBucket
	}{
		{nil, nil},
		{[]time.Duration{0, 100 * time.Microsecond}, []LatencyBucket{{0.1, 2}}},
		{[]time.Duration{2 * ms, 2*ms + 1, 20 * ms}, []LatencyBucket{{2, 1}, {5, 1}, {10, 0}, {20, 1}}},
		{[]time.Duration{100 * time.Second, 101 * time.Second, time.Hour}, []LatencyBucket{{100_000, 1}, {0, 2}}},
	} {
		if diff := cmp.Diff(test.want, histogram(test.times)); diff != "" {
			t.Errorf("%v: %s", test.times, diff)
		}
	}
}
