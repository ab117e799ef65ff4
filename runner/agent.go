package runner

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/runner/cmdmock"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Where an agent's prompt and transcript lie in its box, out of the workspace.
const (
	promptPath     = sandbox.HomeDir + "/prompt.md"
	transcriptPath = sandbox.HomeDir + "/transcript/transcript.jsonl"
)

// launch is how an agent is started: its program, what it reads on stdin, and
// files it finds.
type launch struct {
	process process.Spec
	stdin   []byte
	files   []File // absolute paths
}

// launch says how to start the agent, which finds servers at hosts. A new agent of ours
// goes here and into planAgent; one that is a program is a file of agents/adapter.
func (t *Trial) launch(box sandbox.Layout, hosts map[string]string) (launch, error) {
	a, values := t.Agent, t.values(box, hosts)
	l := launch{process: process.Spec{Env: agentEnv(t, box, values), Dir: box.At(a.Dir), PathFirst: t.commandsIn(box)}, files: a.homeFiles(values)}
	for _, arg := range a.Command {
		l.process.Args = append(l.process.Args, adapter.Fill(arg, values))
	}
	if a.Transcript != "" {
		l.files = append(l.files, fileOf(a.Transcript, ""))
	}
	switch a.Executor {
	case agents.Mock, agents.Script, agents.LLM:
		input, err := json.Marshal(agents.Input{
			Prompt: a.Prompt, Turns: t.takesTurns(), Context: a.Context, Script: a.Script,
			Files: len(t.Files), Workspace: box.Workspace, MCPConfig: box.MCPConfig, Transcript: box.At(a.Transcript),
			Dir: l.process.Dir, LLM: a.LLM, Model: a.Model, Effort: a.Effort, ModelURL: modelURL(t, box), Skills: skillsFor(t, box),
		})
		l.process.Args = []string{box.Guest, "agent", a.Executor}
		l.stdin = input
		return l, err
	default:
		l.givePrompt(a, box.At(promptPath))
		return l, nil
	}
}

// givePrompt hands the prompt over as the eval asks: in a file, as an argument,
// or on stdin. A file that is named in an argument is always there; the agent
// finds it at promptFile.
func (l *launch) givePrompt(a Agent, promptFile string) {
	named := func(arg string) bool { return strings.Contains(arg, promptFileArg) }
	if a.PromptBy == "file" || slices.ContainsFunc(l.process.Args, named) {
		l.files = append(l.files, fileOf(promptPath, a.Prompt))
	}
	switch {
	case a.PromptBy == "stdin":
		l.stdin = []byte(a.Prompt)
	case a.PromptBy == "argument" && !slices.Contains(l.process.Args, promptArg):
		l.process.Args = append(l.process.Args, promptArg)
	}
	for i, arg := range l.process.Args {
		if arg == promptArg {
			l.process.Args[i] = a.Prompt
			continue
		}
		l.process.Args[i] = strings.ReplaceAll(arg, promptFileArg, promptFile)
	}
}

// Words in an agent's arguments that stand for its prompt.
const (
	promptArg     = "{{prompt}}"
	promptFileArg = "{{prompt_file}}"
)

// environment is what the agent finds in its environment where servers are found at hosts.
func (t *Trial) environment(box sandbox.Layout, hosts map[string]string) []string {
	return agentEnv(t, box, t.values(box, hosts))
}

// agentEnv is what every agent finds in its environment, beside what the image
// and the eval set.
func agentEnv(t *Trial, box sandbox.Layout, values map[string]string) []string {
	env := map[string]string{
		"WAZA_WORKSPACE":  box.Workspace,
		"WAZA_MCP_CONFIG": box.MCPConfig,
		"WAZA_TASK":       t.Task,
		"WAZA_MODEL":      t.Agent.Model,
	}
	if t.Agent.Effort != "" {
		env["WAZA_REASONING_EFFORT"] = t.Agent.Effort
	}
	if len(t.Skills) > 0 {
		env["WAZA_SKILLS"] = box.At(sandbox.SkillsDir)
	}
	if url := modelURL(t, box); url != "" {
		env["WAZA_MODEL_URL"] = url
	}
	if len(t.Commands) > 0 {
		env[cmdmock.Variable] = box.Models + cmdmock.Path
	}
	if box.Home != "" {
		env["HOME"] = box.Home
	}
	if t.Agent.Context != nil {
		env["WAZA_CONTEXT"] = string(t.Agent.Context)
	}
	maps.Copy(env, egress.Env(t.Agent.Egress, t.agentNames()))
	maps.Copy(env, t.Agent.adaptedEnv(values, box))
	maps.Copy(env, t.Agent.Env)
	var list []string
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	return list
}

// Places of an agent's final output that are no file in the workspace.
const (
	outputStdout     = adapter.Stdout
	outputTranscript = adapter.Transcript // all messages of it
)

// outputFile is the file that holds the agent's final output, or "" for none.
func (a Agent) outputFile() string {
	switch a.Output {
	case "", outputStdout, outputTranscript:
		return ""
	}
	return path.Clean(a.Output)
}
