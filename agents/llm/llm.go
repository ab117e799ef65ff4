// Package llm is an agent that loops with a model over OpenAI's chat completions API: it
// runs the tools that the model asks for and ends with the model's answer. It is meant for evals
// of servers and models rather than of agents.
//
// It makes no plan, remembers nothing but the conversation, and never shortens it. It does not
// stream, and it does not answer what servers ask of their client. What the model asks for is
// hostile, and so is what servers answer: all of it is bounded, and the tools for files reach no
// file outside the workspace.
package llm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/internal/session"
	"github.com/waza-isolate/waza/agents/transcript"
)

// ErrTurns is the class of a run whose model was not done after all its turns.
var ErrTurns = errors.New("the model is not done")

// DefaultTurns is how many answers the model has by default.
const DefaultTurns = 50

// Kinds of tools, as Settings.Tools names them.
const (
	ToolsMCP   = "mcp"
	ToolsFiles = "files"
	ToolsShell = "shell"
)

// Settings configures the loop.
type Settings struct {
	MaxTurns    int      `json:"max_turns,omitempty"` // answers of the model; 0 is DefaultTurns
	System      string   `json:"system,omitempty"`    // the end of the system prompt
	Tools       []string `json:"tools,omitempty"`     // kinds of tools; nil is all that there are
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"` // of each answer; 0 is the model's own limit
}

// Options configures a run. All fields but Effort, Next, Context, Skills, Dir and Settings are
// required; the prompt may be empty.
type Options struct {
	Settings
	ModelURL   string // base URL of the endpoint, without /chat/completions
	Model      string
	Effort     string // how much the model is to reason; empty for its default
	Prompt     string
	Next       func() (string, error) // returns the next prompt, or io.EOF; nil for one prompt
	Context    json.RawMessage        // the task's context, an object; empty for none
	Workspace  string                 // directory that file tools are confined to
	Dir        string                 // directory in it that paths are relative to; empty is the workspace
	ConfigPath string                 // mcp.json
	Early      []string               // servers in it that do not answer server/discover
	Skills     []Skill
	Stdout     io.Writer // gets the final output: all that the model said
	Transcript io.Writer // gets each event when it happens, one a line
	Log        io.Writer // gets what a person should know of the run, one a line
}

// Run asks the model until it is done, then writes the final output, also after a failure. Its
// errors are of the classes [ErrTurns], [ErrModel] and [session.ErrConfig], or ctx's own error if
// ctx ended it.
func Run(ctx context.Context, o Options) error {
	a, err := newAgent(ctx, o)
	if err != nil {
		return err
	}
	a.transcript.Prompt(o.Prompt)
	err = a.turn(ctx, o.Stdout)
	for err == nil && o.Next != nil {
		prompt, ended := o.Next()
		if errors.Is(ended, io.EOF) {
			break
		}
		if err = ended; err == nil {
			a.transcript.Prompt(prompt)
			a.model.request.Messages = append(a.model.request.Messages, message{Role: "user", Content: prompt})
			err = a.turn(ctx, o.Stdout)
		}
	}
	return errors.Join(err, a.transcript.Err(), a.close())
}

// turn works on a prompt, then writes what the model said.
func (a *agent) turn(ctx context.Context, out io.Writer) error {
	a.said = nil
	err := a.work(ctx)
	_, werr := io.WriteString(out, strings.Join(a.said, "\n"))
	return errors.Join(err, werr)
}

// agent is the state of one run.
type agent struct {
	model      *model
	tools      toolbox
	servers    *session.Servers
	workspace  *os.Root
	transcript *transcript.Writer
	turns      int      // that the model has
	said       []string // in its turns
}

func newAgent(ctx context.Context, o Options) (*agent, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	workspace, err := openWorkspace(o.Workspace, o.start())
	if err != nil {
		return nil, err
	}
	a := &agent{
		workspace: workspace.root, servers: session.New(o.ConfigPath, "waza-llm", o.Early),
		transcript: transcript.NewWriter(o.Transcript), turns: o.MaxTurns,
	}
	if a.turns == 0 {
		a.turns = DefaultTurns
	}
	if a.tools, err = a.toolbox(ctx, o, workspace); err != nil {
		return nil, errors.Join(err, a.close())
	}
	a.model = newModel(o, a.tools.definitions())
	return a, nil
}

func (o Options) check() error {
	if o.ModelURL == "" || o.Model == "" || o.Stdout == nil || o.Transcript == nil || o.Log == nil {
		return errors.New("llm agent: ModelURL, Model, Stdout, Transcript and Log are required")
	}
	for _, kind := range o.Tools {
		if !slices.Contains([]string{ToolsMCP, ToolsFiles, ToolsShell}, kind) {
			return fmt.Errorf("llm agent: no tools are called %q", kind)
		}
	}
	return nil
}

// has reports whether tools of a kind are wanted.
func (s Settings) has(kind string) bool { return s.Tools == nil || slices.Contains(s.Tools, kind) }

func (a *agent) close() error {
	a.servers.Close()
	if a.model != nil {
		a.model.close()
	}
	return a.workspace.Close()
}
