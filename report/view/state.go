package view

import (
	"strings"

	"github.com/waza-isolate/waza/evidence"
)

// agentWords maps reasons of agent_error to words for how the agent ended the trial.
var agentWords = map[evidence.Reason]string{
	evidence.ReasonExitCode: "agent crashed", evidence.ReasonSignal: "agent crashed", evidence.ReasonOOM: "agent out of memory",
	evidence.ReasonPids: "agent out of processes", evidence.ReasonDisk: "agent out of disk space", evidence.ReasonBudget: "agent over its limits",
	evidence.ReasonGuest: "agent lost its sandbox", evidence.ReasonMux: "agent lost its sandbox",
}

// EndedAs describes, for people, how a trial ended. Machine-readable formats use the class and the reason
// instead.
func EndedAs(class evidence.Class, reason evidence.Reason) string {
	word, known := agentWords[reason]
	switch {
	case class == evidence.ClassAgentError && known:
		return word
	case class == evidence.ClassAgentError && reason != "" || class == evidence.ClassInfra && reason != "":
		return Word(class) + " (" + strings.ReplaceAll(string(reason), "_", " ") + ")"
	}
	return Word(class)
}

// Word describes, for people, the outcome of a trial or a call, the result of a grader, or the verdict on a
// run.
func Word[T ~string](outcome T) string {
	switch evidence.Class(outcome) {
	case evidence.ClassError:
		return "not judged"
	case evidence.ClassServerError:
		return "server crashed"
	case evidence.ClassInfra:
		return Incomplete
	case evidence.ClassMiss:
		return "cassette miss"
	}
	return strings.ReplaceAll(string(outcome), "_", " ")
}

// State rates something from good to bad. Outputs show it by a color or a level.
type State int

// States.
const (
	Plain    State = iota // neither good nor bad
	Good                  // as intended
	Void                  // says nothing about the agent's work
	Doubtful              // a timeout, a mistake, or missing evidence
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

// StateOfAttack returns the state of a trial given the result of its attack. An attack that succeeded is Bad.
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
