package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/waza-isolate/waza/agents/internal/session"
	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

var (
	// ErrUnexpected is the class of a step that went otherwise than it expects.
	ErrUnexpected = errors.New("unexpected outcome")
	// ErrFailed is the class of a fail step.
	ErrFailed = errors.New("failed on purpose")
	// ErrConfig is the class of a server that mcp.json does not name, or of an
	// mcp.json that cannot be read.
	ErrConfig = session.ErrConfig
)

// Options is what a run works with. All but Context, ConfigPath, Env and
// Next is required; an empty prompt is a prompt.
type Options struct {
	Script     Script
	Workspace  string          // directory that file steps are confined to and commands start in
	Prompt     string          // the task's prompt, "prompt" in expressions
	Context    json.RawMessage // the task's context, an object, "context" in expressions; empty is {}
	ConfigPath string          // mcp.json; read when a step first needs a server
	Env        []string        // environment of commands, "KEY=value"; nil is the process's own
	Stdout     io.Writer       // gets the final output: what was said last, as it is
	Transcript io.Writer       // gets an event a line, when it happens
	// Next waits for the next prompt; io.EOF where none comes. Nil for one prompt.
	Next func() (string, error)
}

// Run executes the script's steps in order until one fails or ctx ends, then
// writes the final output, also after a failure. Where a step failed the error
// is a [*StepError] in one sentence; [ErrUnexpected], [ErrFailed] and
// [ErrConfig] are its classes, and ctx's own error where ctx ended it.
func Run(ctx context.Context, o Options) error {
	r, err := newRunner(o)
	if err != nil {
		return err
	}
	r.transcript.Prompt(o.Prompt)
	if _, err = r.steps(ctx, o.Script.steps); errors.Is(err, errOver) {
		err = nil
	}
	return errors.Join(err, r.endTurn(), r.hangUp(err), r.transcript.Err(), r.close())
}

// hangUp fails where there is a prompt yet that no step waits for.
func (r *runner) hangUp(failed error) error {
	if r.next == nil || failed != nil {
		return nil
	}
	prompt, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	return errors.Join(fmt.Errorf("%w: the script has ended and is asked %q; wait for that with await: prompt", ErrUnexpected, prompt), err)
}

// runner is the state of one run.
type runner struct {
	workspace  *os.Root
	env        []string
	transcript *transcript.Writer
	servers    *session.Servers
	variables  *variables
	iterations int    // of all loops so far
	said       string // last in the turn
	stdout     io.Writer
	next       func() (string, error)
}

func newRunner(o Options) (*runner, error) {
	if o.Stdout == nil || o.Transcript == nil {
		return nil, errors.New("script agent: Stdout and Transcript are required")
	}
	values, err := contextValue(o.Context)
	if err != nil {
		return nil, err
	}
	workspace, err := os.OpenRoot(o.Workspace)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	r := &runner{
		workspace:  workspace,
		env:        o.Env,
		stdout:     o.Stdout,
		next:       o.Next,
		transcript: transcript.NewWriter(o.Transcript),
		servers:    session.New(o.ConfigPath, "waza-script"),
		variables:  newVariables(),
	}
	r.variables.bind("prompt", o.Prompt)
	r.variables.bind("context", values)
	return r, nil
}

func contextValue(raw json.RawMessage) (any, error) {
	if isNull(raw) {
		return map[string]any{}, nil
	}
	value, err := jsonvalue.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("context: %w", err)
	}
	if _, ok := value.(map[string]any); !ok {
		return nil, fmt.Errorf("context: must be an object and is %s", kindOf(value))
	}
	return value, nil
}

func (r *runner) close() error {
	r.servers.Close()
	return r.workspace.Close()
}

// steps runs a list of steps and returns the last one's value.
func (r *runner) steps(ctx context.Context, steps []step) (any, error) {
	var last any
	for _, s := range steps {
		value, err := r.step(ctx, s)
		if err != nil {
			return nil, err
		}
		last = value
	}
	return last, nil
}

func (r *runner) step(ctx context.Context, s step) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, &StepError{Path: s.path, Err: err}
	}
	value, err := s.action.run(ctx, r)
	if err != nil {
		var inner *StepError
		if errors.As(err, &inner) {
			return nil, err
		}
		return nil, &StepError{Path: s.path, Err: err}
	}
	if s.as != "" {
		r.variables.bind(s.as, value)
	}
	return value, nil
}
