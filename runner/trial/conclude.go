package trial

import (
	"fmt"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// note is something about a trial that bears on its outcome: a blame if it has a class, a gap if it
// has one, else a remark.
type note struct {
	class   evidence.Class
	reason  evidence.Reason
	message string
	gap     string // what is missing, and why
	server  string // the one that failed, of a server_error

	unsure bool // a blame that holds only as long as no failure of ours is known
	ours   bool // a failure that the agent did not cause
	weak   bool // a blame that is dropped if somebody is blamed already
}

// conclusion is the outcome of a trial before it is graded. The class is empty if nobody is blamed.
type conclusion struct {
	class   evidence.Class
	reason  evidence.Reason
	message string
	gaps    []string
	server  string // the one that failed, of a server_error
}

// conclude decides the outcome of a trial by its notes, in the order in which they became known. The
// first blame decides the class and the reason, unless it is unsure and a failure of ours follows. Later
// blames and remarks add their message.
func conclude(notes []note) (c conclusion) {
	unsure := false
	for _, n := range notes {
		switch {
		case n.gap != "":
			c.gaps = append(c.gaps, n.gap)
			continue
		case n.weak && c.class != "":
			continue
		case n.class != "" && (c.class == "" || unsure && n.ours):
			c.class, c.reason, c.message, c.server, unsure = n.class, n.reason, "", n.server, n.unsure
		}
		if c.message != "" {
			c.message += "; "
		}
		c.message += n.message
	}
	return c
}

// ending is how an agent ended.
type ending struct {
	stopped   stopCause
	ended     bool            // it has exited
	exit      process.Exit    // if it has
	lost      error           // why its exit is not known
	failed    error           // describes an exit with a code other than 0
	container sandbox.Exit    // of its container
	used      *evidence.Usage // of its container; nil if not known
	floods    []string        // outputs that are over their limit, and the limit
	overspent string          // limits of calls, messages and models that it exceeded
}

// isUnexpected reports whether the agent is a script to which a server did not answer as expected.
func (e ending) isUnexpected(t *plan.Trial) bool {
	return e.ended && e.lost == nil && e.container.Cause == "" && e.exit == process.Exit{Code: agents.ExitUnexpected} &&
		t.Agent.Executor == evidence.ExecutorScript
}

// notes returns whom to blame for how the agent ended: always the agent, even for a broken container,
// since it could break that to avoid being graded. A limit that was reached takes precedence over the
// exit status.
func (e ending) notes(t *plan.Trial) (all []note) {
	blame := func(class evidence.Class, reason evidence.Reason, message string) {
		all = append(all, note{class: class, reason: reason, message: message})
	}
	if !e.ended {
		all = append(all, gapNote(evidence.GapFinalOutput, "the agent did not end"))
		const left = "and did not end when it was killed"
		switch e.stopped {
		case timeLimit, noFirstEvent:
			reason, message := e.stopped.time(t)
			blame(evidence.ClassTimeout, reason, message+" "+left)
		case outputLimit:
			blame(evidence.ClassAgentError, evidence.ReasonOutput, "the agent wrote more than it may "+left)
		case budgetLimit:
			blame(evidence.ClassAgentError, evidence.ReasonBudget, e.overspent+", and the agent did not end when it was killed")
		default:
			blame(evidence.ClassAgentError, evidence.ReasonGuest, "the agent did not end when it was killed")
		}
		return all
	}
	if e.stopped == timeLimit || e.stopped == noFirstEvent {
		reason, message := e.stopped.time(t)
		blame(evidence.ClassTimeout, reason, message)
	}
	// An agent that was killed for its output or memory would else be one that was killed by a signal.
	for _, flood := range e.floods {
		blame(evidence.ClassAgentError, evidence.ReasonOutput, "the agent wrote more than "+flood)
	}
	if e.used != nil {
		for _, b := range e.used.Breaches() {
			blame(evidence.ClassAgentError, evidence.Reason(b.Kind), "the agent's container "+b.What)
		}
	}
	if e.overspent != "" {
		blame(evidence.ClassAgentError, evidence.ReasonBudget, e.overspent)
	}
	if own := e.ofExit(t); own.class != "" {
		all = append(all, own)
	}
	return all
}

// ofExit returns the blame for an exit, which counts only if there is no other.
func (e ending) ofExit(t *plan.Trial) note {
	n := note{class: evidence.ClassAgentError, weak: true}
	switch {
	case e.lost != nil || e.container.Cause != "":
		why := e.container.Message
		if e.container.Cause == "" {
			why = e.lost.Error()
		}
		n.reason, n.message = evidence.ReasonGuest, "the agent broke its container's guest: "+why
		if e.container.Cause == sandbox.ByBreach {
			n.reason = evidence.ReasonMux
		}
	case e.exit.Signal != "":
		n.reason, n.message = evidence.ReasonSignal, "the agent was ended by "+e.exit.Signal
	case e.exit.Code != 0 && !e.isUnexpected(t):
		n.reason, n.message = evidence.ReasonExitCode, e.failed.Error()
	default:
		return note{}
	}
	return n
}

// time describes which time limit of an agent was reached.
func (c stopCause) time(t *plan.Trial) (evidence.Reason, string) {
	if c == noFirstEvent {
		return evidence.ReasonNoEvent, fmt.Sprintf("the agent said nothing, asked no model and called no tool within %s", t.FirstEvent)
	}
	return evidence.ReasonTimeLimit, fmt.Sprintf("the agent ran longer than %s", t.Timeout)
}

func gapNote(what, why string) note { return note{gap: what + ": " + why} }

// tooLarge returns the notes of a final output that is too large. Graders do not judge a truncated one,
// and the agent is to blame for it, unless it has turns left.
func tooLarge(midway bool) []note {
	notes := []note{gapNote(evidence.GapFinalOutput, fmt.Sprintf("only the first %d bytes are kept", maxFinal))}
	if !midway {
		notes = append(notes, note{
			class: evidence.ClassAgentError, reason: evidence.ReasonOutput, message: fmt.Sprintf("the agent's final output is larger than %d bytes", maxFinal),
		})
	}
	return notes
}
