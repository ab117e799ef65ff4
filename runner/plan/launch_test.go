package plan

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
)

func TestLaunchOfACommand(t *testing.T) {
	const prompt = "say {{prompt_file}}"
	for _, test := range []struct {
		name     string
		args     []string
		promptBy string
		want     []string
		stdin    string
		file     bool
	}{
		{"argument, appended", []string{"run", "-q"}, "argument", []string{"run", "-q", prompt}, "", false},
		{"argument, placed", []string{"run", "{{prompt}}", "-q"}, "argument", []string{"run", prompt, "-q"}, "", false},
		{"argument, not within a word", []string{"run", "--p={{prompt}}"}, "argument", []string{"run", "--p={{prompt}}", prompt}, "", false},
		{"argument and file", []string{"run", "-f", "{{prompt_file}}"}, "argument", []string{"run", "-f", PromptPath, prompt}, "", true},
		{"file, placed", []string{"run", "--p={{prompt_file}}"}, "file", []string{"run", "--p=" + PromptPath}, "", true},
		{"file, found", []string{"run"}, "file", []string{"run"}, "", true},
		{"stdin", []string{"run"}, "stdin", []string{"run"}, prompt, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			trial := &Trial{Agent: Agent{Executor: "command", Command: test.args, Prompt: prompt, PromptBy: test.promptBy, Dir: "/workspace/src"}}
			before := append([]string{}, test.args...)
			l, err := trial.Launch(sandbox.ContainerLayout(), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, l.Process.Args); diff != "" {
				t.Error(diff)
			}
			if string(l.Stdin) != test.stdin || l.Process.Dir != "/workspace/src" {
				t.Errorf("stdin %q, directory %s", l.Stdin, l.Process.Dir)
			}
			if file := len(l.Files) == 1 && l.Files[0].Path == PromptPath && string(l.Files[0].Content) == prompt; file != test.file {
				t.Errorf("files %v", l.Files)
			}
			if diff := cmp.Diff(before, trial.Agent.Command); diff != "" {
				t.Errorf("the plan was changed: %s", diff)
			}
		})
	}
}

func TestLaunchOfOurAgents(t *testing.T) {
	for executor, about := range map[string]string{
		evidence.ExecutorMock:   `"task_name":"T","description":"d","files":["notes.txt"],`,
		evidence.ExecutorScript: "",
	} {
		trial := &Trial{Files: []File{NewFile("notes.txt", "old")}, Task: "t", TaskName: "T", About: "d"}
		trial.Agent = Agent{
			Executor: executor, Prompt: "p", Transcript: TranscriptPath, Dir: sandbox.WorkspaceDir,
			Context: json.RawMessage(`{"n":9007199254740993}`), Script: json.RawMessage(`[{"say":"x"}]`),
		}
		l, err := trial.Launch(sandbox.ContainerLayout(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{sandbox.GuestPath, "agent", executor}, l.Process.Args); diff != "" {
			t.Error(diff)
		}
		want := `{"prompt":"p","context":{"n":9007199254740993},"script":[{"say":"x"}],` +
			`"workspace":"/workspace","mcp_config":"/etc/waza/mcp.json","transcript":"/home/agent/transcript/transcript.jsonl",` + about + `"dir":"/workspace"}`
		if string(l.Stdin) != want {
			t.Errorf("stdin %s\nwant  %s", l.Stdin, want)
		}
		if len(l.Files) != 1 || l.Files[0].Path != TranscriptPath {
			t.Errorf("files %v", l.Files)
		}
	}
}

func TestAgentEnv(t *testing.T) {
	trial := &Trial{Task: "buy", Agent: Agent{
		Model: "small-1", Context: json.RawMessage(`{"a":1}`), Env: map[string]string{"SHOP": "west", "HOME": "/elsewhere"},
	}}
	want := []string{
		"HOME=/elsewhere", "SHOP=west", `WAZA_CONTEXT={"a":1}`, "WAZA_MCP_CONFIG=/etc/waza/mcp.json",
		"WAZA_MODEL=small-1", "WAZA_TASK=buy", "WAZA_WORKSPACE=/workspace",
	}
	if diff := cmp.Diff(want, agentEnv(trial, sandbox.ContainerLayout(), nil)); diff != "" {
		t.Error(diff)
	}
}

func TestOutputFile(t *testing.T) {
	for output, want := range map[string]string{"": "", "stdout": "", "transcript": "", "a.txt": "a.txt", "./out//a.txt": "out/a.txt"} {
		if got := (Agent{Output: output}).OutputFile(); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}
