package evidence

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/sandbox/usage"
)

// ProgramAsk asks for a program of a grader's: a command, or assertions that a script
// of ours evaluates in a language.
type ProgramAsk struct {
	Image      string            `json:"image,omitempty"` // empty for the plan's default
	Command    string            `json:"command,omitempty"`
	Args       []string          `json:"args,omitempty"`
	Files      map[string]string `json:"files,omitempty"` // beside the program: path there to path beside the eval
	Language   string            `json:"language,omitempty"`
	Assertions []string          `json:"assertions,omitempty"`
	Seconds    int               `json:"timeout_seconds"`
}

// ProgramAnswer is what came of a program.
type ProgramAnswer struct {
	Image    string   `json:"image,omitempty"`       // that it ran in; empty where that is none
	Unfound  string   `json:"not_started,omitempty"` // why it could not be started
	ExitCode *int     `json:"exit_code,omitempty"`   // where it exited
	Signal   string   `json:"signal,omitempty"`      // that ended it, such as SIGKILL
	TimedOut bool     `json:"timed_out,omitempty"`
	Breaches []Breach `json:"breaches,omitempty"` // limits that its box ran into
	Broke    string   `json:"broke,omitempty"`    // how it ended its box, and itself with it
	Stdout   Output   `json:"stdout"`
	Stderr   Output   `json:"stderr"`
}

// Breach is a limit that a box ran into, as [usage.Breach] has it.
type Breach struct {
	Kind string `json:"kind"`
	What string `json:"what"` // as a sentence goes on that names the box
}

// OutOfMemory says whether the kernel ended something of the program for want of
// memory.
func (a ProgramAnswer) OutOfMemory() bool {
	return slices.ContainsFunc(a.Breaches, func(b Breach) bool { return b.Kind == usage.OOM })
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

// Step records a step. Its Ask and its Answer are JSON. What is asked stays as it is:
// it is of a grader's config, which trial.json has, and is found by that.
func (r *Recorder) Step(s Step) error {
	answer, found := r.secrets.JSON(s.Answer)
	failure, inError := r.secrets.Bytes([]byte(s.Error))
	found.Add(inError)
	s.Answer, s.Error = answer, string(failure)
	r.noteRedacted(StepsFile, found, nil)
	line, err := Marshal(s)
	if err != nil {
		return r.note(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps == nil {
		if r.steps, err = os.OpenFile(filepath.Join(r.dir, StepsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err != nil {
			r.noteLocked(err)
			return told(err)
		}
	}
	_, err = r.steps.Write(append(line, '\n'))
	r.noteLocked(err)
	return told(err)
}

// Steps reads steps.jsonl; a trial that took none has no such file.
func (d Dir) Steps() ([]Step, error) {
	steps, err := collect(readLines[Step](d, StepsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return steps, err
}
