// Package agents runs the built-in agents: waza's own executable, in the agent's container.
// Agents that are other programs need nothing here.
package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/waza-isolate/waza/agents/llm"
	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/agents/transcript"
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
	var in Input
	input := json.NewDecoder(stdin)
	if err := input.Decode(&in); err != nil {
		return fmt.Errorf("agent input: %w", err)
	}
	stdout = in.Talk(input, stdout)
	transcript, err := os.OpenFile(in.Transcript, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, transcript.Close()) }()
	return Run(context.Background(), args[0], in, stdout, stderr, transcript)
}

// Input is what the runner writes to an agent's stdin, as JSON.
type Input struct {
	Prompt     string          `json:"prompt"`
	Turns      bool            `json:"turns,omitempty"` // there may be further prompts; see Next
	Context    json.RawMessage `json:"context,omitempty"`
	Script     json.RawMessage `json:"script,omitempty"`
	Files      int             `json:"files"`
	Workspace  string          `json:"workspace"`
	MCPConfig  string          `json:"mcp_config"`
	Early      []string        `json:"early,omitempty"` // servers in MCPConfig that do not support server/discover
	Transcript string          `json:"transcript"`      // path of the transcript

	// For executor llm.
	Dir      string        `json:"dir,omitempty"` // working directory
	LLM      *llm.Settings `json:"llm,omitempty"`
	Model    string        `json:"model,omitempty"`
	Effort   string        `json:"reasoning_effort,omitempty"`
	ModelURL string        `json:"model_url,omitempty"`
	Skills   []llm.Skill   `json:"skills,omitempty"`

	// Next ends a turn and waits for the next prompt. It returns io.EOF if there is none. It is
	// nil without Turns.
	Next func() (string, error) `json:"-"`
}

// TurnEnd ends the output of a turn if there may be further prompts. The agent then waits for
// the next one, which is a JSON string on stdin.
const TurnEnd = '\x00'

// Talk makes Next read prompts, and returns the writer for the agent's output. It replaces
// bytes that would end a turn, and starts the output of each turn on a new line.
func (in *Input) Talk(prompts *json.Decoder, stdout io.Writer) io.Writer {
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
func Run(ctx context.Context, name string, in Input, stdout, stderr, events io.Writer) error {
	switch name {
	case evidence.ExecutorMock:
		return mock(in, stdout, events)
	case evidence.ExecutorScript:
		steps, err := script.Parse(in.Script)
		if err != nil {
			return err
		}
		return script.Run(ctx, script.Options{
			Script: steps, Workspace: in.Workspace, Prompt: in.Prompt, Context: in.Context,
			ConfigPath: in.MCPConfig, Early: in.Early, Stdout: stdout, Transcript: events, Next: in.Next,
		})
	case evidence.ExecutorLLM:
		if in.LLM == nil {
			return errors.New("agent llm: no settings")
		}
		return llm.Run(ctx, llm.Options{
			Settings: *in.LLM, ModelURL: in.ModelURL, Model: in.Model, Effort: in.Effort, Prompt: in.Prompt, Next: in.Next, Context: in.Context,
			Workspace: in.Workspace, Dir: in.Dir, ConfigPath: in.MCPConfig, Early: in.Early, Skills: in.Skills,
			Stdout: stdout, Transcript: events, Log: stderr,
		})
	default:
		return fmt.Errorf("no agent is called %q", name)
	}
}

// mock answers each prompt without a model or tools, to try out the rest of an eval. Its
// wording is that of upstream waza.
func mock(in Input, stdout, events io.Writer) error {
	w := transcript.NewWriter(events)
	say := func(prompt, answer string) error {
		w.Prompt(prompt)
		w.Say(answer)
		_, err := io.WriteString(stdout, answer)
		return err
	}
	answer := "Mock response for: " + in.Prompt
	if in.Files > 0 {
		answer += fmt.Sprintf("\nAnalyzed %d file(s)", in.Files)
	}
	err := say(in.Prompt, answer)
	for err == nil && in.Next != nil {
		prompt, ended := in.Next()
		if errors.Is(ended, io.EOF) {
			break
		}
		if err = ended; err == nil {
			err = say(prompt, "Mock response for: "+prompt)
		}
	}
	return errors.Join(err, w.Err())
}
