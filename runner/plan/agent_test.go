package plan

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/sandbox"
)

const adaptedAgent = `title: Mine
image: example/mine
command: [mine, "--model={{model}}", "{{prompt}}"]
env: {MINE_URL: "{{model_url}}", MINE_DIR: "{{workspace}}", MINE_LEVEL: low}
files: {.mine/mcp.json: "{{mcp_servers}}"}
mcp: gemini
models:
  - {kind: google, args: [--google], env: {MINE_KIND: google}}
  - {kind: openai, args: [--openai], env: {MINE_KIND: openai}}
exit_codes: {"3": it gave up}
`

// planAdapted plans an eval with that agent. Keys are in the environment.
func planAdapted(t *testing.T, config string) (*Trial, error) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"eval.yaml":  "name: x\nconfig:\n  trials_per_task: 2\n  timeout_seconds: 9\n  executor: command\n  agent: {adapter: mine.yaml}\n" + config + "\ntasks: [task.yaml]\n",
		"task.yaml":  "id: t\ninputs: {prompt: 'say {{home}}'}\n",
		"mine.yaml":  adaptedAgent,
		"model.yaml": "turns: [{say: hello}]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e, tasks, err := eval.Load(filepath.Join(dir, "eval.yaml"), eval.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) { return "a-secret-key", strings.HasSuffix(name, "_API_KEY") }
	trials, err := Plan(e, tasks, Choices{
		Lookup: lookup, Secrets: &secret.Set{},
		ModelScript: func(string, []byte) (ModelScript, error) { return nil, nil },
	})
	if err != nil {
		return nil, err
	}
	return trials[1], nil // what the first was given is not given to the second once more
}

func TestAdaptedLaunch(t *testing.T) {
	trial, err := planAdapted(t, "  model: big/m-1\n  models: {big: {kind: openai, base_url: 'https://models.example/v1'}}\n  isolation: {agent: {env: {MINE_LEVEL: high}}}\n")
	if err != nil {
		t.Fatal(err)
	}
	l, err := trial.Launch(sandbox.ContainerLayout(), map[string]string{"files": "files"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mine", "--model=m-1", "say {{home}}", "--openai"}, l.Process.Args); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{
		"HOME=/home/agent", "MINE_URL=http://model/big", "MINE_DIR=/workspace", "MINE_LEVEL=high", "MINE_KIND=openai",
	} {
		if !slices.Contains(l.Process.Env, want) {
			t.Errorf("no %s in %q", want, l.Process.Env)
		}
	}
	if len(l.Files) != 1 || l.Files[0].Path != "/home/agent/.mine/mcp.json" || !strings.Contains(string(l.Files[0].Content), `"httpUrl": "http://files/mcp"`) {
		t.Errorf("files %+v", l.Files)
	}
	if all := strings.Join(l.Process.Env, " ") + string(trial.JSON()); strings.Contains(all, "a-secret-key") {
		t.Error("the key is in what the agent gets, or in the plan")
	}
	if got := trial.Agent.Adapted.ExitCodes[3]; got != "it gave up" || trial.Agent.Image != "example/mine" {
		t.Errorf("%q, image %s", got, trial.Agent.Image)
	}
}

func TestAdaptedAgentAsksItsKindOfProvider(t *testing.T) {
	for name, tc := range map[string]struct{ config, want string }{
		"of a kind it knows":  {"  model: m\n  models: {openai: {}}", "--openai"},
		"a script speaks all": {"  model: m\n  models: {stub: {script: model.yaml}}", "--google"},
		"none is named":       {"  model: m", "--google"}, // by the key in the environment
		"of another kind":     {"  model: m\n  models: {anthropic: {}}", "error: Mine asks providers of kind google or openai, and config.models.anthropic is of kind anthropic; name another provider in config.model"},
		"no model":            {"  models: {openai: {}}", "error: Mine needs to know which model to ask: name it in config.model or with --model"},
	} {
		trial, err := planAdapted(t, tc.config+"\n")
		if err != nil {
			if got := "error: " + err.Error(); got != tc.want {
				t.Errorf("%s: %s", name, got)
			}
			continue
		}
		if !slices.Contains(trial.Agent.Command, tc.want) {
			t.Errorf("%s: %q", name, trial.Agent.Command)
		}
	}
}
