package report

import (
	"fmt"

	"github.com/waza-isolate/waza/report/view"
)

// Timeline is a trial as lanes of bars over time. Places and widths are in percent of
// its width, heights in pixels.
type Timeline struct {
	Lanes  []Lane
	Ticks  []Tick
	Height int
	Joined int  // calls that are drawn together with others
	Before int  // events before the agent's start or after its end, which are not drawn
	Cut    bool // time in which nothing happened is not drawn
	Label  string
	Legend []Shape
}

// Lane is the agent, its models, a server, or what happened beside.
type Lane struct {
	Name   string
	Lane   string // a server's colour
	Y      int
	Height int
	Bars   []Bar
	Marks  []TimeMark
}

// Bar is a call, a turn, or several calls drawn together.
type Bar struct {
	At, Wide  float64
	Y, Height int
	Kind      string // ok, fail, none, turn, agent
	Anchor    string // where it leads; empty for nowhere
	Title     string
	Says      []string // what it may be labelled with, the longest first
	Label     Label
}

// X and Width are where a bar begins, and how wide it is.
func (b Bar) X() string     { return inPercent(b.At) }
func (b Bar) Width() string { return inPercent(b.Wide) }

// TimeMark is an event.
type TimeMark struct {
	At    float64
	Title string
	Grave bool
	Says  string // what it may be labelled with
	Label Label
}

// X is where it stands.
func (m TimeMark) X() string { return inPercent(m.At) }

// Shape is what a kind of bars or marks means.
type Shape struct{ Kind, Text string }

// Tick is a time on the axis.
type Tick struct {
	X, Text string
	Minor   bool // left out where there is little room
}

// Bounds of what is drawn: elements, not calls.
const (
	maxLanes = 12  // of servers
	maxBars  = 480 // in all, with those of what failed
	maxMarks = 120

	leastApart = .1 // of quiet marks, in percent
)

// timeline draws the trial.
func (r *reading) timeline() Timeline {
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

// Kinds of marks in the legend, beside those of bars.
const (
	shapeNotice = "notice"
	shapeEvent  = "event"
)

// shapes are those that are drawn.
func (t Timeline) shapes() (all []Shape) {
	drawn := map[string]bool{}
	for _, lane := range t.Lanes {
		for _, bar := range lane.Bars {
			drawn[bar.Kind] = true
		}
		for _, mark := range lane.Marks {
			drawn[shapeNotice] = drawn[shapeNotice] || mark.Grave
			drawn[shapeEvent] = drawn[shapeEvent] || !mark.Grave
		}
	}
	for _, shape := range []Shape{
		{"turn", "model turn"}, {"ok", "call"}, {"fail", "failed"}, {"none", "given up"}, {shapeNotice, "notice"}, {shapeEvent, "event"},
	} {
		if drawn[shape.Kind] {
			all = append(all, shape)
		}
	}
	return all
}

// Heights of what is drawn, in pixels.
const (
	barHeight  = 14
	laneMargin = 7
	maxStacked = 4 // calls at once, one below the other
)

// place puts lanes below each other.
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
			if bar.Kind == "fail" { // it stands out of the lane, beside its colour
				bar.Y, bar.Height = bar.Y-3, bar.Height+6
			}
		}
		t.Height += lane.Height
	}
}

// LabelAt is where the label of one of its bars stands.
func (b Bar) LabelAt() int { return b.Y + b.Height/2 }

// Middle is where a lane's marks and its line stand.
func (l Lane) Middle() int { return l.Y + l.Height/2 }

// label says the picture in words.
func (r *reading) label() string {
	failed := 0
	for _, call := range r.calls {
		if call.Outcome.Failed() {
			failed++
		}
	}
	text := view.Several(len(r.calls), "call")
	if failed > 0 {
		text += fmt.Sprintf(", %s failed,", view.Number(failed))
	}
	return text + " in " + view.Took(r.to.Sub(r.from))
}

// marks are events while the agent ran.
func (r *reading) marks(s scale, t *Timeline) (marks []TimeMark) {
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
		mark := TimeMark{At: at, Title: title, Grave: !quiet(first)}
		if mark.Grave {
			mark.Says = kindInWords(first)
		}
		marks = append(marks, mark)
	}
	return marks
}

// Bottom is where a lane ends, and AxisEnd where the picture does.
func (l Lane) Bottom() int      { return l.Y + l.Height }
func (t Timeline) AxisEnd() int { return t.Height + 24 }
