// Package llm is an agent that runs a loop with a model over OpenAI's chat completions API: it
// runs the tools that the model calls until the model gives its final answer. It is meant for
// evals of servers and models rather than of agents.
//
// It has no planning and no memory besides the conversation, which is never shortened. It does
// not stream, and does not answer requests of servers. Neither the model's output nor servers'
// responses are trusted: both are limited in size, and the file tools are confined to the
// workspace.
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

// ErrTurns is wrapped if the model has not finished after the maximum number of turns.
var ErrTurns = errors.New("the model is not done")

// defaultTurns is the default maximum of the model's answers.
const defaultTurns = 50

// Kinds of tools, as Settings.Tools names them.
const (
	ToolsMCP   = "mcp"
	ToolsFiles = "files"
	ToolsShell = "shell"
)

// Settings configures the loop.
type Settings struct {
	MaxTurns    int      `json:"max_turns,omitempty"` // maximum number of the model's answers; 0 for defaultTurns
	System      string   `json:"system,omitempty"`    // appended to the system prompt
	Tools       []string `json:"tools,omitempty"`     // kinds of tools; nil for all
	Temperature *float64 `json:"temperature,omitempty"`
	MaxTokens   int      `json:"max_tokens,omitempty"` // per answer; 0 for the model's own limit
}

// Options configures a run. All fields except Effort, Next, Context, Skills, Dir and Settings
// are required; the prompt may be empty.
type Options struct {
	Settings
	ModelURL   string // base URL of the endpoint, without /chat/completions
	Model      string
	Effort     string // reasoning effort; empty for the model's default
	Prompt     string
	Next       func() (string, error) // returns the next prompt, or io.EOF; nil if there is only one
	Context    json.RawMessage        // the task's context, an object; may be empty
	Workspace  string                 // directory that file tools are confined to
	Dir        string                 // directory that paths are relative to; empty for the workspace
	ConfigPath string                 // mcp.json
	Early      []string               // servers in ConfigPath that do not support server/discover
	Skills     []Skill
	Stdout     io.Writer // receives the final output: all of the model's texts
	Transcript io.Writer // receives events as they happen, one per line
	Log        io.Writer // receives messages for people, one per line
}

// Run asks the model until it has finished, and writes the final output, also after a failure.
// Errors wrap [ErrTurns], [ErrModel] or [session.ErrConfig], or are ctx's error.
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

// turn handles one prompt and writes the model's texts.
func (a *agent) turn(ctx context.Context, out io.Writer) error {
	a.texts = nil
	err := a.work(ctx)
	_, werr := io.WriteString(out, strings.Join(a.texts, "\n"))
	return errors.Join(err, werr)
}

// agent is the state of one run.
type agent struct {
	model      *model
	tools      toolbox
	servers    *session.Servers
	workspace  *os.Root
	transcript *transcript.Writer
	turns      int      // maximum number of the model's answers
	texts      []string // texts of this turn
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
		a.turns = defaultTurns
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

// has reports whether tools of a kind are enabled.
func (s Settings) has(kind string) bool { return s.Tools == nil || slices.Contains(s.Tools, kind) }

func (a *agent) close() error {
	a.servers.Close()
	if a.model != nil {
		a.model.close()
	}
	return a.workspace.Close()
}
