package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
)

// Timeline shows a trial as lanes of bars over time. Horizontal positions are in percent of
// its width, heights in pixels.
type Timeline struct {
	Lanes  []Lane
	Ticks  []Tick
	Height int
	Joined int  // number of calls that are drawn joined with others
	Before int  // number of events before the agent's start or after its end, which are not drawn
	Cut    bool // idle time is not drawn
	Label  string
	Legend []Shape
}

// Lane is a lane for the agent, its models, a server, or other events.
type Lane struct {
	Name   string
	Lane   string // color of a server
	Y      int
	Height int
	Bars   []Bar
	Marks  []Bar // events
}

// Bar is a call, a model response, several calls drawn together, or a mark for an event.
type Bar struct {
	At, Wide  float64
	Y, Height int
	Kind      string // ok, fail, none, turn, agent, notice, event
	Anchor    string // link target; empty for none
	Title     string
	Labels    []string // possible labels, the longest first
	Label     Label
}

// leastWide is the minimum width of a bar, in percent: rectangles without a width are not drawn.
const leastWide = .001

// X and Width return the start and the width of a bar.
func (b Bar) X() string     { return inPercent(b.At) }
func (b Bar) Width() string { return inPercent(max(b.Wide, leastWide)) }

// Center returns the position of the middle of a bar or mark.
func (b Bar) Center() string { return inPercent(b.At + b.Wide/2) }

// Shape is the legend of a kind of bar or mark.
type Shape struct{ Kind, Text string }

// Tick is a time on the axis.
type Tick struct {
	X, Text string
	Minor   bool // omitted if there is little space
}

// Limits on the elements drawn.
const (
	maxLanes = 12  // for servers
	maxBars  = 480 // in total, including those of failures
	maxMarks = 120

	leastApart = .1 // distance between quiet marks, in percent
)

// timeline returns the timeline of the trial.
func (r *course) timeline() Timeline {
	s := r.scale()
	t := Timeline{Ticks: s.ticks(), Label: r.label(), Cut: s.width < r.to.Sub(r.from)}
	agent := Lane{Name: "agent"}
	if !r.talk.Trial.AgentStart.IsZero() {
		agent.Bars = []Bar{s.bar(r.talk.Trial.AgentStart, r.talk.Trial.AgentEnd, "agent", "", ending(r.talk.Trial))}
	}
	t.Lanes = append(t.Lanes, agent)
	if turns := r.turnBars(s); len(turns) > 0 {
		t.Lanes = append(t.Lanes, Lane{Name: "model", Bars: turns})
	}
	t.Lanes = append(t.Lanes, r.serverLanes(s, &t)...)
	if marks := r.marks(s, &t); len(marks) > 0 {
		t.Lanes = append(t.Lanes, Lane{Name: "events", Marks: marks})
	}
	t.place()
	t.Legend = t.shapes()
	return t
}

// Kinds of marks.
const (
	shapeNotice = "notice"
	shapeEvent  = "event"
)

// shapes returns the legend of the shapes drawn.
func (t Timeline) shapes() (all []Shape) {
	drawn := map[string]bool{}
	for _, lane := range t.Lanes {
		for _, bar := range slices.Concat(lane.Bars, lane.Marks) {
			drawn[bar.Kind] = true
		}
	}
	for _, shape := range []Shape{
		{"turn", "model call"}, {"ok", "call"}, {"fail", "failed"}, {"none", "given up"}, {shapeNotice, "notice"}, {shapeEvent, "event"},
	} {
		if drawn[shape.Kind] {
			all = append(all, shape)
		}
	}
	return all
}

// Heights in pixels.
const (
	barHeight  = 14
	laneMargin = 7
	maxStacked = 4 // concurrent calls drawn below each other
)

// place assigns the vertical positions of lanes.
func (t *Timeline) place() {
	for i := range t.Lanes {
		lane := &t.Lanes[i]
		lane.Y = t.Height
		rows := 1
		for _, bar := range lane.Bars {
			rows = max(rows, bar.Y+1)
		}
		lane.Height = 2*laneMargin + rows*barHeight + (rows-1)*2
		lane.label()
		for j := range lane.Bars {
			bar := &lane.Bars[j]
			bar.Y = lane.Y + laneMargin + bar.Y*(barHeight+2)
			bar.Height = barHeight
			if bar.Kind == "fail" { // it extends beyond the lane, in addition to its color
				bar.Y, bar.Height = bar.Y-3, bar.Height+6
			}
		}
		t.Height += lane.Height
	}
}

