// Package agents is the agents that come with waza and run inside the agent's
// container as our own executable. An agent that is somebody's program needs
// nothing here: see the command executor in package runner.
package agents

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/waza-isolate/waza/agents/mock"
	"github.com/waza-isolate/waza/agents/script"
)

// Names of the agents, which are executors in an eval.
const (
	Mock   = "mock"
	Script = "script"
)

// Input is what the runner hands to an agent on stdin, as JSON.
type Input struct {
	Prompt     string          `json:"prompt"`
	Context    json.RawMessage `json:"context,omitempty"`
	Script     json.RawMessage `json:"script,omitempty"`
	Files      int             `json:"files"`
	Workspace  string          `json:"workspace"`
	MCPConfig  string          `json:"mcp_config"`
	Transcript string          `json:"transcript"` // path the transcript goes to
}

// Run runs the agent called name.
func Run(ctx context.Context, name string, in Input, stdout, transcript io.Writer) error {
	switch name {
	case Mock:
		return mock.Run(mock.Options{Prompt: in.Prompt, Files: in.Files, Stdout: stdout, Transcript: transcript})
	case Script:
		steps, err := script.Parse(in.Script)
		if err != nil {
			return err
		}
		return script.Run(ctx, script.Options{
			Script: steps, Workspace: in.Workspace, Prompt: in.Prompt, Context: in.Context,
			ConfigPath: in.MCPConfig, Stdout: stdout, Transcript: transcript,
		})
	default:
		return fmt.Errorf("no agent is called %q", name)
	}
}
