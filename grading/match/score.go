package match

// Scores rate a result. With E the slots that are expected (the required ones, and
// the optional ones that are filled), M those that are filled, and X the calls that
// are too much:
type Scores struct {
	Recall    float64  // |M| / |E|; 1 where E is empty
	Precision float64  // |M| / (|M| + |X|); where both are empty 1
	Selection float64  // F1 of both; where E is empty 1 if X is too, else 0
	Params    *float64 // sum over M of the share of satisfied constraints, / |E|; nil where E is empty
}

// Scores rates r.
func (r Result) Scores() Scores {
	slots, filled, share := 0, len(r.Pairs), int64(0)
	for _, missing := range r.Missing {
		slots += missing.Count
	}
	slots += filled
	for _, pair := range r.Pairs {
		share += shareOf(pair.Fit)
	}
	s := Scores{Recall: 1, Precision: 1}
	if filled+len(r.TooMuch) > 0 {
		s.Precision = float64(filled) / float64(filled+len(r.TooMuch))
	}
	if slots == 0 {
		s.Selection = s.Precision
		return s
	}
	s.Recall = float64(filled) / float64(slots)
	if filled > 0 {
		s.Selection = 2 * s.Precision * s.Recall / (s.Precision + s.Recall)
	}
	params := float64(share) / float64(whole) / float64(slots)
	s.Params = &params
	return s
}
