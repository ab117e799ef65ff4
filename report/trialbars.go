package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// turnBars are the models' turns; where there are many, the first of each piece of time.
func (r *reading) turnBars(s scale) (bars []Bar) {
	last := -1
	for _, step := range r.talk.Steps {
		t := step.Turn
		if t == nil {
			continue
		}
		piece := int(s.at(t.Start) * maxBars / 4 / 100)
		if piece == last {
			continue
		}
		last = piece
		kind := "turn"
		if t.Outcome != evidence.ModelOK {
			kind = "fail"
		}
		took := lasted(t.Start, t.End)
		bar := s.bar(t.Start, t.End, kind, turnAnchor(t.Seq), fmt.Sprintf("model turn %d, %s", t.Seq, took))
		bar.Says = []string{fmt.Sprintf("turn %d, %s", t.Seq, took), took}
		bars = append(bars, bar)
	}
	return bars
}

// serverLanes are a lane for each server, as they are declared; those beyond the bound
// share one.
func (r *reading) serverLanes(s scale, t *Timeline) (all []Lane) {
	at := map[string]int{}
	for i, server := range r.talk.Trial.Servers {
		if i < maxLanes {
			all = append(all, Lane{Name: brief(server.Name, 24), Lane: r.sources[server.Name].Lane})
			at[server.Name] = i
		}
	}
	others := -1
	calls := make([][]*evidence.Call, len(all)+1)
	for _, call := range r.calls {
		i, ok := at[call.Server]
		if !ok {
			i, others = len(all), len(all)
		}
		calls[i] = append(calls[i], call)
	}
	if others >= 0 {
		all = append(all, Lane{Name: "other servers"})
	}
	for i := range all {
		var joined int
		all[i].Bars, joined = s.bars(calls[i], maxBars/2/len(all), len(r.calls) > maxBars)
		t.Joined += joined
	}
	return all
}

// bars are calls of one lane: each by itself, or those together that begin in the same of
// so many pieces of time.
func (s scale) bars(calls []*evidence.Call, pieces int, join bool) (bars []Bar, joined int) {
	slices.SortStableFunc(calls, func(a, b *evidence.Call) int { return a.Start.Compare(b.Start) })
	if !join {
		return s.stacked(calls), 0
	}
	for len(calls) > 0 {
		n, piece := 0, int(s.at(calls[0].Start)*float64(pieces)/100)
		for n < len(calls) && int(s.at(calls[n].Start)*float64(pieces)/100) == piece {
			n++
		}
		bars = append(bars, s.together(calls[:n], 100/float64(pieces))...)
		if n > 1 {
			joined += n
		}
		calls = calls[n:]
	}
	return bars, joined
}

// together is a bar of calls, at most so many percent wide, and on it one of the share of
// them that failed.
func (s scale) together(calls []*evidence.Call, most float64) []Bar {
	if len(calls) == 1 {
		return []Bar{s.callBar(calls[0])}
	}
	var failed []*evidence.Call
	end := calls[0].Start
	for _, call := range calls {
		if call.Outcome.Failed() {
			failed = append(failed, call)
		}
		if call.End.After(end) {
			end = call.End
		}
	}
	start := calls[0].Start
	width := min(s.at(end)-s.at(start), most)
	title := fmt.Sprintf("%d calls, from call %d", len(calls), calls[0].Seq)
	bar := Bar{At: s.at(start), Wide: width, Kind: "ok", Anchor: callAnchor(calls[0].Seq), Title: title}
	if len(failed) == 0 {
		return []Bar{bar}
	}
	first := failed[0].Seq
	bad := bar
	bad.Kind, bad.Anchor = "fail", callAnchor(first)
	bad.Title = fmt.Sprintf("%d of %d calls failed, the first is call %d", len(failed), len(calls), first)
	bad.Wide = width * float64(len(failed)) / float64(len(calls))
	return []Bar{bar, bad}
}

func (s scale) callBar(call *evidence.Call) Bar {
	kind := "ok"
	switch {
	case call.Outcome.Failed():
		kind = "fail"
	case call.Outcome != evidence.OutcomeOK:
		kind = "none"
	}
	tool, took := brief(call.Tool, 60), lasted(call.Start, call.End)
	title, says := fmt.Sprintf("call %d, %s, %s", call.Seq, tool, call.Outcome), []string{tool}
	if took != "" {
		title, says = title+", "+took, []string{tool + ", " + took, tool, took}
	}
	bar := s.bar(call.Start, call.End, kind, callAnchor(call.Seq), title)
	bar.Says = says
	return bar
}

// stacked are bars of calls: those at once are below each other.
func (s scale) stacked(calls []*evidence.Call) (bars []Bar) {
	var free [maxStacked]time.Time
	for _, call := range calls {
		row := 0
		for row < maxStacked-1 && call.Start.Before(free[row]) {
			row++
		}
		if call.End.After(free[row]) {
			free[row] = call.End
		}
		bar := s.callBar(call)
		bar.Y = row
		bars = append(bars, bar)
	}
	return bars
}
