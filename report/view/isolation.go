package view

import "github.com/waza-isolate/waza/evidence"

// Isolation describes how the trials of a run were isolated.
type Isolation struct {
	Word  string // such as "Not isolated"
	State State
	Text  string // a sentence
	Tried int    // number of attacks on the sandbox; 0 without a certificate
	Open  int    // number of attacks that got out
}

// Isolation returns how the run's trials were isolated.
func (r Run) Isolation() Isolation {
	if !r.Isolated {
		return Isolation{Word: "Not isolated", State: Doubtful, Text: "Agents and servers ran as processes of this machine, where they could read, change and reach what its user can."}
	}
	i := Isolation{Word: "Isolated", State: Good, Text: "Every trial ran in containers of its own."}
	if c := r.Certificate; c != nil {
		i.Open = len(c.With(evidence.AttackGotOut))
		i.Tried = i.Open + len(c.With(evidence.AttackHeld))
	}
	switch {
	case i.Open > 0:
		i.Word, i.State, i.Text = "Weakly isolated", Doubtful, "Every trial ran in containers of its own; not every wall holds."
	case r.Guarantees != nil && len(r.Guarantees.Missing) > 0:
		i.Word, i.State, i.Text = "Isolated, with gaps", Doubtful, "Every trial ran in containers of its own; something could not be enforced."
	}
	return i
}
