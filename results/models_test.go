package results_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/report/terminal"
	"github.com/waza-isolate/waza/results"
)

// answered is a model call that took so many milliseconds to the first token, and twice
// as long in all.
func answered(ms int, usage *dialect.Usage, cost *float64) evidence.ModelCall {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	after := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	return evidence.ModelCall{
		Dialect: dialect.Chat, Outcome: evidence.ModelOK, Usage: usage, Cost: cost,
		Start: start, FirstToken: after(ms), End: after(2 * ms),
	}
}

func TestModels(t *testing.T) {
	cent := 0.01
	refused := answered(1, nil, nil)
	refused.Outcome = evidence.ModelRefused
	list := answered(1, nil, nil)
	list.Dialect = ""
	first := results.Trial{
		Trial: evidence.Trial{Task: "a", Number: 1}, Gateway: true,
		Models: []evidence.ModelCall{
			answered(100, &dialect.Usage{Input: 1000, Output: 10, Cached: 900, Reasoning: 4}, &cent),
			answered(300, &dialect.Usage{Input: 2000, Output: 20}, &cent), refused, list,
		},
		Calls: []evidence.Call{{Origin: evidence.OriginModel}, {Origin: evidence.OriginOutOfBand}},
	}
	second := results.Trial{
		Trial: evidence.Trial{Task: "a", Number: 2}, Gateway: true,
		Models: []evidence.ModelCall{answered(200, nil, nil), answered(500, &dialect.Usage{Input: 1}, nil)},
		Calls:  []evidence.Call{{Origin: evidence.OriginModel}, {Origin: evidence.OriginUnknown}},
	}
	for _, trial := range []*results.Trial{&first, &second} {
		trial.Verdicts.Class = evidence.ClassPass
	}
	r := built(t, first, second)
	ms := func(f float64) *float64 { return &f }
	two := 0.02
	want := &results.Models{
		Requests: 5, Failed: 1, Tokens: dialect.Usage{Input: 3001, Output: 30, Cached: 900, Reasoning: 4},
		Uncounted: 1, Cost: &two, Unpriced: 1,
		Timing:  results.Timing{MedianFirstTokenMS: ms(250), MedianDurationMS: ms(500)},
		Origins: map[evidence.Origin]int{evidence.OriginModel: 2, evidence.OriginOutOfBand: 1, evidence.OriginUnknown: 1},
	}
	if diff := cmp.Diff(want, r.Summary.Models); diff != "" {
		t.Error(diff)
	}
	if got := r.Tasks[0].Runs[0].Models; got.Requests != 3 || *got.MedianFirstTokenMS != 200 || got.P95FirstTokenMS != nil {
		t.Errorf("the first trial: %+v", got)
	}
	line := "models: 5 requests (1 failed), 3,001 tokens in (900 cached), 30 out, $0.0200, first token after 250ms, 1 call out of band, 1 call of unknown origin\n"
	if got := tableOf(t, r); !strings.Contains(got, line) {
		t.Errorf("want\n%s\nin\n%s", line, got)
	}
}

func TestNoGateway(t *testing.T) {
	r := built(t, results.Trial{Trial: evidence.Trial{Task: "a", Number: 1}, Calls: []evidence.Call{{Origin: evidence.OriginUnknown}}})
	if r.Summary.Models != nil || r.Tasks[0].Runs[0].Models != nil || strings.Contains(tableOf(t, r), "models") {
		t.Errorf("figures of models where none was on record: %+v", r.Summary.Models)
	}
}

func TestP95OfAnswers(t *testing.T) {
	trial := results.Trial{Trial: evidence.Trial{Task: "a", Number: 1}, Gateway: true}
	for i := range 20 {
		trial.Models = append(trial.Models, answered(i+1, nil, nil))
	}
	got := built(t, trial).Summary.Models
	if *got.P95FirstTokenMS != 19 || *got.P95DurationMS != 38 {
		t.Errorf("%v, %v", *got.P95FirstTokenMS, *got.P95DurationMS)
	}
}

func built(t *testing.T, trials ...results.Trial) results.Results {
	t.Helper()
	b := results.NewBuilder(results.Run{Results: results.Results{Tasks: []results.Task{{TestID: "a"}}}})
	for _, trial := range trials {
		if err := b.Add(trial); err != nil {
			t.Fatal(err)
		}
	}
	return b.Results()
}

func tableOf(t *testing.T, r results.Results) string {
	t.Helper()
	var out bytes.Buffer
	if err := terminal.Run(&out, r, 0); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
