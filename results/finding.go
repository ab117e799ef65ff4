package results

// Finding is what a difference shows, in the words for a person.
type Finding string

// Findings. That no difference is shown does not say that there is none.
const (
	Better       Finding = "better"
	Worse        Finding = "worse"
	NoDifference Finding = "no difference shown"
)

// Shown says whether there is a difference beyond chance.
func (f Finding) Shown() bool { return f == Better || f == Worse }

// findingOf is what an interval of a figure that better runs have more of shows. It shows
// nothing where there is none, or where it holds the value of no difference.
func findingOf(i *Interval, none float64) Finding {
	switch {
	case i == nil:
		return NoDifference
	case i.Lower > none:
		return Better
	case i.Upper < none:
		return Worse
	}
	return NoDifference
}

// reversed is the finding of a figure that better runs have less of.
func (f Finding) reversed() Finding {
	switch f {
	case Better:
		return Worse
	case Worse:
		return Better
	}
	return f
}
