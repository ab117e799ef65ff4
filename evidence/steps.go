package evidence

import (
	"encoding/json"
	"slices"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox/observe"
)

// Kinds of steps.
const (
	StepProgram = "program" // a grader's program over the frozen workspace
	StepCall    = "call"    // a tool call to a server
	StepFiles   = "files"   // files in a server's container
	StepJudge   = "judge"   // a model's answer to a rubric

	StepResponder = "responder" // a model's answer to the agent in place of the user; not for a grader
)

// Step is one line of steps.jsonl: something the runner did for a grader after the agent
// had stopped, and the result, so that grading itself only reads evidence. Answers of a
// responder between turns of the conversation are recorded as steps too.
type Step struct {
	Grader string          `json:"grader"` // grader name; empty for StepResponder
	Kind   string          `json:"kind"`
	Ask    json.RawMessage `json:"ask"`              // the whole request, by which graders find their answer
	Answer json.RawMessage `json:"answer,omitempty"` // depends on Kind, such as [ProgramAnswer]
	Error  string          `json:"error,omitempty"`  // why there is no answer
	Spans  []secret.Span   `json:"spans,omitempty"`  // where secrets stood in Answer
}

// Cleaned returns s without secrets in its answer and its error, and what was replaced. The Ask is kept
// unchanged: it comes from a grader's config, which trial.json also contains, and graders find their answer
// by it.
func (s Step) Cleaned(secrets *secret.Set) (Step, secret.Found) {
	answer, found := secrets.JSON(s.Answer)
	failure, inError := secrets.Bytes([]byte(s.Error))
	s.Answer, s.Error, s.Spans = answer, string(failure), append(slices.Clip(s.Spans), found.Where...)
	slices.SortFunc(s.Spans, func(a, b secret.Span) int { return a.At - b.At })
	found.Add(inError)
	return s, found
}

// ProgramAsk asks to run a grader's program: a command, or assertions evaluated by a
// built-in script.
type ProgramAsk struct {
	Image      string            `json:"image,omitempty"` // empty for the plan's default
	Build      *mcpconfig.Build  `json:"build,omitempty"` // source of its image
	Command    string            `json:"command,omitempty"`
	Args       []string          `json:"args,omitempty"`
	Files      map[string]string `json:"files,omitempty"` // for the program's directory: path there to path relative to the eval
	Language   string            `json:"language,omitempty"`
	Assertions []string          `json:"assertions,omitempty"`
	Seconds    int               `json:"timeout_seconds"`
}

// ProgramAnswer is the result of a program.
type ProgramAnswer struct {
	Image      string           `json:"image,omitempty"`       // image that it ran in; empty without a container
	NotStarted string           `json:"not_started,omitempty"` // why it could not be started
	ExitCode   *int             `json:"exit_code,omitempty"`   // if it exited
	Signal     string           `json:"signal,omitempty"`      // signal that killed it, such as SIGKILL
	TimedOut   bool             `json:"timed_out,omitempty"`
	Breaches   []observe.Breach `json:"breaches,omitempty"` // limits that its container exceeded
	Broke      string           `json:"broke,omitempty"`    // how it damaged its container, which ended the program
	Stdout     Output           `json:"stdout"`
	Stderr     Output           `json:"stderr"`

	Replaced []secret.Span `json:"-"` // places of secrets that were replaced in one of the outputs before the output was cut
}

// OutOfMemory reports whether the kernel killed a process of the program because memory ran
// out.
func (a ProgramAnswer) OutOfMemory() bool {
	return slices.ContainsFunc(a.Breaches, func(b observe.Breach) bool { return b.Kind == observe.OOM })
}

// Output is the beginning of a program's output.
type Output struct {
	Text string `json:"text"`
	Cut  int64  `json:"cut,omitempty"` // number of bytes after it that were dropped
}

// CallAsk asks for a tool call by the runner.
type CallAsk struct {
	Number    int             `json:"number"` // among the grader's calls, from 1
	Server    string          `json:"server"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Seconds   int             `json:"timeout_seconds"`
}

// CallAnswer is the result of a [CallAsk].
type CallAnswer struct {
	Process string          `json:"process"` // that was called: last, new or server
	Outcome Outcome         `json:"outcome"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
	Message string          `json:"message,omitempty"` // why there is neither a result nor an error, or what is wrong with the result
}

// Processes that a [CallAsk] can be sent to.
const (
	ProcessLast   = "last"   // that of the last session opened by the agent
	ProcessNew    = "new"    // a new one, because the agent opened no session
	ProcessServer = "server" // the running server, in a session of the runner
)

// FileAsk asks about a file at an absolute path in a server's container.
type FileAsk struct {
	Server  string `json:"server"`
	Path    string `json:"path"`
	Content bool   `json:"content,omitempty"` // whether to read the content
}

// FileAnswer is the answer to a [FileAsk].
type FileAnswer struct {
	Kind    string  `json:"kind"`         // as in internal/tree; empty if nothing exists
	At      string  `json:"at,omitempty"` // actual path, which differs from the requested one if that leads through a link
	Size    int64   `json:"size,omitempty"`
	Content *string `json:"content,omitempty"` // nil if not requested, or Unread
	Unread  string  `json:"unread,omitempty"`  // why the content could not be read
}
