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
	// ClassServerError is that an MCP server exited by itself before it first answered.
	ClassServerError Class = "server_error"
)

// Classes returns all of them, the best first.
func Classes() []Class {
	return []Class{ClassPass, ClassFail, ClassTimeout, ClassAgentError, ClassError, ClassServerError, ClassInfra}
}

// OfAgent reports whether a trial that ended so, or has not ended, says something about the
// agent. One that does not is not graded and counts in no rate of the agent's.
func (c Class) OfAgent() bool { return c != ClassInfra && c != ClassServerError }

// With returns the class with its reason, which is left out if the class implies it.
func (c Class) With(r Reason) string {
	if r == "" || c != ClassAgentError && c != ClassInfra {
		return string(c)
	}
	return fmt.Sprintf("%s (%s)", c, r)
}

// Reason says in one word why a trial has its class.
type Reason string

// Reasons of timeout and agent_error: what the agent did, or what became of its
// container.
const (
	ReasonTimeLimit Reason = "time_limit"  // it ran longer than it may
	ReasonNoEvent   Reason = "first_event" // it did nothing in the time in which it must begin
	ReasonExitCode  Reason = "exit_code"   // it exited with another code than 0
	ReasonSignal    Reason = "signal"      // a signal ended it
	ReasonOOM       Reason = "oom"         // its container ran out of memory
	ReasonPids      Reason = "pids"        // its container ran out of processes
	ReasonDisk      Reason = "disk"        // a writable directory of its container was full
	ReasonOutput    Reason = "output"      // it wrote more than it may, or left no final output
	ReasonBudget    Reason = "budget"      // it made more calls, sent more messages, or caused more evidence, than it may
	ReasonGuest     Reason = "guest"       // process 1 of its container ended or froze
	ReasonMux       Reason = "mux"         // what came from process 1 broke the rules
)

// Reasons of fail and error.
const (
	ReasonGraders  Reason = "graders"  // a grader says so
	ReasonEvidence Reason = "evidence" // what a grader needs is missing
	// ReasonResponder is that nobody answered the agent in its user's place.
	ReasonResponder Reason = "responder"
)

// Reasons of infra.
const (
	ReasonSandbox Reason = "sandbox" // it did not come up
	ReasonServer  Reason = "server"  // an MCP server did not come up; with server_error it exited by itself
	ReasonModel   Reason = "model"   // a model provider cannot be asked
	ReasonPin     Reason = "pin"     // an MCP server is not as it is pinned, and has to be
	ReasonEngine  Reason = "engine"  // it went away, or did not do what it was asked to
	ReasonKilled  Reason = "killed"  // somebody outside ended a container, or took a network away
	ReasonRunner  Reason = "runner"  // evidence could not be kept, or the sandbox not taken down
)

// VerdictResult is what a grader says.
type VerdictResult string

const (
	VerdictPass  VerdictResult = "pass"
	VerdictFail  VerdictResult = "fail"
	VerdictError VerdictResult = "error" // the evidence it needs is missing
)

// Verdict is one grader's result. It holds no time: grading the same evidence
// again gives the same bytes.
type Verdict struct {
	Name     string         `json:"name"`
	Type     string         `json:"type"`
	Result   VerdictResult  `json:"result"`
	Score    float64        `json:"score"` // 0 to 1
	Weight   float64        `json:"weight"`
	Feedback string         `json:"feedback"`
	Details  map[string]any `json:"details,omitempty"`
}

// DetailCalls is the key in a verdict's details of the numbers of the captured calls that its feedback
// is about.
const DetailCalls = "about_calls"

// DetailChecks is the key in a verdict's details of what the grader checked, each a [Check].
const DetailChecks = "checks"

// Check is a part of what a grader checked. Expected and Got are what two columns of a table show, and
// parts of a sentence.
type Check struct {
	Key      string `json:"key"`    // of the grader's config
	Result   string `json:"result"` // pass, warn or fail
	Expected string `json:"expected"`
	Got      string `json:"got,omitempty"`   // left out where there is nothing to say
	Calls    []int  `json:"calls,omitempty"` // that Got names
}

// Verdicts is verdicts.json: a trial's class and the verdicts it rests on.
type Verdicts struct {
	Class    Class     `json:"class"`
	Reason   Reason    `json:"reason,omitempty"` // none with pass
	Message  string    `json:"message,omitempty"`
	Score    float64   `json:"score"` // mean over graders weighted by Weight; 1 without graders
	Verdicts []Verdict `json:"verdicts"`

	// Checkpoints are those that were reached. They do not change Class, unless one of them
	// stopped the conversation.
	Checkpoints []CheckpointVerdicts `json:"checkpoints,omitempty"`
	// Attack is nil where the trial has none, or it was withheld.
	Attack *AttackVerdict `json:"attack,omitempty"`
}

// CheckpointVerdicts is what a checkpoint came to.
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
