package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
)

// The page of a run in progress shows its progress, with the latest trials first.
func TestAtWork(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := view.RunProgress{
		State: view.StateRunning, ElapsedMS: 90_000, Planned: 400, Done: 30, Left: new(4 * time.Minute),
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
	for _, want := range []string{"30 of 400 trials have ended, 1m30s, about 4 min left", "buy/59, attempt 2", "stock price", "buy/60 pass"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q: %s", want, text)
		}
	}
	if links := page.attrs("a", "href"); len(links) < maxEnded || strings.Contains(text, "buy/20 pass") || !slices.Contains(links, "/runs/a/trial/buy/60") {
		t.Errorf("links %q", links)
	}
}

// A run is named by its eval first, and has its rates and those of earlier runs of the eval as a line.
func TestRunsTellHistory(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var newest []view.ListedRun
	for n := range 60 {
		run := view.ListedRun{ID: fmt.Sprint("run-", n), Eval: []string{"shop", "bank"}[n%2], State: view.StateEnded, Started: began.Add(-time.Duration(n) * time.Hour), PassRate: new(float64(n%4) / 4)}
		if n == 2 {
			run.PassRate = nil
		}
		newest = append(newest, run)
	}
	page := parse(t, Runs("runs", 60, newest))
	rows := page.all("tbody tr")
	if text := rows[0].text("th"); len(rows) != 60 || !strings.HasPrefix(text, "shop run-0") {
		t.Errorf("%d runs, the first is %q", len(rows), text)
	}
	points := page.attrs("polyline", "points")
	if n := len(strings.Fields(points[0])); len(points) != 58 || n != maxTrend || !strings.HasSuffix(points[0], "93.0,17.0") {
		t.Errorf("%d lines, the first of %d points: %s", len(points), n, points[0])
	}
	if said := page.attrs("svg.trend", "aria-label"); !strings.HasSuffix(said[0], " 50% 0% 50% 0% 0%") { // the one without a rate is no point
		t.Errorf("it says %q", said[0])
	}
}
