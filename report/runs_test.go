package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
)

// The page of a run at work says how far it has come: the trials that began last are first.
func TestAtWork(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := view.RunProgress{
		State: view.StateRunning, ElapsedMS: 90_000, Planned: 400, Done: 30, LeftMS: new(int64(240_000)),
		Outcomes: map[evidence.Class]int{evidence.ClassPass: 20, evidence.ClassFail: 10},
	}
	for n := range 60 {
		one := view.TrialProgress{Task: "buy", Number: n + 1, Attempt: 1, Phase: string(evidence.PhaseDone), Since: began.Add(time.Duration(n) * time.Second), Outcome: evidence.ClassPass}
		if n%2 == 0 {
			one.Phase, one.Attempt, one.Call = string(evidence.PhaseAgent), 2, &view.CallProgress{Server: "stock", Tool: "price"}
		}
		p.Trials = append(p.Trials, one)
	}
	page := parse(t, AtWork(p, ServedRun("a")))
	text := page.text(".now")
	for _, want := range []string{"30 of 400 trials have ended, 1 min 30 s, about 4 min 0 s left", "buy/59, attempt 2", "stock price", "buy/60 pass"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	if links := page.attrs("a", "href"); len(links) < maxEnded || strings.Contains(text, "buy/20 pass") || !slices.Contains(links, "/runs/a/trial/buy/60") {
		t.Errorf("links %q", links)
	}
}
