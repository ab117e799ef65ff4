package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// strip is a bar of adjacent parts.
type strip struct {
	Parts []stripPart
	Of    int
}

type stripPart struct {
	Mark
	Count    int
	At, Wide float64 // from 0 to 100
}

// add appends a part unless its count is 0.
func (s *strip) add(m Mark, count int) {
	if count > 0 {
		s.Parts = append(s.Parts, stripPart{Mark: m, Count: count})
		s.Of += count
	}
}

// scaled returns s with the positions of its parts set.
func (s strip) scaled() strip {
	at := 0.0
	for i := range s.Parts {
		p := &s.Parts[i]
		p.At, p.Wide = at, 100*float64(p.Count)/float64(s.Of)
		at += p.Wide
	}
	return s
}

// missingMark returns the mark of a trial without an outcome.
func missingMark() Mark { return Mark{"none", view.NoOutcome, "soft"} }

// trialMark returns the mark of a trial in a task's row. A successful attack takes precedence over
// a pass.
func trialMark(trial view.Trial) Mark {
	if trial.Passed() && trial.Attacked() {
		return labeledInjectionMark(evidence.AttackSucceeded)
	}
	return outcomeOf(trial.Outcome)
}

// trialStrip shows how a run's trials ended.
func trialStrip(r view.Run) strip {
	counts := map[Mark]int{}
	for _, task := range r.Results.Tasks {
		for _, run := range task.Runs {
			counts[outcomeOf(run.Outcome)]++
		}
	}
	var s strip
	for _, class := range evidence.Classes() {
		s.add(outcomeOf(class), counts[outcomeOf(class)])
	}
	s.add(missingMark(), r.Missing())
	return s.scaled()
}

// Dimensions of a histogram.
const (
	columnWide   = 46
	columnHigh   = 84.0
	aboveColumns = 16
	belowColumns = 20
	boundsSeen   = 12 // maximum, if there is enough space
	boundsNarrow = 7  // if there is little space
)

// histogram shows the durations of calls, with a column per bucket. Horizontal values are
// in percent, to fit any width.
type histogram struct {
	Columns []histogramColumn
	Wide    int // pixels, if there is enough space
	High    float64
	Floor   float64 // baseline of the columns
	ToAt    float64 // position of the bounds
	Said    string  // the same in words
}

type histogramColumn struct {
	Count             int
	To                string // upper bound of the bucket; empty if it is not shown
	Minor             bool   // To is shown only if there is enough space
	At, Wide, Middle  float64
	Top, Tall, Number float64 // Number is the position of the count
}

func histogramOf(buckets []results.LatencyBucket) histogram {
	h := histogram{Wide: columnWide * len(buckets), Floor: aboveColumns + columnHigh}
	h.ToAt, h.High = h.Floor+15, h.Floor+belowColumns
	most := 1
	for _, b := range buckets {
		most = max(most, b.Calls)
	}
	var said []string
	for i, b := range buckets {
		to := "more"
		if b.UpToMS > 0 {
			to = bound(b.UpToMS)
		}
		if b.Calls > 0 {
			said = append(said, fmt.Sprintf("%d took up to %s", b.Calls, to))
		}
		c := histogramColumn{Count: b.Calls, Minor: !boundSaid(i, len(buckets), boundsNarrow)}
		if boundSaid(i, len(buckets), boundsSeen) {
			c.To = to
		}
		share := 100 / float64(len(buckets))
		c.At, c.Wide, c.Middle = share*(float64(i)+.1), share*.8, share*(float64(i)+.5)
		c.Tall = columnHigh * float64(b.Calls) / float64(most)
		c.Top = h.Floor - c.Tall
		c.Number = c.Top - 4
		h.Columns = append(h.Columns, c)
	}
	h.Said = strings.Join(said, ", ")
	return h
}

// boundSaid reports whether a column's bound is shown if there is only space for room of
// them: the last one, and others at equal distances before it.
func boundSaid(i, all, room int) bool { return (all-1-i)%((all+room-1)/room) == 0 }

// bound formats a bucket's bound.
func bound(ms float64) string {
	if d := time.Duration(ms * float64(time.Millisecond)); d >= time.Second {
		return fmt.Sprintf("%gs", d.Seconds())
	}
	return fmt.Sprintf("%gms", ms)
}

// extent is an interval on a scale of 0 to 100.
type extent struct{ Lower, Width, Mean float64 }

func extentOf(i results.Interval, scale func(float64) float64) extent {
	at := func(v float64) float64 { return 100 * min(max(scale(v), 0), 1) }
	return extent{at(i.Lower), at(i.Upper) - at(i.Lower), at(i.Mean)}
}

// share returns the extent of a share from 0 to 1.
func share(i results.Interval) extent { return extentOf(i, func(v float64) float64 { return v }) }

// shareDifference returns the extent of a difference of shares, from -1 to 1 with 0 in the
// middle.
func shareDifference(i results.Interval) extent {
	return extentOf(i, func(v float64) float64 { return (v + 1) / 2 })
}

// ratio returns the extent of a ratio, from 0.1 to 10 with 1 in the middle.
func ratio(i results.Interval) extent {
	return extentOf(i, func(v float64) float64 { return (math.Log10(v) + 1) / 2 })
}

// between formats the interval of a share.
func between(i results.Interval) string {
	return fmt.Sprintf("%.0f\u2013%.0f%%", 100*i.Lower, 100*i.Upper)
}

// within formats the interval of a score.
func within(i results.Interval) string { return fmt.Sprintf("%.2f\u2013%.2f", i.Lower, i.Upper) }
