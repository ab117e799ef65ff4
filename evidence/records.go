// Package evidence defines the directory of a run: its files, the records in them, and how
// they are written and read.
//
// It holds what happened and judges nothing. Writers append a record when the
// thing happens; readers need no engine, no network and no process of the run.
package evidence

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// Direction says which way a frame crossed the proxy.
type Direction string

const (
	ToServer Direction = "to_server"
	ToClient Direction = "to_client"
)

// Synthetic names the reason for a frame that the proxy wrote itself, because
// the peer that should have did not. An empty Synthetic is a peer's own frame.
type Synthetic string

const (
	SyntheticTimeout   Synthetic = "timeout"         // the server did not answer within its limit
	SyntheticTransport Synthetic = "transport_error" // the server ended, or never took the message
	SyntheticCancelled Synthetic = "cancelled"       // the client gave the request up by leaving
	SyntheticAbandoned Synthetic = "abandoned"       // the client left, which up to 2025-11-25 cancels nothing
	SyntheticHidden    Synthetic = "hidden_tool"     // the server was not asked: the client may not see the tool
	SyntheticBudget    Synthetic = "budget"          // the server was not asked: the client has sent all that it may
)

// Side is one of the two ends of a conversation.
type Side string

const (
	SideAgent  Side = "agent"
	SideServer Side = "server"
)

// Frame is one JSON-RPC message (or batch) as it crossed, or what stood in its
// place. Raw holds the exact bytes; see [Frame.MarshalJSON] for how they are kept.
type Frame struct {
	Seq       int64     // from 1, without gaps within a trial
	Time      time.Time // when the proxy had all of it, UTC
	Server    string    // server name as the eval declares it
	Conn      string    // one client's conversation with one server, unique in the trial
	Dir       Direction
	Raw       []byte // without the transport's framing (no newline, no "data: ")
	Truncated int64  // bytes of the message that were not kept
	Redacted  int    // number of secret spans replaced in Raw
	// Secrets counts them by secret, as SERVER/NAME, where the eval names it.
	Secrets map[string]int
	// RedactedEnvelope says that one of them was in the message's id, method or
	// tool name, so that it is no longer known what was called.
	RedactedEnvelope bool
	Synthetic        Synthetic
	// Side is who alone saw the message, where the other end saw another in its
	// place or none: tools that are kept from the agent. Empty is both.
	Side Side
	Peer *Peer // on frames from a client over HTTP

	// Injected are the attack's injections that are in Raw, by their numbers from 1.
	Injected []int

	line *line // where it was read; nil unless it is large
}

// Peer is what is known from HTTP about the client of a frame.
type Peer struct {
	Addr      string `json:"addr,omitempty"`
	UserAgent string `json:"user_agent,omitempty"`
	Session   string `json:"session,omitempty"`
}

// Outcome is how a call ended.
type Outcome string

const (
	OutcomeOK             Outcome = "ok"
	OutcomeToolError      Outcome = "tool_error"      // result with isError
	OutcomeProtocolError  Outcome = "protocol_error"  // a JSON-RPC error, or what MCP has no such result for
	OutcomeTransportError Outcome = "transport_error" // no reply
	OutcomeTimeout        Outcome = "timeout"
	OutcomeCancelled      Outcome = "cancelled" // even when a late reply came
	OutcomeAbandoned      Outcome = "abandoned" // the client had gone when the reply came, or none did
)

// GivenUp reports whether the client gave the call up before it was answered. Such a call
// neither failed nor succeeded, and the server may have carried it out.
func (o Outcome) GivenUp() bool { return o == OutcomeCancelled || o == OutcomeAbandoned }

// Failed reports whether a call that ended so went wrong.
func (o Outcome) Failed() bool {
	switch o {
	case OutcomeToolError, OutcomeProtocolError, OutcomeTransportError, OutcomeTimeout:
		return true
	}
	return false
}

