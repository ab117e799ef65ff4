package results

import (
	"fmt"
	"math"
	"time"
)

// Figure is a figure of two runs, by its name.
type Figure struct {
	Name string
	Unit Unit
	*Contrast
}

// Unit is what a figure counts.
type Unit int

// Units of figures.
const (
	Share Unit = iota // from 0 to 1
	Milliseconds
	Number
	Money // US dollars
)

// Figures are those that both runs have.
func (p Pair) Figures() (all []Figure) {
	for _, f := range []Figure{
		{"pass rate", Share, p.PassRate}, {"median time", Milliseconds, p.Duration}, {"tokens a trial", Number, p.Tokens}, {"cost a trial", Money, p.Cost},
	} {
		if f.Contrast != nil {
			all = append(all, f)
		}
	}
	return all
}

// Text is a value of a figure, as terminals and comments show it.
func (u Unit) Text(v float64) string {
	switch u {
	case Share:
		return fmt.Sprintf("%.0f%%", 100*v)
	case Milliseconds:
		return Clock(time.Duration(v * float64(time.Millisecond)))
	case Money:
		return Dollars(v)
	}
	return fmt.Sprintf("%.0f", v)
}

// By is how much a figure differs; empty where no difference is shown.
func (c Contrast) By() string {
	switch {
	case !c.Finding.Shown():
		return ""
	case c.Ratio != nil:
		return fmt.Sprintf("×%.2f", c.Ratio.Mean)
	}
	return points(c.Difference.Mean)
}

// Range is the interval of a figure's difference, or why there is none.
func (c Contrast) Range() string {
	switch {
	case c.Few:
		return tooFew
	case c.Ratio != nil:
		return fmt.Sprintf("×%.2f to ×%.2f", c.Ratio.Lower, c.Ratio.Upper)
	case c.Difference != nil:
		return c.Difference.points()
	}
	return "none: 1 task"
}

// By is how much a task's pass rate differs; empty where no difference is shown.
func (d Difference) By() string {
	if d.PassRate == nil || !d.Finding.Shown() {
		return ""
	}
	return points(d.PassRate.Mean)
}

// Range is the interval of a task's difference, or why there is none; empty where one run
// has no trial that counts.
func (d Difference) Range() string {
	switch {
	case d.PassRate == nil:
		return ""
	case d.Few:
		return tooFew
	}
	return d.PassRate.points()
}

// With is a finding and by how much it is so.
func (f Finding) With(by string) string {
	if by == "" {
		return string(f)
	}
	return string(f) + ", " + by
}

// tooFew stands where an interval is not worth its name.
const tooFew = "none: too few trials"

// points is a difference of shares in points of a hundred.
func points(share float64) string { return fmt.Sprintf("%+.0f points", whole(share)) }

// points is an interval of such a difference.
func (i Interval) points() string { return fmt.Sprintf("%+.0f to %s", whole(i.Lower), points(i.Upper)) }

// whole is a share in whole hundredths, of which 0 has no minus.
func whole(share float64) float64 { return math.Round(100*share) + 0 }
