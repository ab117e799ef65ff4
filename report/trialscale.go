package report

import (
	"math"
	"strconv"
	"time"
)

// scale is the time that is drawn, and when the agent started.
type scale struct {
	start, from time.Time
	width       time.Duration
}

// Shares of the agent's time and of the picture: what happened takes a quarter of what is
// drawn, at least, or what is drawn is a tenth of all.
const (
	leastBusy  = 4
	leastDrawn = 10
)

// scale is all of the agent's time; or a part around that in which something happens, where
// nothing does in most of it.
func (r *reading) scale() scale {
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

// busy is when something first and last happened while the agent ran.
func (r *reading) busy() (first, last time.Time) {
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

// ticks are at round times, about eight of them.
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
