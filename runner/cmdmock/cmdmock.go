// Package cmdmock answers for command-line programs from a table, as an eval's
// command_mocks define it. The first response whose conditions hold is the answer; an
// invocation that none matches fails.
//
// In the agent's container the program is our own executable under the command's name. It asks
// the runner, which has the table and keeps the record. The package knows no trials and no
// networks.
package cmdmock

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Variable is the environment variable that holds the URL which mocked programs ask.
const Variable = "WAZA_COMMANDS"

// Path is the path of that URL below the one of models.
const Path = "/.command"

// ExitUnmatched is the exit code of an invocation that no response is for.
const ExitUnmatched = 127

// maxInvocation is how many bytes an invocation may have.
const maxInvocation = 1 << 20

// Command is a program that is mocked.
type Command struct {
	Name        string     `json:"name"`
	Responses   []Response `json:"responses"`
	ExpectCalls *int       `json:"expect_calls,omitempty"` // nil where any number will do
}

// Response is the answer to invocations that meet all its conditions.
type Response struct {
	Args        []string          `json:"args,omitempty"`       // the arguments, all of them
	ArgsRegex   []string          `json:"args_regex,omitempty"` // an expression for the whole of each argument
	Environment map[string]string `json:"environment,omitempty"`
	Workdir     string            `json:"workdir,omitempty"` // relative to the workspace; empty for any
	Stdout      []byte            `json:"stdout,omitempty"`
	Stderr      string            `json:"stderr,omitempty"`
	ExitCode    int               `json:"exit_code,omitempty"`

	byRegex bool
	regex   []*regexp.Regexp
}

var nameOf = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Compile reports everything wrong with a command and makes it ready to be asked.
func (c *Command) Compile() error {
	var errs []error
	if !nameOf.MatchString(c.Name) || c.Name == "waza" {
		errs = append(errs, fmt.Errorf("%q is no name of a program: up to 64 letters, digits, '.', '_' and '-', and not waza", c.Name))
	}
	if len(c.Responses) == 0 {
		errs = append(errs, errors.New("it has no responses; give it one at least"))
	}
	if c.ExpectCalls != nil && *c.ExpectCalls < 0 {
		errs = append(errs, errors.New("expect_calls must be at least 0"))
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
	r.byRegex = r.ArgsRegex != nil
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
	if r.ExitCode < 0 || r.ExitCode > 255 {
		errs = append(errs, errors.New("exit_code must be from 0 to 255"))
	}
	return errors.Join(errs...)
}

// Invocation is a program as it was started.
type Invocation struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Dir     string            `json:"dir"`
}

// ReadInvocation reads what a program asks. Whoever is in the agent's container may have written it.
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

// Answer is what a program writes, and how it exits.
type Answer struct {
	Stdout   []byte `json:"stdout,omitempty"`
	Stderr   string `json:"stderr,omitempty"`
	ExitCode int    `json:"exit_code"`
	Response int    `json:"-"` // its index; -1 for none
}

// Answer returns the answer to an invocation in a container with the workspace at a path.
func (c *Command) Answer(in Invocation, workspace string) Answer {
	for i, r := range c.Responses {
		if r.matches(in, workspace) {
			return Answer{r.Stdout, r.Stderr, r.ExitCode, i}
		}
	}
	return Answer{
		Stderr:   fmt.Sprintf("waza: no response of the mock of %s matches the arguments %q; add one to command_mocks\n", c.Name, in.Args),
		ExitCode: ExitUnmatched, Response: -1,
	}
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