// LabelAt returns the vertical position of the bar's label.
func (b Bar) LabelAt() int { return b.Y + b.Height/2 }

// Middle returns the vertical position of a lane's marks.
func (l Lane) Middle() int { return l.Y + l.Height/2 }

// label describes the timeline in words.
func (r *course) label() string {
	failed := 0
	for _, call := range r.calls {
		if call.Outcome.Failed() {
			failed++
		}
	}
	said := text.Count(len(r.calls), "call")
	if failed > 0 {
		said += fmt.Sprintf(", %s failed,", text.Number(failed))
	}
	return said + " in " + view.Clock(r.to.Sub(r.from))
}

// marks returns the marks of events during the agent's time.
func (r *course) marks(s scale, t *Timeline) (marks []Bar) {
	last := -1.0
	for _, group := range eventGroups(r.talk.Events) {
		first := group[0]
		if first.Time.Before(r.from) || first.Time.After(r.to) {
			t.Before += len(group)
			continue
		}
		at := s.at(first.Time)
		if len(marks) == maxMarks || quiet(first) && at-last < leastApart {
			continue
		}
		last = at
		title := fmt.Sprintf("%s %s: %s", first.Kind, brief(first.Where, 60), brief(first.Message, 120))
		mark := Bar{At: at - markWide/2, Wide: markWide, Kind: shapeEvent, Title: title}
		if !quiet(first) {
			mark.Kind, mark.Labels = shapeNotice, []string{brief(view.EventWord(first), nameSize)}
		}
		marks = append(marks, mark)
	}
	return marks
}

// Bottom returns the lower end of a lane, and AxisEnd that of the picture.
func (l Lane) Bottom() int      { return l.Y + l.Height }
func (t Timeline) AxisEnd() int { return t.Height + 24 }

// scale is the time range drawn, and the start of the agent.
type scale struct {
	start, from time.Time
	width       time.Duration
}

// Proportions of the scale: activity takes at least a quarter of the range drawn, and the
// range is at least a tenth of the whole time.
const (
	leastBusy  = 4
	leastDrawn = 10
)

// scale returns the scale for the agent's whole time, or for a part around the activity if
// most of the time is idle.
func (r *course) scale() scale {
	whole := max(r.to.Sub(r.from), time.Millisecond)
	first, last := r.busy()
	busy := last.Sub(first)
	width := max(leastBusy*busy, whole/leastDrawn)
	if busy <= 0 || width >= whole {
		return scale{r.from, r.from, whole}
	}
	from := first.Add(-(width - busy) / 2)
	if latest := r.from.Add(whole - width); from.After(latest) {
		from = latest
	}
	if from.Before(r.from) {
		from = r.from
	}
	return scale{r.from, from, width}
}

// busy returns the times of the first and last activity during the agent's time.
func (r *course) busy() (first, last time.Time) {
	first, last = r.to, r.from
	add := func(start, end time.Time) {
		if start.Before(first) {
			first = start
		}
		if end.After(last) {
			last = end
		}
	}
	for _, step := range r.talk.Steps {
		switch {
		case step.Call != nil:
			add(step.Call.Start, step.Call.End)
		case step.Turn != nil:
			add(step.Turn.Start, step.Turn.End)
		}
	}
	for _, e := range r.talk.Events {
		if !quiet(e) && e.Time.After(r.from) && e.Time.Before(r.to) {
			add(e.Time, e.Time)
		}
	}
	return first, last
}

func (s scale) at(t time.Time) float64 {
	return 100 * min(max(float64(t.Sub(s.from))/float64(s.width), 0), 1)
}

func inPercent(f float64) string {
	return strconv.FormatFloat(math.Round(f*1000)/1000, 'f', -1, 64) + "%"
}

func (s scale) bar(start, end time.Time, kind, anchor, title string) Bar {
	if end.Before(start) {
		end = start
	}
	x := s.at(start)
	return Bar{At: x, Wide: s.at(end) - x, Kind: kind, Anchor: anchor, Title: title}
}