// Call is one logical tool call, derived from frames.
type Call struct {
	Seq           int             `json:"seq"` // from 1, in order of the request frames
	Server        string          `json:"server"`
	Conn          string          `json:"conn"`
	ID            json.RawMessage `json:"id"`
	Tool          string          `json:"tool"`
	Arguments     json.RawMessage `json:"arguments,omitempty"`
	Result        Result          `json:"result,omitzero"`
	Error         json.RawMessage `json:"error,omitempty"`
	Outcome       Outcome         `json:"outcome"`
	Start         time.Time       `json:"start"`
	End           time.Time       `json:"end,omitzero"`
	RequestFrame  int64           `json:"request_frame"`
	ResponseFrame int64           `json:"response_frame,omitempty"`
	Rounds        int             `json:"rounds,omitempty"` // input_required rounds, 2026-07-28
	Notes         []string        `json:"notes,omitempty"`  // oddities: duplicate keys, late answers

	// What the catalog said when the request came: what its own conversation had been told
	// on record by then, and else what any other conversation with the server had. Tools
	// kept from the agent are not known to it.
	Known    *bool    `json:"known_tool,omitempty"`      // it was listed; false where a whole list lacks it, absent where that is not sure
	ReadOnly *bool    `json:"read_only,omitempty"`       // its readOnlyHint; absent where it gave none
	Valid    *bool    `json:"valid_arguments,omitempty"` // they fit its input schema; absent where that is not known, which a note explains
	Invalid  []string `json:"invalid,omitempty"`         // where they do not, at most a few places
	// SameAs is the first call with the same server, tool and arguments (as [capture.Equal]
	// has it); 0 where this is the first.
	SameAs int `json:"same_as,omitempty"`
	// Incident counts the trial's incidents from 1: a failed call, those of the same server
	// and tool that fail beside it, and those made when a failure was known, up to the first
	// that succeeds. 0 is none. A call that was given up is no failure.
	Incident int `json:"incident,omitempty"`

	// Origin says whether a model asked for the call. Turn and ToolUse are then the number
	// of the model call whose answer did, and the use's id there, which Google's models
	// give none.
	Origin  Origin `json:"origin,omitempty"`
	Turn    int    `json:"turn,omitempty"`
	ToolUse string `json:"tool_use,omitempty"`
}

// Event is something that happened and is no frame.
type Event struct {
	Time    time.Time      `json:"t"`
	Kind    string         `json:"kind"`            // dns, health, limit, oom, pids, disk, mcp_config, stdout_noise, server_exit, service_exit, container_exit, gap, cancelled, undelivered, …
	Where   string         `json:"where,omitempty"` // "agent", a server's name, or SERVER/SERVICE
	Message string         `json:"message,omitempty"`
	Data    map[string]any `json:"data,omitempty"`
}

// Kinds of steps.
const (
	StepProgram = "program" // a grader's program over the frozen workspace
	StepCall    = "call"    // a question put to a server
	StepFiles   = "files"   // files that a server's container has
	StepJudge   = "judge"   // a model's answer to a rubric

	StepResponder = "responder" // a model's answer to the agent, in its user's place; no grader's
)

// Step is one line of steps.jsonl: something done for a grader after the agent had
// stopped, and what came of it. Grading reads it and does nothing of the kind itself.
type Step struct {
	Grader string          `json:"grader"` // its name
	Kind   string          `json:"kind"`
	Ask    json.RawMessage `json:"ask"`              // what was asked, complete: the same question has the same answer
	Answer json.RawMessage `json:"answer,omitempty"` // of a shape that is the kind's
	Error  string          `json:"error,omitempty"`  // why there is none
}

// Types of events of a transcript that have a name here.
const (
	AssistantMessage = "assistant.message" // what the agent says
	AssistantUsage   = "assistant.usage"   // what models took
	UserMessage      = "user.message"      // what the agent was asked
)

// TranscriptEvent is one line of transcript.jsonl in waza's event format: what
// the agent says it did.
type TranscriptEvent struct {
	Type       string          `json:"type"` // user.message, assistant.message, assistant.usage, tool.execution_start, tool.execution_complete
	Content    string          `json:"content,omitempty"`
	Message    string          `json:"message,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	ToolName   string          `json:"tool_name,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Success    *bool           `json:"success,omitempty"`
	ToolResult json.RawMessage `json:"tool_result,omitempty"`
	Usage      *dialect.Usage  `json:"usage,omitempty"`
}

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

// Classes are all of them, the best first.
func Classes() []Class {
	return []Class{ClassPass, ClassFail, ClassTimeout, ClassAgentError, ClassError, ClassServerError, ClassInfra}
}

// OfAgent reports whether a trial that ended so, or has not ended, says something about the
// agent. One that does not is not graded and counts in no rate of the agent's.
func (c Class) OfAgent() bool { return c != ClassInfra && c != ClassServerError }

// Reason says in one word what put a trial into its class.
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
	ReasonBudget    Reason = "budget"      // it made more calls, or sent more messages, than it may
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

// With is a class and its reason, which is left out where the class says it.
func (c Class) With(r Reason) string {
	if r == "" || c != ClassAgentError && c != ClassInfra {
		return string(c)
	}
	return fmt.Sprintf("%s (%s)", c, r)
}

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

// What a trial's gaps are of: each entry of [Trial.Gaps] begins with one of these
// and a colon.
const (
	GapFrames      = "frames"
	GapModels      = "models"
	GapTranscript  = "transcript"
	GapWorkspace   = "workspace"
	GapFinalOutput = "final output"
)

// Trial is trial.json. Attempt counts reruns after infra, from 1.
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
	// BetweenTurns is how much of that the agent waited for the runner.
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

// BaselineTrial is what the same trial of a run without skills came to.
type BaselineTrial struct {
	FinalOutput string `json:"final_output"`
	Missing     string `json:"missing,omitempty"` // why there is none
}

