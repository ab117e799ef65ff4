package match

// result tells in full what was found.
func (m *matching) result() Result {
	var r Result
	filled := make([]int, len(m.expected))
	for i, call := range m.all {
		stands, ok := m.paired[i]
		switch {
		case !call.OK && !call.GivenUp:
		case ok:
			if !stands.optional {
				filled[stands.expected]++
			}
			target, fit := m.fit(stands.expected, i)
			r.Pairs = append(r.Pairs, Pair{stands.expected, target, i, stands.optional, fit})
		case m.mode.beside(call) == tooMuch:
			r.TooMuch = append(r.TooMuch, m.beside(i))
		}
	}
	for e, q := range m.slots {
		if short := q.required - filled[e]; short > 0 {
			r.Missing = append(r.Missing, Missing{e, short, m.nearest(e)})
		}
	}
	return r
}

// fit is the target of expectation e that call i satisfies best, and how far; -1
// where none means its tool.
func (m *matching) fit(e, i int) (int, Fit) {
	for t, target := range m.expected[e].Targets {
		if target.Names(m.all[i].Server, m.all[i].Tool) {
			if fit := target.Args.fit(m.given[i], true); shareOf(fit) == m.shares[e][i] {
				return t, fit
			}
		}
	}
	return -1, Fit{}
}

// beside finds the expectation that a call comes nearest to.
func (m *matching) beside(i int) Beside {
	found, share := Beside{Call: i, Expected: -1}, int64(none)
	for e := range m.expected {
		if m.shares[e][i] > share {
			found.Expected, share = e, m.shares[e][i]
		}
	}
	if found.Expected >= 0 {
		_, found.Fit = m.fit(found.Expected, i)
	}
	return found
}
