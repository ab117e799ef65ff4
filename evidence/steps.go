package evidence

import (
	"encoding/json"
	"slices"

	"github.com/waza-isolate/waza/sandbox/observe"
)

// Kinds of steps.
const (
	StepProgram = "program" // a grader's program over the frozen workspace
	StepCall    = "call"    // a question put to a server
	StepFiles   = "files"   // files that a server's container has
	StepJudge   = "judge"   // a model's answer to a rubric

	StepResponder = "responder" // a model's answer to the agent, in its user's place; no grader's
)

// Step is one line of steps.jsonl: something the runner did for a grader after the agent had
// stopped, and the result, so that grading itself needs to do nothing of the kind. Answers of a
// responder, which come between turns of the conversation, are recorded as steps too.
type Step struct {
	Grader string          `json:"grader"` // its name; empty for StepResponder
	Kind   string          `json:"kind"`
	Ask    json.RawMessage `json:"ask"`              // all that was asked: graders find their answer by it
	Answer json.RawMessage `json:"answer,omitempty"` // depends on the kind, such as [ProgramAnswer]
	Error  string          `json:"error,omitempty"`  // why there is none
}

// ProgramAsk asks for a program of a grader's: a command, or assertions that a script
// of ours evaluates in a language.
type ProgramAsk struct {
	Image      string            `json:"image,omitempty"` // empty for the plan's default
	Command    string            `json:"command,omitempty"`
	Args       []string          `json:"args,omitempty"`
	Files      map[string]string `json:"files,omitempty"` // for the program's directory: path there to path beside the eval
	Language   string            `json:"language,omitempty"`
	Assertions []string          `json:"assertions,omitempty"`
	Seconds    int               `json:"timeout_seconds"`
}

// ProgramAnswer is what came of a program.
type ProgramAnswer struct {
	Image    string   `json:"image,omitempty"`       // that it ran in; empty where it ran in none
	Unfound  string   `json:"not_started,omitempty"` // why it could not be started
	ExitCode *int     `json:"exit_code,omitempty"`   // where it exited
	Signal   string   `json:"signal,omitempty"`      // that ended it, such as SIGKILL
	TimedOut bool     `json:"timed_out,omitempty"`
	Breaches []Breach `json:"breaches,omitempty"` // limits that its container ran into
	Broke    string   `json:"broke,omitempty"`    // how it ended its container, and itself with it
	Stdout   Output   `json:"stdout"`
	Stderr   Output   `json:"stderr"`
}

// Breach is a limit that a container ran into, as [observe.Breach] has it.
type Breach struct {
	Kind string `json:"kind"`
	What string `json:"what"` // as a sentence goes on that names the container
}

// OutOfMemory reports whether the kernel ended something of the program for want of
// memory.
func (a ProgramAnswer) OutOfMemory() bool {
	return slices.ContainsFunc(a.Breaches, func(b Breach) bool { return b.Kind == observe.OOM })
}

// Output is the beginning of what a program wrote.
type Output struct {
	Text string `json:"text"`
	Cut  int64  `json:"cut,omitempty"` // bytes behind it that are not kept
}

// CallAsk asks for a tool call that the runner makes.
type CallAsk struct {
	Number    int             `json:"number"` // among the grader's, from 1
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Seconds   int             `json:"timeout_seconds"`
}

// CallAnswer is what came of a [CallAsk].
type CallAnswer struct {
	Process string          `json:"process"` // that was asked: last, new or server
	Outcome Outcome         `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
	Message string          `json:"message,omitempty"` // why there is neither
}

// Processes that a [CallAsk] is put to.
const (
	ProcessLast   = "last"   // that of the last session that the agent opened
	ProcessNew    = "new"    // one of its own: the agent opened no session
	ProcessServer = "server" // the one that the server is, in a session of the runner's
)

// FileAsk asks for what stands at an absolute path of a server's container.
type FileAsk struct {
	Server  string `json:"server"`
	Path    string `json:"path"`
	Content bool   `json:"content,omitempty"` // what is in it too
}

// FileAnswer is what stands there.
type FileAnswer struct {
	Kind    string  `json:"kind"`         // as internal/tree has it, or empty for nothing
	At      string  `json:"at,omitempty"` // where it stands, which is on the way to the path where that leads through a link
	Size    int64   `json:"size,omitempty"`
	Content *string `json:"content,omitempty"` // nil where it was not asked for, or Unread
	Unread  string  `json:"unread,omitempty"`  // why the content is not there
}