// CommandInvocation is that the agent started a program of command_mocks.
type CommandInvocation struct {
	Command       string   `json:"command"`
	Args          []string `json:"args,omitempty"`
	ExitCode      int      `json:"exit_code"`
	ResponseIndex int      `json:"response_index"` // -1 where none matched
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

// AgentTime is how long the agent was at work; ok is false where that is not known.
func (t Trial) AgentTime() (took time.Duration, ok bool) {
	if t.AgentStart.IsZero() || t.AgentEnd.IsZero() {
		return 0, false
	}
	return t.AgentEnd.Sub(t.AgentStart) - t.BetweenTurns, true
}

// AllGraders are the trial's graders and those of its attack's success.
func (t Trial) AllGraders() []GraderSpec {
	if t.Attack == nil || t.Attack.Withheld {
		return t.Graders
	}
	return slices.Concat(t.Graders, t.Attack.Success)
}

// Lost returns the trial's own word that evidence of a kind is missing.
func (t Trial) Lost(kind string) (why string, lost bool) {
	i := slices.IndexFunc(t.Gaps, func(gap string) bool { return strings.HasPrefix(gap, kind+":") })
	if i < 0 {
		return "", false
	}
	return t.Gaps[i], true
}

// Usage is what a container used.
type Usage = observe.Usage

// Resource is what a container may use, and what it used.
type Resource struct {
	Limits Limits `json:"limits"`
	Used   *Usage `json:"used,omitempty"`
	Unseen string `json:"unseen,omitempty"` // why Used is not there
}

// Limits of a container, and of the agent or the server that lives there. What is 0 is not
// limited.
type Limits struct {
	CPUs       float64 `json:"cpus,omitempty"`
	Memory     int64   `json:"memory,omitempty"` // bytes
	Pids       int64   `json:"pids,omitempty"`
	OpenFiles  int64   `json:"open_files,omitempty"`  // of each process
	Disk       int64   `json:"disk,omitempty"`        // bytes, of the workspace or of each writable directory
	Scratch    int64   `json:"scratch,omitempty"`     // bytes, each of /tmp and home
	Seconds    float64 `json:"seconds,omitempty"`     // the agent may take
	MaxOutput  int64   `json:"max_output,omitempty"`  // bytes, each of the agent's stdout and stderr
	MaxCalls   int64   `json:"max_calls,omitempty"`   // of tools, by the agent
	MaxMessage int64   `json:"max_message,omitempty"` // bytes, either way
	MaxFrames  int64   `json:"max_frames,omitempty"`  // messages, each way
	MaxTraffic int64   `json:"max_traffic,omitempty"` // bytes of messages, each way
	Evidence   int64   `json:"evidence,omitempty"`    // bytes that may be recorded of what it causes
}

// Guarantees is what was really enforced for a trial, never what was asked for.
type Guarantees struct {
	Backend  string   `json:"backend"` // docker, process
	Network  string   `json:"network"` // bridge, airtight, none
	Enforced []string `json:"enforced"`
	Missing  []string `json:"missing,omitempty"`
}

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

// Verdicts is verdicts.json: a trial's class and the verdicts it rests on.
type Verdicts struct {
	Class    Class     `json:"class"`
	Reason   Reason    `json:"reason,omitempty"` // none with pass
	Message  string    `json:"message,omitempty"`
	Score    float64   `json:"score"` // mean over graders weighted by Weight; 1 without graders
	Verdicts []Verdict `json:"verdicts"`

	// Checkpoints are those that were reached. They decide nothing but where one stopped the
	// conversation.
	Checkpoints []CheckpointVerdicts `json:"checkpoints,omitempty"`
	// Attack is nil where the trial has none, or it was withheld.
	Attack *AttackVerdict `json:"attack,omitempty"`
}

// Outcome is how a trial ended, in a class, a word and a sentence: as its verdicts have
// it, or as it was before there were any.
func (t Trial) Outcome(v Verdicts) (Class, Reason, string) {
	message := cmp.Or(v.Message, t.Message)
	if v.Class == "" {
		return t.Class, t.Reason, message
	}
	return v.Class, v.Reason, message
}

// Origin says who asked for a call, by the record of what models were asked and
// answered.
type Origin string

const (
	// OriginModel is a call that a model asked for.
	OriginModel Origin = "model"
	// OriginOutOfBand is one that no model asked for: the record of their answers is
	// whole, and has no such use of a tool left.
	OriginOutOfBand Origin = "out_of_band"
	// OriginUnknown is one of which that is not known: no gateway was in the way of the
	// agent's models, the record is not whole, or more calls than one may be what was
	// asked for.
	OriginUnknown Origin = "unknown"
)

// ImageRecords is the images of a run, by reference.
type ImageRecords map[string]ImageRecord

// ImageRecord is what an image of a run was.
type ImageRecord struct {
	ID string `json:"id"` // on the engine: the digest of its configuration
	// Digests are the image's in the repositories it was pulled from, as
	// name@sha256:…; none for one that was built here.
	Digests []string `json:"digests,omitempty"`
}
