package report

import (
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/runner/evidence"
)

// Of calls that are drawn together no more is red than failed.
func TestShareThatFailedIsDrawn(t *testing.T) {
	start := time.Unix(0, 0)
	s := scale{start, start, 100 * time.Second}
	var calls []*evidence.Call
	for i := range 4 {
		at := start.Add(time.Duration(i) * time.Second)
		calls = append(calls, &evidence.Call{Seq: i + 1, Start: at, End: at.Add(time.Second), Outcome: evidence.OutcomeOK})
	}
	if bars := s.together(calls, 10); len(bars) != 1 || bars[0].Width != "4%" || bars[0].Kind != "ok" {
		t.Errorf("none failed: %+v", bars)
	}
	calls[2].Outcome = evidence.OutcomeToolError
	bars := s.together(calls, 2)
	if len(bars) != 2 || bars[0].Width != "2%" || bars[1].Width != "0.5%" || bars[1].Kind != "fail" || bars[1].Anchor != "call-3" {
		t.Errorf("one of four failed: %+v", bars)
	}
}

func TestTicksBeginAtZero(t *testing.T) {
	start := time.Unix(0, 0)
	for _, width := range []time.Duration{time.Millisecond, 3 * time.Second, time.Hour} {
		ticks := scale{start, start, width}.ticks()
		if first := ticks[0].Text; strings.HasPrefix(first, "-") || ticks[0].X != "0%" {
			t.Errorf("in %s the first tick is %q at %s", width, first, ticks[0].X)
		}
	}
}

func TestCostHasOneSign(t *testing.T) {
	trial, _ := pageOf(t, sampled(t, "text", 3), Share(1))
	amount := 0.0408
	trial.Figures.Cost = &amount
	page := write(t, Document{}, OfTrial(trial, Links{InFile: true}))
	if want := "<dd>$0.0408</dd>"; !strings.Contains(page, want) {
		t.Errorf("the page lacks %q", want)
	}
}
