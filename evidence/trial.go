package evidence

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TrialID identifies a trial of a run.
type TrialID struct {
	Task   string
	Number int // from 1
}

func (id TrialID) String() string { return id.Task + "/" + strconv.Itoa(id.Number) }

// Trial is trial.json. Attempt counts the attempts from 1: a trial is repeated after infra,
// and after a failure if the eval allows more attempts.
type Trial struct {
	Run        string          `json:"run"`
	Task       string          `json:"task"`
	TaskName   string          `json:"task_name"`
	Number     int             `json:"number"` // from 1
	Attempt    int             `json:"attempt"`
	Prompt     string          `json:"prompt"`
	Executor   string          `json:"executor"`
	Servers    []ServerRecord  `json:"servers"`
	Shared     []SharedServer  `json:"shared_servers,omitempty"`
	Graders    []GraderSpec    `json:"graders"`
	Judge      *Judge          `json:"judge,omitempty"` // nil if no grader asks a model
	Plan       json.RawMessage `json:"plan,omitempty"`  // as printed by --dry-run
	Started    time.Time       `json:"started"`
	AgentStart time.Time       `json:"agent_started,omitzero"`
	AgentEnd   time.Time       `json:"agent_ended,omitzero"`
	// BetweenTurns is the time between AgentStart and AgentEnd that the agent waited for
	// the runner.
	BetweenTurns time.Duration `json:"between_turns_ns,omitempty"`
	Ended        time.Time     `json:"ended"`
	ExitCode     *int          `json:"exit_code,omitempty"`
	Signal       string        `json:"signal,omitempty"`
	Class        Class         `json:"class,omitempty"`   // set before grading only if the trial ended badly; never pass
	Reason       Reason        `json:"reason,omitempty"`  // with Class
	Message      string        `json:"message,omitempty"` // explanation for the user
	// FailedServer is the server that caused a server_error.
	FailedServer string `json:"failed_server,omitempty"`
	// EarlierOutput is the output of the turns before the last. FinalOutput continues it.
	EarlierOutput string      `json:"earlier_output,omitempty"`
	FinalOutput   string      `json:"final_output"` // of the last turn
	Guarantees    *Guarantees `json:"guarantees,omitempty"`
	Gaps          []string    `json:"gaps,omitempty"` // missing evidence and why it is missing
	// Redacted describes the secrets that were replaced in the trial's files, by file name.
	Redacted map[string]Redaction `json:"redacted,omitempty"`
	// Resources has the limits and usage of each container: "agent", a server's name, or
	// SERVER/SERVICE.
	Resources map[string]Resource `json:"resources,omitempty"`

	// Baseline is the same trial without skills, if a grader compares the two.
	Baseline *BaselineTrial `json:"baseline,omitempty"`

	Attack   *TaskAttack `json:"attack,omitempty"`
	Canaries []Canary    `json:"canaries,omitempty"`
	Watched  []string    `json:"watched,omitempty"` // ways in which canaries were watched for

	Checkpoints []Checkpoint `json:"checkpoints,omitempty"` // reached, in order
	Responder   *Responder   `json:"responder,omitempty"`

	Commands  []CommandInvocation `json:"command_invocations,omitempty"` // of command_mocks, in order
	Miscalled string              `json:"miscalled,omitempty"`           // which command_mocks were not called as often as expected; empty if there are none
}

// ID returns the trial's id in its run.
func (t Trial) ID() TrialID { return TrialID{t.Task, t.Number} }

// Kinds of missing evidence. Each entry of [Trial.Gaps] begins with one of them and a
// colon.
const (
	GapFrames      = "frames"
	GapModels      = "models"
	GapTranscript  = "transcript"
	GapLines       = "transcript lines" // lines that the eval's own mapping cannot read
	GapWorkspace   = "workspace"
	GapFinalOutput = "final output"
)