// ticks returns about eight ticks at round times.
func (s scale) ticks() (ticks []Tick) {
	seconds := s.width.Seconds()
	step := math.Pow(10, math.Floor(math.Log10(seconds/5)))
	for _, times := range []float64{2, 5, 10} {
		if seconds/step > 8 {
			step = math.Pow(10, math.Floor(math.Log10(seconds/5))) * times
		}
	}
	digits := max(0, int(-math.Floor(math.Log10(step)+1e-9)))
	begin := s.from.Sub(s.start).Seconds()
	for n := max(0, math.Ceil(begin/step-1e-9)); n*step <= begin+seconds && len(ticks) < 20; n++ {
		at := inPercent(100 * (n*step - begin) / seconds)
		ticks = append(ticks, Tick{at, strconv.FormatFloat(n*step, 'f', digits, 64) + " s", len(ticks)%4 != 0})
	}
	return ticks
}

// turnBars returns the bars of model responses; if there are many, the first in each piece
// of time.
func (r *course) turnBars(s scale) (bars []Bar) {
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
		bar := s.bar(t.Start, t.End, kind, turnAnchor(t.Seq), fmt.Sprintf("model call %d, %s", t.Seq, took))
		bar.Labels = []string{fmt.Sprintf("model call %d, %s", t.Seq, took), took}
		bars = append(bars, bar)
	}
	return bars
}

// serverLanes returns a lane for each server in the order of declaration. Those beyond the
// limit share one.
func (r *course) serverLanes(s scale, t *Timeline) (all []Lane) {
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

// bars returns the bars of a lane's calls, either individually, or joined if they begin in
// the same of pieces equal intervals.
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

// together returns a bar for several calls, at most most percent wide, and on it one for
// the share that failed.
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
	title, labels := fmt.Sprintf("call %d, %s, %s", call.Seq, tool, view.Word(call.Outcome)), []string{tool}
	if took != "" {
		title, labels = title+", "+took, []string{tool + ", " + took, tool, took}
	}
	bar := s.bar(call.Start, call.End, kind, callAnchor(call.Seq), title)
	bar.Labels = labels
	return bar
}

// stacked returns bars of calls, with concurrent ones below each other.
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

// Label is a text at a bar, if there is space.
type Label struct {
	X     string
	Text  string
	Class string // in: on the bar; left: ends there; otherwise begins there
}

// Widths in percent of a picture a thousand pixels wide: the maximum width of a character
// of a label, and the space at its sides.
const (
	labelColumn = .8
	labelMargin = .7
	markWide    = 1.2
)

// label labels the bars and marks that have space: on them, after them, or before them.
func (l *Lane) label() {
	rows := map[int][]*Bar{}
	for i := range l.Bars {
		rows[l.Bars[i].Y] = append(rows[l.Bars[i].Y], &l.Bars[i])
	}
	for _, bars := range rows {
		slices.SortStableFunc(bars, func(a, b *Bar) int { return cmp.Compare(a.At, b.At) })
		labelRow(bars)
	}
	var marks []*Bar
	for i := range l.Marks {
		marks = append(marks, &l.Marks[i])
	}
	labelRow(marks)
}

// labelRow labels the bars of one row in order.
func labelRow(bars []*Bar) {
	from := 0.0 // where there is space before the next bar
	for i, bar := range bars {
		to := 100.0
		if i+1 < len(bars) {
			to = bars[i+1].At
		}
		from = bar.label(from, to)
	}
}

// label sets the first text that fits between from and to, and returns where the space
// after it begins.
func (b *Bar) label(from, to float64) float64 {
	end := b.At + b.Wide
	for _, s := range b.Labels {
		needs := labelColumn*float64(text.Columns(s)) + 2*labelMargin
		switch {
		case b.Wide >= needs:
			b.Label = Label{inPercent(b.At + labelMargin), s, "in " + b.Kind}
			return end
		case to-end >= needs:
			b.Label = Label{inPercent(end + labelMargin), s, ""}
			return end + needs
		case b.At-from >= needs:
			b.Label = Label{inPercent(b.At - labelMargin), s, "left"}
			return end
		}
	}
	return end
}
