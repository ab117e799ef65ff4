// Package script is a deterministic agent: it follows a task's script step by step and
// speaks MCP to the servers of mcp.json. Examples, tests and benchmarks use it, since a model
// would answer differently each time.
//
// A script is not a program: it has no conditions and no functions. The agent does not retry. It
// answers requests of servers to their client (sampling, elicitation, roots) only if the task has
// answers. It does not judge answers; graders do.
//
// # Steps
//
// A script is a list of steps. Each has one of these keys, and also `as: NAME` if later steps use
// its value.
//
//	call: {server, tool, arguments, expect, timeout, tell}
//	    Calls a tool. arguments is an object, {} by default. expect is ok
//	    (default), tool_error, protocol_error, transport_error, timeout or any.
//	    timeout is 5m by default. With tell: false the call is not in the
//	    transcript.
//	    Value: {text, json, structured, result, is_error, outcome, code}
//	tools: {server, timeout}
//	    Lists a server's tools. Value: a list of {name, description}
//	read: {path}
//	    Reads a file of the workspace, UTF-8 of up to 4 MiB. Value: {text, json}
//	write: {path, content}
//	    Writes a file of the workspace, and creates its directories.
//	run: {command: [program, argument...], expect_exit}
//	    Runs a program in the workspace, without a shell. expect_exit is an exit
//	    code (default 0) or any. Value: {stdout, stderr, exit_code, json}
//	say: TEXT
//	    Says something. The last text that is said is the final output.
//	claim: {server, tool, arguments, result}
//	    Puts a call that is not made into the transcript. Without server, the
//	    call has the bare name of the tool.
//	sleep: 100ms
//	await: prompt
//	    Ends a turn of the conversation and waits for the next prompt. If there
//	    is none, the run ends. The final output consists of the last text of
//	    each turn, each on a new line. Value: the prompt
//	loop: {times: N, as: NAME, steps: [...]}
//	loop: {over: LIST, as: NAME, steps: [...]}
//	    Repeats steps, at most 10,000 iterations in a run. as names the item, or
//	    the iteration's number, from 1. Names defined inside are valid until the
//	    iteration ends. Value: a list with the value of each iteration's last
//	    step; empty for a loop without a name
//	fail: TEXT
//	    Ends the run with an error.
//
// In these values, text is the text content joined by newlines, or the message
// of an error; json exists if text (for run: stdout) is a JSON value;
// structured and result exist if the server sent them; code is the code of a
// protocol error. is_error is true for every outcome other than ok.
//
// # Expressions
//
// A string of a step may contain {{ expressions }} in the language of
// github.com/expr-lang/expr, over the values named by earlier steps, prompt, and
// context. The settings as, expect, expect_exit, timeout, sleep and times
// are taken literally. A string that consists of one expression becomes
// the expression's value; otherwise values are inserted into the text, strings
// unchanged and other values as JSON. A literal {{ is written {{ "{{" }}.
//
// [Parse] reports unknown names. A plain path (stock.json.items[0].id)
// keeps the digits of numbers, and fails if a part is missing. In other
// expressions, numbers are 64-bit integers or floats, and a missing key is nil.
// Not available are now, keys, values and toPairs, whose results could differ
// from run to run, and fromJSON, which loses digits.
//
// # Transcript
//
// The events are upstream waza's: user.message with the prompt,
// tool.execution_start and tool.execution_complete around each call, read,
// write, run and list of tools, and assistant.message for each text that is
// said. MCP tools are named mcp__SERVER__TOOL, the others read_file, write_file, run_command and
// list_tools, with upstream's argument names path, file_text and command.
package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/template"
	"github.com/waza-isolate/waza/mcp/client"
)

var (
	// ErrUnexpected is wrapped if the outcome of a step is not the expected one.
	ErrUnexpected = errors.New("unexpected outcome")
	// ErrAnswer wraps ErrUnexpected. It is wrapped if a server did not answer a call or list its tools as
	// expected, or made a request that violates its schema.
	ErrAnswer = fmt.Errorf("%w", ErrUnexpected)
	// ErrFailed is wrapped by a fail step.
	ErrFailed = errors.New("failed on purpose")
	// ErrConfig is wrapped if mcp.json cannot be read, or lacks a server.
	ErrConfig = client.ErrConfig
)

// Run executes the script's steps in order until one fails or ctx is done, and writes the final output, which
// is the text of the last say step, even after a failure. It writes events as they happen. If a step failed,
// the error is a [*StepError] that wraps [ErrUnexpected], [ErrFailed], [ErrConfig] or ctx's error.
func Run(ctx context.Context, in input.Input, stdout, events io.Writer) error {
	script, err := Parse(in.Script)
	if err != nil {
		return err
	}
	r, err := newRunner(in, stdout, events)
	if err != nil {
		return err
	}
	r.transcript.Prompt(in.Prompt)
	if _, err = r.steps(ctx, script.steps); errors.Is(err, errOver) {
		err = nil
	}
	return errors.Join(err, r.endTurn(), r.checkPrompts(err), r.transcript.Err(), r.close())
}

// checkPrompts returns an error if there is another prompt for which no step waits.
func (r *runner) checkPrompts(failed error) error {
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
	transcript *transcript.Writer
	servers    *client.Servers
	variables  *template.Variables
	iterations int    // total of all loops so far
	said       string // text of the last say step in this turn
	stdout     io.Writer
	next       func() (string, error)
}

func newRunner(in input.Input, stdout, events io.Writer) (*runner, error) {
	values, err := contextValue(in.Context)
	if err != nil {
		return nil, err
	}
	workspace, err := os.OpenRoot(in.Workspace)
	if err != nil {
		return nil, fmt.Errorf("workspace: %w", err)
	}
	r := &runner{
		workspace:  workspace,
		stdout:     stdout,
		next:       in.Next,
		transcript: transcript.NewWriter(events),
		servers:    client.NewServers(in.MCPConfig, "waza-script", in.Early, in.Answers),
		variables:  template.NewVariables(),
	}
	r.variables.Bind("prompt", in.Prompt)
	r.variables.Bind("context", values)
	return r, nil
}

func contextValue(raw json.RawMessage) (any, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
		return map[string]any{}, nil
	}
	value, err := jsontext.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("context: %w", err)
	}
	return typed[map[string]any](value, "context: must be an object and is")
}

func (r *runner) close() error {
	r.servers.Close()
	return r.workspace.Close()
}

// steps runs a list of steps and returns the value of the last one.
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
	if inner := (*StepError)(nil); errors.As(err, &inner) {
		return nil, err
	}
	if unmet := r.servers.Unmet(); unmet != nil {
		err = fmt.Errorf("%w: %w", ErrAnswer, unmet)
	}
	if err != nil {
		return nil, &StepError{Path: s.path, Err: err}
	}
	if s.As != nil {
		r.variables.Bind(s.As.written, value)
	}
	return value, nil
}

// maxIterations is the maximum total number of iterations of all loops of a run, since nested loops multiply.
const maxIterations = 10_000

// Script is a parsed script. The zero value has no steps.
type Script struct {
	steps []step
}

// StepError is the error of a step.
type StepError struct {
	Path string // position, such as script[3].loop.steps[0].call
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *StepError) Unwrap() error { return e.Err }
