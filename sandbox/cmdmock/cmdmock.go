// Package cmdmock mocks commands with a table of responses, as an eval's command_mocks define
// it. The first response whose conditions match is used; an invocation without a match fails.
//
// In the agent's container, the command is a link to waza's own executable. It requests the
// answer from the runner, which has the table and records the invocation. This package does not
// know about trials or networks.
package cmdmock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Variable is the environment variable with the URL that mocked commands send requests to.
const Variable = "WAZA_COMMANDS"

// Path is the path of that URL, relative to the gateway's.
const Path = "/.command"

// ExitUnmatched is the exit code of an invocation without a matching response.
const ExitUnmatched = 127

// maxInvocation is the maximum size of an invocation in bytes.
const maxInvocation = 1 << 20

// Command is a mocked command, as an eval declares it.
type Command struct {
	_ struct{} `unknown:"warn"`

	Name        string     `json:"name" jsonschema:"name of the program"`
	Responses   []Response `json:"responses" jsonschema:"responses; the first that matches is used"`
	ExpectCalls *int       `json:"expect_calls,omitempty" min:"0" jsonschema:"how often the program must be called; default any number of times"`
}

// Response is the answer to invocations that meet all of its conditions.
type Response struct {
	_ struct{} `unknown:"warn"`

	Args        []string          `json:"args,omitempty" jsonschema:"the complete list of arguments"`
	ArgsRegex   []string          `json:"args_regex,omitempty" jsonschema:"one regular expression for each argument, which must match the whole argument"`
	Environment map[string]string `json:"environment,omitempty" jsonschema:"environment variables of the program"`
	Workdir     string            `json:"workdir,omitempty" jsonschema:"working directory, relative to the workspace"`
	Output
	Sequence []Step `json:"sequence,omitempty" jsonschema:"in place of an output, one for each invocation that matches, in order; later ones fail"`

	byRegex bool
	regex   []*regexp.Regexp
}

// Step is one output of a sequence.
type Step struct {
	_ struct{} `unknown:"warn"`

	Output
	DelayMS int `json:"delay_ms,omitempty" min:"0" max:"604800000" jsonschema:"milliseconds before the program ends; default 0"`
}

// Output is what an invocation writes, and its exit code.
type Output struct {
	Stdout   json.RawMessage `json:"stdout,omitempty" jsonschema:"output: a string is written as is, anything else as JSON"`
	Fixture  string          `json:"fixture,omitempty" jsonschema:"file to output instead of stdout, relative to the eval"`
	Stderr   string          `json:"stderr,omitempty" jsonschema:"output on stderr"`
	ExitCode int             `json:"exit_code,omitempty" min:"0" max:"255" jsonschema:"exit code; default 0"`

	// Text is what is written: the content of Fixture, or what Compile makes of Stdout.
	Text []byte `json:"-"`
}

// Outputs returns the outputs of a response: its own, and those of its sequence.
func (r *Response) Outputs() []*Output {
	all := []*Output{&r.Output}
	for i := range r.Sequence {
		all = append(all, &r.Sequence[i].Output)
	}
	return all
}

var nameOf = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Compile validates a command and prepares it for Answer. The error lists all problems.
func (c *Command) Compile() error {
	var errs []error
	if !nameOf.MatchString(c.Name) || c.Name == "waza" {
		errs = append(errs, fmt.Errorf("%q is not a valid name of a program: up to 64 letters, digits, '.', '_' and '-', and not waza", c.Name))
	}
	if len(c.Responses) == 0 {
		errs = append(errs, errors.New("it has no responses; give it one at least"))
	}
	for i := range c.Responses {
		if err := c.Responses[i].compile(); err != nil {
			errs = append(errs, fmt.Errorf("responses[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Response) compile() error {
	var errs []error
	r.byRegex, r.regex = r.ArgsRegex != nil, nil
	if (r.Args == nil) == (r.ArgsRegex == nil) {
		errs = append(errs, errors.New("give it either args or args_regex"))
	}
	for i, expression := range r.ArgsRegex {
		compiled, err := regexp.Compile("^(?:" + expression + ")$")
		if err != nil {
			errs = append(errs, fmt.Errorf("args_regex[%d]: %w", i, err))
		}
		r.regex = append(r.regex, compiled)
	}
	if own := r.Output; r.Sequence != nil && (len(r.Sequence) == 0 || own.Stdout != nil || own.Fixture != "" || own.Stderr != "" || own.ExitCode != 0) {
		errs = append(errs, errors.New("give it a sequence of at least one step, or an output"))
	}
	for _, out := range r.Outputs() {
		out.compile()
	}
	return errors.Join(errs...)
}

func (o *Output) compile() {
	var text string
	var compact bytes.Buffer
	switch {
	case json.Unmarshal(o.Stdout, &text) == nil:
		o.Text = []byte(text)
	case json.Compact(&compact, o.Stdout) == nil:
		o.Text = compact.Bytes()
	}
}

// Invocation is one execution of a mocked command.
type Invocation struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Dir     string            `json:"dir"`
}

// ReadInvocation parses an invocation. It is not trusted: any program in the agent's container
// may have sent it.
func ReadInvocation(body io.Reader) (Invocation, error) {
	var in Invocation
	raw, err := io.ReadAll(io.LimitReader(body, maxInvocation+1))
	if err != nil {
		return in, err
	}
	if len(raw) > maxInvocation {
		return in, fmt.Errorf("the arguments and the environment have more than %d bytes", maxInvocation)
	}
	return in, jsontext.Unmarshal(raw, &in)
}

// Answer is the output and exit code of a mocked command.
type Answer struct {
	Stdout   []byte `json:"stdout,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
	ExitCode int    `json:"exit_code"`
	Response int    `json:"-"` // index of the response; -1 for none

	Delay time.Duration `json:"-"` // before it is given
}

// Answer returns the answer to an invocation. workspace is the path of the workspace in the
// container, and given returns how often a response was given before.
func (c *Command) Answer(in Invocation, workspace string, given func(response int) int) Answer {
	why := "no response of the mock of %s matches the arguments %q"
	for i, r := range c.Responses {
		if !r.matches(in, workspace) {
			continue
		}
		if r.Sequence == nil {
			return r.answer(i)
		}
		if n := given(i); n < len(r.Sequence) {
			answer := r.Sequence[n].answer(i)
			answer.Delay = time.Duration(r.Sequence[n].DelayMS) * time.Millisecond
			return answer
		}
		why = "the sequence of the mock of %s has no more steps for the arguments %q"
		break
	}
	return Answer{Stderr: fmt.Sprintf("waza: "+why+"; add one to command_mocks\n", c.Name, in.Args), ExitCode: ExitUnmatched, Response: -1}
}

func (o *Output) answer(response int) Answer {
	return Answer{Stdout: o.Text, Stderr: o.Stderr, ExitCode: o.ExitCode, Response: response}
}

func (r *Response) matches(in Invocation, workspace string) bool {
	switch {
	case !r.byRegex && !slices.Equal(r.Args, in.Args):
		return false
	case r.byRegex && !slices.EqualFunc(r.regex, in.Args, (*regexp.Regexp).MatchString):
		return false
	}
	for name, value := range r.Environment {
		if got, set := in.Env[name]; !set || got != value {
			return false
		}
	}
	if r.Workdir != "" {
		rel, err := filepath.Rel(workspace, in.Dir)
		return err == nil && filepath.ToSlash(rel) == filepath.ToSlash(filepath.Clean(r.Workdir))
	}
	return true
}
