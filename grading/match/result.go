package match

import "strings"

// result returns the outcome of the matching.
func (m *matching) result() Result {
	var r Result
	filled := make([]int, len(m.expected))
	for i, call := range m.all {
		stands, ok := m.paired[i]
		switch {
		case ok && !call.OK:
			r.Unsure = append(r.Unsure, Pair{stands.expected, i, stands.optional, m.fit(stands.expected, i)})
			delete(m.paired, i) // an unfilled slot may name it as the nearest call
		case !call.OK && !call.Unanswered:
		case ok:
			if !stands.optional {
				filled[stands.expected]++
			}
			r.Pairs = append(r.Pairs, Pair{stands.expected, i, stands.optional, m.fit(stands.expected, i)})
		case m.mode.unmatchedWeight(call) == tooMuch:
			r.TooMuch = append(r.TooMuch, m.unmatched(i))
		}
	}
	for e, q := range m.slots {
		if short := q.required - filled[e]; short > 0 {
			r.Missing = append(r.Missing, Missing{e, short, m.nearest(e)})
		}
	}
	return r
}

// fit returns how well call i matches the best target of expectation e that names its tool.
func (m *matching) fit(e, i int) Fit {
	for _, target := range m.expected[e].Targets {
		if target.Names(m.all[i].Server, m.all[i].Tool) {
			if fit := target.Args.fit(m.given[i], true); shareOf(fit) == m.shares[e][i] {
				return fit
			}
		}
	}
	return Fit{}
}

// unmatched finds the expectation that is closest to a call.
func (m *matching) unmatched(i int) Unmatched {
	found, share := Unmatched{Call: i, Expected: -1}, int64(none)
	for e := range m.expected {
		if m.shares[e][i] > share {
			found.Expected, share = e, m.shares[e][i]
		}
	}
	if found.Expected >= 0 {
		found.Fit = m.fit(found.Expected, i)
	}
	return found
}

// Nearest is the call that is closest to an expectation without a match.
type Nearest struct {
	Call int
	Why  Reason
	Fit  // how well it fits the expectation, apart from the reason
}

// Reason says why the nearest call does not match. Smaller values mean closer calls.
type Reason int

// The reasons.
const (
	OutOfOrder  Reason = iota // it would match elsewhere in the order
	Failed                    // it would match if it had succeeded
	OtherServer               // a tool with the same name on another server
	OtherName                 // a tool whose name differs only in case and separators
)

// nearest finds the unmatched call that is closest to expectation e. It returns nil if there is none.
func (m *matching) nearest(e int) *Nearest {
	var best *Nearest
	var meant Target
	share := int64(none)
	for i, call := range m.all {
		if _, taken := m.paired[i]; taken {
			continue
		}
		for _, target := range m.expected[e].Targets {
			why, ok := near(target, call)
			if !ok || best != nil && why > best.Why {
				continue
			}
			now := shareOf(target.Args.fit(m.given[i], false))
			if best == nil || why < best.Why || now > share {
				best, meant, share = &Nearest{Call: i, Why: why}, target, now
			}
		}
	}
	if best != nil {
		best.Fit = meant.Args.fit(m.given[best.Call], true)
	}
	return best
}

func near(target Target, call Call) (Reason, bool) {
	switch {
	case target.Names(call.Server, call.Tool) && call.OK:
		return OutOfOrder, true
	case target.Names(call.Server, call.Tool):
		return Failed, true
	case target.Tool.Matches(call.Tool):
		return OtherServer, true
	}
	return OtherName, fold(target.Tool.text) == fold(call.Tool)
}

// fold returns the same text for names that are easily confused.
func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
}

// Scores rates a result. Let E be the expected slots (the required ones and the filled optional ones), M the
// filled slots, and X the excess calls:
type Scores struct {
	Recall    float64  // |M| / |E|; 1 where E is empty
	Precision float64  // |M| / (|M| + |X|); where both are empty 1
	Selection float64  // F1 of both; if E is empty, 1 if X is empty too, else 0
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
