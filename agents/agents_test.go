package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/evidence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunByName(t *testing.T) {
	in := input.Input{
		Prompt: "count the bolts", Context: json.RawMessage(`{"serial":9007199254740993}`), Workspace: t.TempDir(),
		Script: json.RawMessage(`[{"say":"{{ prompt }}: {{ context.serial }}"}]`),
	}
	for name, want := range map[string]string{
		evidence.ExecutorMock:   "Mock response for: count the bolts\nContext:\n  serial: 9007199254740993",
		evidence.ExecutorScript: "count the bolts: 9007199254740993",
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, transcript strings.Builder
			if err := agents.Run(t.Context(), name, in, &stdout, io.Discard, &transcript); err != nil {
				t.Fatal(err)
			}
			if stdout.String() != want {
				t.Errorf("said %q, want %q", stdout.String(), want)
			}
			if lines := strings.Count(transcript.String(), "\n"); lines != 2 {
				t.Errorf("transcript of %d lines: %s", lines, transcript.String())
			}
		})
	}
}

func TestRunFails(t *testing.T) {
	var stdout, transcript strings.Builder
	for _, test := range []struct{ name, agent, script, want string }{
		{"unknown name", "copilot", `[]`, `no agent is called "copilot"`},
		{"no name", "", `[]`, `no agent is called ""`},
		{"bad script", evidence.ExecutorScript, `[{"shout":"x"}]`, "shout"},
		{"no script", evidence.ExecutorScript, ``, "script"},
	} {
		t.Run(test.name, func(t *testing.T) {
			in := input.Input{Script: json.RawMessage(test.script), Workspace: t.TempDir()}
			err := agents.Run(t.Context(), test.agent, in, &stdout, io.Discard, &transcript)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want …%s…", err, test.want)
			}
		})
	}
	if stdout.Len()+transcript.Len() > 0 {
		t.Errorf("said %q and wrote %q", stdout.String(), transcript.String())
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, transcript strings.Builder
	in := input.Input{Script: json.RawMessage(`[{"sleep":"1h"}]`), Workspace: t.TempDir()}
	err := agents.Run(ctx, evidence.ExecutorScript, in, &stdout, io.Discard, &transcript)
	var step *script.StepError
	if !errors.As(err, &step) {
		t.Errorf("%v is no StepError", err)
	}
}
