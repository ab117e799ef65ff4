package view

import "github.com/waza-isolate/waza/evidence"

// State is how good something is. Outputs show it by a color or a level.
type State int

// States.
const (
	Plain    State = iota // neither good nor bad
	Good                  // as it should be
	Void                  // it says nothing about the agent's work
	Doubtful              // out of time, a mistake, or evidence that is missing
	Bad                   // wrong
)

// StateOf returns the state of the outcome of a trial or a call, of a grader's result, or of the
// verdict on a run.
func StateOf[T ~string](ended T) State {
	switch string(ended) {
	case string(evidence.ClassPass), string(evidence.OutcomeOK), Passed:
		return Good
	case string(evidence.ClassInfra), string(evidence.OutcomeCancelled), string(evidence.OutcomeAbandoned), Incomplete, AtWork:
		return Void
	case string(evidence.ClassFail), string(evidence.ClassAgentError), string(evidence.ClassServerError), string(evidence.ClassMiss),
		string(evidence.OutcomeToolError), string(evidence.OutcomeProtocolError), string(evidence.OutcomeTransportError), Failed:
		return Bad
	}
	return Doubtful // such as timeout and error
}

// StateOfAttack returns the state of a trial with the result of an attack. Success of the attack is bad.
func StateOfAttack(ended evidence.AttackOutcome) State {
	switch ended {
	case evidence.AttackSucceeded:
		return Bad
	case evidence.AttackResisted:
		return Good
	case evidence.AttackNotDelivered:
		return Void
	}
	return Doubtful
}
