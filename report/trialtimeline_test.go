package report

import (
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
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
	if width := (Bar{Wide: .0001}).Width(); width != "0.001%" {
		t.Errorf("a call that took no time is %s wide", width)
	}
	if bars := s.together(calls, 10); len(bars) != 1 || bars[0].Width() != "4%" || bars[0].Kind != "ok" {
		t.Errorf("none failed: %+v", bars)
	}
	calls[2].Outcome = evidence.OutcomeToolError
	bars := s.together(calls, 2)
	if len(bars) != 2 || bars[0].Width() != "2%" || bars[1].Width() != "0.5%" || bars[1].Kind != "fail" || bars[1].Anchor != "call-3" {
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

// What happened has some of the time around it, and is not lost in all of it.
func TestTimeThatIsDrawn(t *testing.T) {
	start := time.Unix(0, 0)
	for _, c := range []struct {
		whole, from, busy, begins, width time.Duration
	}{
		{10 * time.Second, time.Second, 5 * time.Second, 0, 10 * time.Second},
		{10 * time.Second, 5 * time.Second, 20 * time.Millisecond, 4510 * time.Millisecond, time.Second},
		{10 * time.Second, 5 * time.Second, time.Second, 3500 * time.Millisecond, 4 * time.Second},
		{10 * time.Second, 0, 20 * time.Millisecond, 0, time.Second},
		{10 * time.Second, 9980 * time.Millisecond, 20 * time.Millisecond, 9 * time.Second, time.Second},
		{10 * time.Second, 0, 0, 0, 10 * time.Second},
	} {
		call := &evidence.Call{Start: start.Add(c.from), End: start.Add(c.from + c.busy)}
		r := course{from: start, to: start.Add(c.whole), talk: view.Conversation{Steps: []view.Step{{Call: call}}}}
		if s := r.scale(); s.from.Sub(start) != c.begins || s.width != c.width {
			t.Errorf("busy for %s from %s on of %s: drawn are %s from %s on", c.busy, c.from, c.whole, s.width, s.from.Sub(start))
		}
	}
}

// Bars have labels if there is space, and no label covers a bar or another label.
func TestBarsAreLabelled(t *testing.T) {
	says := []string{"read_text_file, 14ms", "read_text_file"}
	lane := Lane{Bars: []Bar{
		{At: 0, Wide: 30, Labels: says},         // on it, whole
		{At: 31, Wide: 1, Labels: says},         // no room before the next
		{At: 33, Wide: 1, Labels: says},         // in short, behind it
		{At: 48, Wide: 2, Labels: says},         // no room: it is behind the one before
		{At: 98, Wide: 2, Labels: says},         // before it
		{At: 98, Wide: 2, Y: 1},                 // it has none
		{At: 10, Wide: 1, Y: 1, Labels: says},   // in a row of its own
		{At: 100, Wide: 0, Y: 2, Labels: says},  // at the end
		{At: 99.9, Wide: 0, Y: 2, Labels: says}, // just before it
	}}
	lane.label()
	for i, want := range []Label{
		{"0.7%", says[0], "in "}, {}, {"34.7%", says[1], ""}, {"50.7%", says[0], ""}, {"97.3%", says[0], "left"}, {},
		{"11.7%", says[0], ""}, {}, {"99.2%", says[0], "left"},
	} {
		if got := lane.Bars[i].Label; got != want {
			t.Errorf("bar %d: %+v, want %+v", i, got, want)
		}
	}
}

// Events that a person has to look at say what they are.
func TestNoticesAreLabelled(t *testing.T) {
	at := func(center float64, says ...string) Bar {
		return Bar{At: center - markWide/2, Wide: markWide, Labels: says}
	}
	lane := Lane{Marks: []Bar{at(10), at(50, "oom"), at(53, "egress"), at(54)}}
	lane.label()
	for i, want := range []Label{{}, {"48.7%", "oom", "left"}, {}, {}} {
		if got := lane.Marks[i].Label; got != want {
			t.Errorf("mark %d: %+v, want %+v", i, got, want)
		}
	}
}

// That models were asked unseen is said once, and not of agents that ask none.
func TestUnseenModelsAreSaid(t *testing.T) {
	for executor, says := range map[string]bool{"claude": true, "command": true, "script": false, "mock": false} {
		dir := sampled(t, executor, 1)
		if _, page := pageOf(t, dir, Share(1)); strings.Contains(page, "did not use waza’s gateway") != says {
			t.Errorf("of executor %s it is said: %t", executor, !says)
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
