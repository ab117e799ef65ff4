package match

import "strings"

// Nearest is the call that comes nearest to an expectation which none fills.
type Nearest struct {
	Call int
	Why  Reason
	Fit  // to the expectation, but for the reason
}

// Reason is why a call that comes near does not fill a slot. The first is the
// nearest.
type Reason int

// The reasons.
const (
	OutOfOrder  Reason = iota // it is one of those expected, and not in its place
	Failed                    // it is one of those expected, and did not succeed
	OtherServer               // a tool of that name on another server
	OtherName                 // a tool whose name differs in case and separators alone
)

// nearest finds the call that comes nearest to expectation e, out of those that stand
// for nothing. It is nil where none does.
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
	return OtherName, fold(target.Tool.String()) == fold(call.Tool)
}

// fold is what names share that are easily taken for one another.
func fold(name string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
}
