// Package llm is an agent that runs a loop with a model over OpenAI's chat completions API: it
// runs the tools that the model calls until the model gives its final answer. It is meant for
// evals of servers and models rather than of agents.
//
// It has no planning and no memory besides the conversation, which is never shortened. It does
// not stream, and answers only those requests of servers to which the task has answers. Neither the
// model's output nor servers' responses are trusted: both are limited in size, and the file tools are
// confined to the workspace.
package llm

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/mcp/client"
)

// ErrTurns is wrapped by the error of [Run] if the model has not finished after the maximum number of turns.
var ErrTurns = errors.New("the model is not done")

// defaultTurns is the default maximum number of the model's answers.
const defaultTurns = 50

// Run asks the model until it has finished, and writes the final output, which is all of the model's texts,
// even after a failure. It writes log messages for people, one per line, and events as they happen. Errors
// wrap [ErrTurns], [ErrModel] or [client.ErrConfig], or are ctx's error.
func Run(ctx context.Context, o input.Input, stdout, log, events io.Writer) error {
	a, err := newAgent(ctx, o, log, events)
	if err != nil {
		return err
	}
	err = o.EachPrompt(func(prompt string) error {
		a.transcript.Prompt(prompt)
		a.model.request.Messages = append(a.model.request.Messages, message{Role: "user", Content: prompt})
		return a.turn(ctx, stdout)
	})
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
	servers    *client.Servers
	workspace  *os.Root
	transcript *transcript.Writer
	log        io.Writer // messages for people
	turns      int       // maximum number of the model's answers
	texts      []string  // texts of this turn
}

func newAgent(ctx context.Context, o input.Input, log, events io.Writer) (*agent, error) {
	workspace, err := openWorkspace(o.Workspace, start(o))
	if err != nil {
		return nil, err
	}
	a := &agent{
		workspace: workspace.root, servers: client.NewServers(o.MCPConfig, "waza-llm", o.Early, o.Answers),
		log: log, transcript: transcript.NewWriter(events), turns: cmp.Or(o.MaxTurns, defaultTurns),
	}
	if a.tools, err = a.toolbox(ctx, o, workspace); err != nil {
		return nil, errors.Join(err, a.close())
	}
	a.model = newModel(o, a.tools.definitions())
	return a, nil
}

func (a *agent) close() error {
	a.servers.Close()
	if a.model != nil {
		a.model.close()
	}
	return a.workspace.Close()
}
