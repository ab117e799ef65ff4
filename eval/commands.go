package eval

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/sandbox/cmdmock"
)

// CommandMock is a program in the agent's container that answers from a table.
type CommandMock struct {
	_ struct{} `unknown:"warn"`

	Name        string            `json:"name" jsonschema:"name of the program: letters, digits, . _ and -"`
	Responses   []CommandResponse `json:"responses" jsonschema:"responses; the first that matches is used"`
	ExpectCalls *int              `json:"expect_calls,omitempty" min:"0" jsonschema:"how often the program must be called; any other number fails the trial"`

	side   *cassette.Side // with an entry for each response
	played bool
}

// IsPlayed reports whether the command comes from a cassette, not from command_mocks.
func (c *CommandMock) IsPlayed() bool { return c.played }

// CommandResponse is the answer to invocations that meet all of its conditions.
type CommandResponse struct {
	_ struct{} `unknown:"warn"`

	Args        []string          `json:"args,omitempty" jsonschema:"the complete list of arguments"`
	ArgsRegex   []string          `json:"args_regex,omitempty" jsonschema:"one RE2 expression for each argument, which must match the whole argument"`
	Environment map[string]string `json:"environment,omitempty" jsonschema:"environment variables that must have these values"`
	Workdir     string            `json:"workdir,omitempty" jsonschema:"directory that the program must be started in, relative to the workspace"`
	CommandOutput
	Sequence []CommandStep `json:"sequence,omitempty" jsonschema:"in place of an output, one for each invocation that matches, in order; later ones fail"`
}

// CommandStep is one output of a sequence.
type CommandStep struct {
	_ struct{} `unknown:"warn"`

	CommandOutput
	DelayMS int `json:"delay_ms,omitempty" min:"0" max:"604800000" jsonschema:"milliseconds before the program ends; default 0"`
}

// CommandOutput is what an invocation writes, and its exit code.
type CommandOutput struct {
	Stdout   json.RawMessage `json:"stdout,omitempty" jsonschema:"output: a string is written as is, anything else as JSON"`
	Fixture  string          `json:"fixture,omitempty" jsonschema:"file to output instead of stdout, relative to the eval"`
	Stderr   string          `json:"stderr,omitempty" jsonschema:"output on stderr"`
	ExitCode int             `json:"exit_code,omitempty" min:"0" max:"255" jsonschema:"exit code; default 0"`

	text []byte // the content of Fixture, or the text that Stdout stands for
}

// Play returns a player of the command. Its requests are the result of [InvocationMembers], its values are of
// type [cmdmock.Answer], and its entries are the responses.
func (c *CommandMock) Play() *cassette.Player { return c.side.Play() }

// InvocationMembers returns an invocation as a request to a player. workspace is the path of the workspace in
// the container.
func InvocationMembers(in cmdmock.Invocation, workspace string) map[string]any {
	args, env := make([]any, len(in.Args)), make(map[string]any, len(in.Env))
	for i, arg := range in.Args {
		args[i] = arg
	}
	for name, value := range in.Env {
		env[name] = value
	}
	members := map[string]any{"args": args, "env": env}
	if dir, err := filepath.Rel(workspace, in.Dir); err == nil {
		members["dir"] = filepath.ToSlash(dir)
	}
	return members
}

// commandMocks completes and checks the command mocks of an eval's or a task's document.
func commandMocks(doc *strictyaml.Document, e *Eval, mocks []CommandMock) {
	for i := range mocks {
		at, mock := strictyaml.Path{"command_mocks", i}, &mocks[i]
		if slices.ContainsFunc(mocks[:i], func(c CommandMock) bool { return c.Name == mock.Name }) {
			doc.Problemf(at.With("name"), "command %q appears twice", mock.Name)
		}
		for n := range mock.Responses {
			commandResponse(doc, e, &mock.Responses[n], at.With("responses", n))
		}
		if err := mock.compile(); err != nil && mock.Name != "" {
			doc.Problemf(at, "command %q: %s", mock.Name, flat(err))
		}
	}
}

