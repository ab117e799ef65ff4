// Package agents runs the built-in agents, which are waza's own executable in the agent's container. Agents
// that are other programs do not use it.
package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/llm"
	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/evidence"
)

// IsOurs reports whether an executor is a built-in agent.
func IsOurs(executor string) bool {
	return executor == evidence.ExecutorMock || executor == evidence.ExecutorScript || executor == evidence.ExecutorLLM
}

// Main runs the built-in agent that args name, in the agent's container.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if len(args) != 1 {
		return errors.New("usage: waza agent NAME; it is started by waza run")
	}
	var in input.Input
	prompts := json.NewDecoder(stdin)
	if err := prompts.Decode(&in); err != nil {
		return fmt.Errorf("agent input: %w", err)
	}
	stdout = talk(&in, prompts, stdout)
	transcript, err := os.OpenFile(in.Transcript, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, transcript.Close()) }()
	return Run(context.Background(), args[0], in, stdout, stderr, transcript)
}

// ExitUnexpected is the exit code if a server did not answer a script as expected.
const ExitUnexpected = 3

// ExitCode returns the exit code for an error of [Main].
func ExitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, script.ErrAnswer):
		return ExitUnexpected
	}
	return 1
}

// TurnEnd ends the output of a turn if there may be further prompts. The agent then waits for
// the next one, which is a JSON string on stdin.
const TurnEnd = '\x00'

// talk makes in.Next read prompts, and returns the writer for the agent's output. The writer replaces bytes
// that would end a turn, and starts the output of each turn on a new line.
func talk(in *input.Input, prompts *json.Decoder, stdout io.Writer) io.Writer {
	if !in.Turns {
		return stdout
	}
	turn := &turnWriter{w: stdout}
	in.Next = func() (prompt string, err error) {
		turn.before, turn.said = turn.before || turn.said, false
		if _, err = stdout.Write([]byte{TurnEnd}); err == nil {
			err = prompts.Decode(&prompt)
		}
		return prompt, err
	}
	return turn
}

// turnWriter writes text without bytes that end a turn.
type turnWriter struct {
	w      io.Writer
	before bool // an earlier turn had output
	said   bool // this turn had output
}

func (t *turnWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	text := bytes.ReplaceAll(p, []byte{TurnEnd}, []byte("\uFFFD"))
	if t.before && !t.said {
		text = append([]byte("\n"), text...)
	}
	t.said = true
	if _, err := t.w.Write(text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Run runs the agent called name. It writes the transcript to events, and messages for people
// to stderr.
func Run(ctx context.Context, name string, in input.Input, stdout, stderr, events io.Writer) error {
	switch name {
	case evidence.ExecutorMock:
		return mock(in, stdout, events)
	case evidence.ExecutorScript:
		return script.Run(ctx, in, stdout, events)
	case evidence.ExecutorLLM:
		return llm.Run(ctx, in, stdout, stderr, events)
	default:
		return fmt.Errorf("no agent is called %q", name)
	}
}
