package report

import (
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
)

// isolation is what kept a run's trials in.
type isolation struct {
	Mark
	Said       string
	Guarantees *evidence.Guarantees
	Proof      *proof // nil without a certificate
}

// proof is a certificate in figures.
type proof struct {
	*evidence.Certificate
	Strip    strip
	GotOut   []evidence.Attack
	NotTried []evidence.Attack
}

func isolationOf(r view.Run) isolation {
	i := isolation{Guarantees: r.Guarantees, Proof: proofOf(r.Certificate)}
	switch {
	case !r.Isolated:
		i.Mark = Mark{"broke", "Not isolated", "warn"}
		i.Said = "Agents and servers ran as processes of this machine: they could read and change what its user can, and reach what it reaches."
	case i.Proof != nil && len(i.Proof.GotOut) > 0:
		i.Mark = Mark{"broke", "Weakly isolated", "warn"}
		i.Said = "Every trial ran in containers of its own; not every wall holds."
	case r.Guarantees != nil && len(r.Guarantees.Missing) > 0:
		i.Mark = Mark{"error", "Isolated, with gaps", "warn"}
		i.Said = "Every trial ran in containers of its own; something could not be enforced."
	default:
		i.Mark = Mark{"pass", "Isolated", "pass"}
		i.Said = "Every trial ran in containers of its own."
	}
	return i
}

func proofOf(c *evidence.Certificate) *proof {
	if c == nil {
		return nil
	}
	p := &proof{Certificate: c, GotOut: c.With(evidence.AttackGotOut), NotTried: c.With(evidence.AttackNotTried)}
	p.Strip.add(attackMark(evidence.AttackHeld), len(c.With(evidence.AttackHeld)))
	p.Strip.add(attackMark(evidence.AttackNotTried), len(p.NotTried))
	p.Strip.add(attackMark(evidence.AttackGotOut), len(p.GotOut))
	p.Strip = p.Strip.scaled()
	return p
}

func attackMark(r evidence.AttackResult) Mark {
	switch r {
	case evidence.AttackHeld:
		return Mark{"pass", "held", "pass"}
	case evidence.AttackGotOut:
		return Mark{"fail", "got out", "fail"}
	}
	return Mark{"none", "not tried", "soft"}
}