// GraderSpec is a grader as configured in the eval, with defaults filled in.
type GraderSpec struct {
	Name   string          `json:"name"`
	Type   string          `json:"type"`
	Weight float64         `json:"weight"` // > 0
	Config json.RawMessage `json:"config,omitempty"`
	// Files holds the contents of the files named in Config, by those names.
	Files map[string][]byte `json:"files,omitempty"`
	// From is the file of the eval that contains the grader. It is not recorded.
	From string `json:"-"`
}

// ServerRecord is what grading and reports need to know about a declared server.
type ServerRecord struct {
	Name      string `json:"name"`
	Transport string `json:"transport"` // stdio, http or sse
	Image     string `json:"image,omitempty"`
	Mocked    bool   `json:"mocked,omitempty"` // answered by the runner from the eval's mcp_mocks
	Played    bool   `json:"played,omitempty"` // answered by the runner from a cassette
}

// SharedServer is a server shared by trials, as seen by one of them.
type SharedServer struct {
	Name     string `json:"name"`
	Instance int    `json:"instance"`       // number of its starts in the run so far, from 1
	Died     string `json:"died,omitempty"` // why it ended during the trial
}

// BaselineTrial is the result of the same trial without skills.
type BaselineTrial struct {
	FinalOutput string `json:"final_output"`
	Missing     string `json:"missing,omitempty"` // why there is none
}

// CommandInvocation records that the agent ran a program of command_mocks.
type CommandInvocation struct {
	Command       string   `json:"command"`
	Args          []string `json:"args,omitempty"`
	ExitCode      int      `json:"exit_code"`
	ResponseIndex int      `json:"response_index"` // -1 if none matched
}

// Checkpoint records that a trial was graded between two turns of its conversation.
type Checkpoint struct {
	AfterTurn int  `json:"after_turn"`        // from 1, which is the prompt
	Stopped   bool `json:"stopped,omitempty"` // it did not pass, which ended the conversation
}

// Responder records the conversation with a model that played the user.
type Responder struct {
	FollowupsSent int    `json:"followups_sent"`
	Outcome       string `json:"outcome"`
	Reason        string `json:"reason,omitempty"` // with abstained and error
}

// Outcomes of a [Responder], in waza's terms.
const (
	ResponderStopped   = "stopped"       // the agent was done, or a checkpoint ended the conversation
	ResponderAbstained = "abstained"     // the responder did not know the answer
	ResponderExhausted = "cap_exhausted" // the responder reached its maximum number of replies
	ResponderError     = "error"         // no usable answer
)

// Names of the texts of trial.json that contain marks.
const (
	TextEarlierOutput = "earlier_output"
	TextFinalOutput   = "final_output"
)

// Executors of an eval that are not names of adapters.
const (
	ExecutorMock    = "mock"
	ExecutorScript  = "script"
	ExecutorLLM     = "llm"
	ExecutorCommand = "command" // a program that the eval names
)

// AsksNoModel reports whether the agent of an executor never asks a model.
func AsksNoModel(executor string) bool { return executor == ExecutorMock || executor == ExecutorScript }

// AgentTime returns how long the agent worked; ok is false if that is unknown.
func (t Trial) AgentTime() (took time.Duration, ok bool) {
	if t.AgentStart.IsZero() || t.AgentEnd.IsZero() {
		return 0, false
	}
	return t.AgentEnd.Sub(t.AgentStart) - t.BetweenTurns, true
}

// AllGraders returns the trial's graders and those of its attack, unless that was withheld.
func (t Trial) AllGraders() []GraderSpec {
	if t.Attack == nil || t.Attack.Withheld {
		return t.Graders
	}
	return slices.Concat(t.Graders, t.Attack.Success)
}

// Lost reports whether evidence of a kind is missing, and returns the gap that explains it.
func (t Trial) Lost(kind string) (why string, lost bool) {
	i := slices.IndexFunc(t.Gaps, func(gap string) bool { return strings.HasPrefix(gap, kind+":") })
	if i < 0 {
		return "", false
	}
	return t.Gaps[i], true
}
