package match

// weight is what a pair is worth, or all pairs together. The fields count in their
// order: however much there is of a later one, it never outweighs an earlier one.
type weight struct {
	filled int64 // required slots
	share  int64 // of constraints that hold, in parts of whole
	spared int64 // calls that would else be too much, then optional slots; see worth
}

// whole is a share of 1: divisible by all numbers up to 22, so that sums of shares
// are exact where no slot has more constraints than that.
const whole = 232_792_560

// shareOf is the share of constraints that hold, rounded down: less than whole
// unless all do.
func shareOf(f Fit) int64 {
	if f.Full() {
		return whole
	}
	return int64(f.Satisfied) * whole / int64(f.Total)
}

func (w weight) plus(o weight) weight {
	return weight{w.filled + o.filled, w.share + o.share, w.spared + o.spared}
}

func (w weight) minus(o weight) weight {
	return weight{w.filled - o.filled, w.share - o.share, w.spared - o.spared}
}

func (w weight) less(o weight) bool {
	if w.filled != o.filled {
		return w.filled < o.filled
	}
	if w.share != o.share {
		return w.share < o.share
	}
	return w.spared < o.spared
}
