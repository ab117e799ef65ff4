package evidence

import (
	"cmp"
	"fmt"
)

// Class is a trial's outcome class.
type Class string

const (
	ClassPass       Class = "pass"
	ClassFail       Class = "fail"
	ClassTimeout    Class = "timeout"
	ClassAgentError Class = "agent_error"
	ClassError      Class = "error" // a grader lacked the evidence it needs
	ClassInfra      Class = "infra"
	// ClassServerError means that an MCP server exited by itself before its first answer, or during a call by
	// executor script.
	ClassServerError Class = "server_error"
	// ClassMiss means that the trial's cassette has no answer to a request.
	ClassMiss Class = "miss"
)

// Classes returns all classes, the best first.
func Classes() []Class {
	return []Class{ClassPass, ClassFail, ClassTimeout, ClassAgentError, ClassError, ClassServerError, ClassMiss, ClassInfra}
}

// OfAgent reports whether the outcome depends on the agent. Otherwise the trial is not
// graded and is excluded from the agent's rates. It is true for a trial that has not ended.
func (c Class) OfAgent() bool { return c != ClassInfra && c != ClassServerError && c != ClassMiss }

// Fails reports whether the outcome fails the run, although it does not depend on the agent.
func (c Class) Fails() bool { return c == ClassServerError || c == ClassMiss }

// With returns the class followed by its reason, which is omitted if the class implies it.
func (c Class) With(r Reason) string {
	if r == "" || c != ClassAgentError && c != ClassInfra {
		return string(c)
	}
	return fmt.Sprintf("%s (%s)", c, r)
}

// Reason is a one-word reason for a trial's class.
type Reason string

// Reasons of timeout and agent_error.
const (
	ReasonTimeLimit Reason = "time_limit"  // it exceeded its time limit
	ReasonNoEvent   Reason = "first_event" // it produced no event within the time for the first
	ReasonExitCode  Reason = "exit_code"   // it exited with a code other than 0
	ReasonSignal    Reason = "signal"      // it was killed by a signal
	ReasonOOM       Reason = "oom"         // its container ran out of memory
	ReasonPids      Reason = "pids"        // its container ran out of processes
	ReasonDisk      Reason = "disk"        // a writable directory of its container was full
	ReasonOutput    Reason = "output"      // it exceeded its output limit, left no final output, or spoilt evidence; with fail: it left no workspace, or closed it
	ReasonBudget    Reason = "budget"      // it exceeded a limit on calls, messages or evidence
	ReasonGuest     Reason = "guest"       // process 1 of its container exited or stopped responding
	ReasonMux       Reason = "mux"         // process 1 of its container violated the protocol
)

// Reasons of fail and error.
const (
	ReasonGraders  Reason = "graders"  // a grader failed
	ReasonEvidence Reason = "evidence" // a grader lacks evidence
	// ReasonFault means that a script did not expect the outcome of a fault that waza injected.
	ReasonFault Reason = "fault"
	// ReasonResponder means that no answer in place of the user could be obtained.
	ReasonResponder Reason = "responder"
)

// ReasonMiss is the reason of miss.
const ReasonMiss Reason = "miss"

// Reasons of infra.
const (
	ReasonSandbox Reason = "sandbox" // it did not start
	ReasonServer  Reason = "server"  // an MCP server did not start; with server_error: it exited by itself
	ReasonModel   Reason = "model"   // a model provider cannot be reached
	ReasonPin     Reason = "pin"     // an MCP server does not match its pin, as required
	ReasonEngine  Reason = "engine"  // the engine is gone or failed
	ReasonKilled  Reason = "killed"  // a container was killed, or a network removed, from outside
	ReasonRunner  Reason = "runner"  // evidence could not be written, or the sandbox not removed
)

// VerdictResult is the result of a grader.
type VerdictResult string

const (
	VerdictPass  VerdictResult = "pass"
	VerdictFail  VerdictResult = "fail"
	VerdictError VerdictResult = "error" // evidence is missing
)

// Verdict is one grader's result. It contains no times, so that grading the same evidence
// again yields the same bytes.
type Verdict struct {
	Name     string         `json:"name"`
	Type     string         `json:"type"`
	Result   VerdictResult  `json:"result"`
	Score    float64        `json:"score"` // 0 to 1
	Weight   float64        `json:"weight"`
	Feedback string         `json:"feedback"`
	Details  map[string]any `json:"details,omitempty"`
}

// DetailCalls is the key in a verdict's details for the numbers of the captured calls that
// its feedback concerns.
const DetailCalls = "about_calls"

// DetailChecks is the key in a verdict's details for what the grader checked, each a
// [Check].
const DetailChecks = "checks"

// Check is one of the things that a grader checked. Expected and Got are shown in table
// columns and within sentences.
type Check struct {
	Key      string `json:"key"`    // of the grader's config
	Result   string `json:"result"` // pass, warn or fail
	Expected string `json:"expected"`
	Got      string `json:"got,omitempty"`   // may be empty
	Calls    []int  `json:"calls,omitempty"` // numbers of the calls that Got refers to
}

// Verdicts is verdicts.json: a trial's class and the verdicts it is based on.
type Verdicts struct {
	Class    Class     `json:"class"`
	Reason   Reason    `json:"reason,omitempty"` // empty with pass
	Message  string    `json:"message,omitempty"`
	Score    float64   `json:"score"` // mean over graders, weighted by Weight; 1 without graders
	Verdicts []Verdict `json:"verdicts"`

	// Checkpoints holds the checkpoints that were reached. They do not affect Class, unless
	// one of them stopped the conversation.
	Checkpoints []CheckpointVerdicts `json:"checkpoints,omitempty"`
	// Attack is nil if the trial has no attack or it was withheld.
	Attack *AttackVerdict `json:"attack,omitempty"`
}

// CheckpointVerdicts is the result of a checkpoint.
type CheckpointVerdicts struct {
	Checkpoint
	Verdicts
}

// Outcome returns how a trial ended, as class, reason and message: from its verdicts v, or
// from the trial itself if it was not graded.
func (t Trial) Outcome(v Verdicts) (Class, Reason, string) {
	message := cmp.Or(v.Message, t.Message)
	if v.Class == "" {
		return t.Class, t.Reason, message
	}
	return v.Class, v.Reason, message
}

// Reaches reports whether a computed score is at least threshold. It tolerates rounding errors of sums and
// quotients: the mean of three times 0.7 is 0.7.
func Reaches(score, threshold float64) bool { return score >= threshold-1e-9 }