// commandResponse checks the paths of a response and reads its outputs.
func commandResponse(doc *strictyaml.Document, e *Eval, r *CommandResponse, at strictyaml.Path) {
	checkInside(doc, at.With("workdir"), r.Workdir, "a directory in the workspace")
	r.read(doc, e, at)
	for i := range r.Sequence {
		r.Sequence[i].read(doc, e, at.With("sequence", i))
	}
}

// read sets the text that an output writes.
func (o *CommandOutput) read(doc *strictyaml.Document, e *Eval, at strictyaml.Path) {
	var text string
	var compact bytes.Buffer
	switch {
	case o.Fixture != "" && o.Stdout != nil:
		doc.Problemf(at.With("fixture"), "%s has stdout and a fixture; give it one of them", at)
	case o.Fixture != "":
		var err error
		if o.text, err = readBelow(e.Dir(), o.Fixture); err != nil {
			doc.Problemf(at.With("fixture"), "%s: fixture %s %v", at, o.Fixture, err)
		}
		e.MockFiles = append(e.MockFiles, filepath.Join(e.Dir(), filepath.FromSlash(o.Fixture)))
	case json.Unmarshal(o.Stdout, &text) == nil:
		o.text = []byte(text)
	case json.Compact(&compact, o.Stdout) == nil:
		o.text = compact.Bytes()
	}
}

// answer returns an output as an answer of a cassette.
func (o *CommandOutput) answer(delay int) (cassette.Answer, error) {
	value, err := jsontext.Marshal(cmdmock.NewAnswer(o.text, o.Stderr, o.ExitCode))
	return cassette.Answer{Value: value, DelayMS: delay}, err
}

// isCommandName reports whether name is valid for a program that is played.
func isCommandName(name string) bool { return commandName.MatchString(name) && name != "waza" }

var commandName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// compile checks a command and reads its responses into its side. The error lists all problems.
func (c *CommandMock) compile() error {
	var errs []error
	if !isCommandName(c.Name) {
		errs = append(errs, fmt.Errorf("%q is not a valid name of a program: up to 64 letters, digits, '.', '_' and '-', and not waza", c.Name))
	}
	if len(c.Responses) == 0 {
		errs = append(errs, errors.New("it has no responses; give it one at least"))
	}
	c.side = &cassette.Side{}
	for i := range c.Responses {
		entry, err := c.Responses[i].entry()
		if err != nil {
			errs = append(errs, fmt.Errorf("responses[%d]: %w", i, err))
		}
		c.side.Entries = append(c.side.Entries, entry)
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return c.side.Compile()
}

// entry returns a response as an entry of a cassette.
func (r *CommandResponse) entry() (cassette.Entry, error) {
	var errs []error
	if (r.Args == nil) == (r.ArgsRegex == nil) {
		errs = append(errs, errors.New("give it either args or args_regex"))
	}
	e := cassette.Entry{Match: match.Matchers{}}
	if r.Args != nil {
		e.Match["args"] = cassette.Matcher("equals", r.Args)
	} else {
		expressions := make([]json.RawMessage, len(r.ArgsRegex))
		for i, expression := range r.ArgsRegex {
			if _, err := regexp.Compile(expression); err != nil {
				errs = append(errs, fmt.Errorf("args_regex[%d]: %w", i, err))
			}
			expressions[i] = cassette.Matcher("regex", "^(?:"+expression+")$")
		}
		list, err := jsontext.Marshal(expressions)
		e.Match["args"], errs = list, append(errs, err)
	}
	for name, value := range r.Environment {
		e.Match["env."+name] = cassette.Matcher("equals", value)
	}
	if r.Workdir != "" {
		e.Match["dir"] = cassette.Matcher("equals", filepath.ToSlash(filepath.Clean(r.Workdir)))
	}
	if r.Sequence == nil {
		answer, err := r.answer(0)
		e.Answer, errs = &answer, append(errs, err)
		return e, errors.Join(errs...)
	}
	if own := r.CommandOutput; len(r.Sequence) == 0 || own.Stdout != nil || own.Fixture != "" || own.Stderr != "" || own.ExitCode != 0 {
		errs = append(errs, errors.New("give it a sequence of at least one step, or an output"))
	}
	for _, step := range r.Sequence {
		answer, err := step.answer(step.DelayMS)
		e.Answers, errs = append(e.Answers, answer), append(errs, err)
	}
	return e, errors.Join(errs...)
}
