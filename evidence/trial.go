package evidence

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Trial is trial.json. Attempt counts the attempts at the trial from 1: it is run again after
// infra, and after a failure if the eval allows more attempts.
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
	Judge      *Judge          `json:"judge,omitempty"` // where a grader asks one
	Plan       json.RawMessage `json:"plan,omitempty"`  // the trial's plan, as --dry-run prints it
	Started    time.Time       `json:"started"`
	AgentStart time.Time       `json:"agent_started,omitzero"`
	AgentEnd   time.Time       `json:"agent_ended,omitzero"`
	// BetweenTurns is how long the agent waited for the runner between AgentStart and AgentEnd.
	BetweenTurns time.Duration `json:"between_turns_ns,omitempty"`
	Ended        time.Time     `json:"ended"`
	ExitCode     *int          `json:"exit_code,omitempty"`
	Signal       string        `json:"signal,omitempty"`
	Class        Class         `json:"class,omitempty"`   // set before grading only where the agent or we broke: timeout, agent_error, infra
	Reason       Reason        `json:"reason,omitempty"`  // with Class
	Message      string        `json:"message,omitempty"` // the reason for a person
	// FailedServer is the server that a server_error is of.
	FailedServer string      `json:"failed_server,omitempty"`
	FinalOutput  string      `json:"final_output"`
	Guarantees   *Guarantees `json:"guarantees,omitempty"`
	Gaps         []string    `json:"gaps,omitempty"` // evidence that is missing and why
	// Redacted is what was taken out of the trial's files, by their names.
	Redacted map[string]Redaction `json:"redacted,omitempty"`
	// Resources is what each container may use and what it used, by container: "agent", a
	// server's name, or SERVER/SERVICE.
	Resources map[string]Resource `json:"resources,omitempty"`

	// Baseline is the same trial without skills, where a grader compares the two.
	Baseline *BaselineTrial `json:"baseline,omitempty"`

	Attack   *TaskAttack `json:"attack,omitempty"`
	Canaries []Canary    `json:"canaries,omitempty"`
	Watched  []string    `json:"watched,omitempty"` // ways in which canaries were looked for

	Checkpoints []Checkpoint `json:"checkpoints,omitempty"` // that were reached, in order
	Responder   *Responder   `json:"responder,omitempty"`

	Commands  []CommandInvocation `json:"command_invocations,omitempty"` // of command_mocks, in order
	Miscalled string              `json:"miscalled,omitempty"`           // which of them were not called as often as expected; empty where all were
}

// Kinds of missing evidence. Each entry of [Trial.Gaps] begins with one of them and a colon.
const (
	GapFrames      = "frames"
	GapModels      = "models"
	GapTranscript  = "transcript"
	GapWorkspace   = "workspace"
	GapFinalOutput = "final output"
)

// GraderSpec is one grader as the eval asks for it, defaults filled in.
type GraderSpec struct {
	Name   string          `json:"name"`
	Type   string          `json:"type"`
	Weight float64         `json:"weight"` // > 0
	Config json.RawMessage `json:"config,omitempty"`
	// Files holds what is in the files that Config names, by the names it has for them.
	Files map[string][]byte `json:"files,omitempty"`
}

// ServerRecord is what grading and reports need to know of a declared server.
type ServerRecord struct {
	Name      string `json:"name"`
	Transport string `json:"transport"` // stdio, http or sse
	Image     string `json:"image,omitempty"`
	Mocked    bool   `json:"mocked,omitempty"` // the runner answered in its place, from the eval's mcp_mocks
}

// SharedServer is a server that outlives trials, as one of them found it.
type SharedServer struct {
	Name     string `json:"name"`
	Instance int    `json:"instance"`       // lives of it in the run so far, from 1
	Died     string `json:"died,omitempty"` // why it ended while the trial ran
}

// BaselineTrial is what the same trial of a run without skills came to.
type BaselineTrial struct {
	FinalOutput string `json:"final_output"`
	Missing     string `json:"missing,omitempty"` // why there is none
}

// CommandInvocation records that the agent started a program of command_mocks.
type CommandInvocation struct {
	Command       string   `json:"command"`
	Args          []string `json:"args,omitempty"`
	ExitCode      int      `json:"exit_code"`
	ResponseIndex int      `json:"response_index"` // -1 where none matched
}

// Checkpoint records that a trial was graded between two turns of its conversation.
type Checkpoint struct {
	AfterTurn int  `json:"after_turn"`        // from 1, the prompt's own
	Stopped   bool `json:"stopped,omitempty"` // it did not pass, and the conversation ended there
}

// Responder is what came of a conversation in which a model was the agent's user.
type Responder struct {
	FollowupsSent int    `json:"followups_sent"`
	Outcome       string `json:"outcome"`
	Reason        string `json:"reason,omitempty"` // of abstained and error
}

// Outcomes of a [Responder], in waza's words.
const (
	ResponderStopped   = "stopped"       // the agent was done, or a checkpoint stopped it
	ResponderAbstained = "abstained"     // it did not know what the agent asked
	ResponderExhausted = "cap_exhausted" // it had given all its replies
	ResponderError     = "error"         // there was no answer that can be read
)

// AgentTime returns how long the agent was at work; ok is false where that is not known.
func (t Trial) AgentTime() (took time.Duration, ok bool) {
	if t.AgentStart.IsZero() || t.AgentEnd.IsZero() {
		return 0, false
	}
	return t.AgentEnd.Sub(t.AgentStart) - t.BetweenTurns, true
}

// AllGraders returns the trial's graders and those of its attack's success.
func (t Trial) AllGraders() []GraderSpec {
	if t.Attack == nil || t.Attack.Withheld {
		return t.Graders
	}
	return slices.Concat(t.Graders, t.Attack.Success)
}

// Lost reports whether evidence of a kind is missing, and returns the gap that says why.
func (t Trial) Lost(kind string) (why string, lost bool) {
	i := slices.IndexFunc(t.Gaps, func(gap string) bool { return strings.HasPrefix(gap, kind+":") })
	if i < 0 {
		return "", false
	}
	return t.Gaps[i], true
}
