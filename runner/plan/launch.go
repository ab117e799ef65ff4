package plan

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/agents/llm"
	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/runner/cmdmock"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Where an agent's prompt and transcript lie in its container, out of the workspace.
const (
	PromptPath     = sandbox.HomeDir + "/prompt.md"
	TranscriptPath = sandbox.HomeDir + "/transcript/transcript.jsonl"
)

// Launch is how an agent is started: its program, what it reads on stdin, and
// files it finds.
type Launch struct {
	Process process.Spec
	Stdin   []byte
	Files   []File // absolute paths
}

// Launch says how to start the agent, which finds servers at hosts, those that early names being
// known not to answer server/discover. A new agent of ours
// goes here and into planAgent; one that is a program is a file of agents/adapter.
func (t *Trial) Launch(container sandbox.Layout, hosts map[string]string, early []string) (Launch, error) {
	a, values := t.Agent, t.values(container, hosts)
	l := Launch{Process: process.Spec{Env: agentEnv(t, container, values), Dir: container.At(a.Dir), PathFirst: t.commandsIn(container)}, Files: a.homeFiles(values)}
	for _, arg := range a.Command {
		l.Process.Args = append(l.Process.Args, adapter.Fill(arg, values))
	}
	if a.Transcript != "" {
		l.Files = append(l.Files, NewFile(a.Transcript, ""))
	}
	switch a.Executor {
	case agents.Mock, agents.Script, agents.LLM:
		input, err := json.Marshal(agents.Input{
			Prompt: a.Prompt, Turns: t.TakesTurns(), Context: a.Context, Script: a.Script,
			Files: len(t.Files), Workspace: container.Workspace, MCPConfig: container.MCPConfig, Early: early, Transcript: container.At(a.Transcript),
			Dir: l.Process.Dir, LLM: a.LLM, Model: a.Model, Effort: a.Effort, ModelURL: modelURL(t, container), Skills: skillsFor(t, container),
		})
		l.Process.Args = []string{container.Guest, "agent", a.Executor}
		l.Stdin = input
		return l, err
	default:
		l.givePrompt(a, container.At(PromptPath))
		return l, nil
	}
}

// givePrompt hands the prompt over as the eval asks: in a file, as an argument,
// or on stdin. A file that is named in an argument is always there; the agent
// finds it at promptFile.
func (l *Launch) givePrompt(a Agent, promptFile string) {
	named := func(arg string) bool { return strings.Contains(arg, promptFileArg) }
	if a.PromptBy == "file" || slices.ContainsFunc(l.Process.Args, named) {
		l.Files = append(l.Files, NewFile(PromptPath, a.Prompt))
	}
	switch {
	case a.PromptBy == "stdin":
		l.Stdin = []byte(a.Prompt)
	case a.PromptBy == "argument" && !slices.Contains(l.Process.Args, promptArg):
		l.Process.Args = append(l.Process.Args, promptArg)
	}
	for i, arg := range l.Process.Args {
		if arg == promptArg {
			l.Process.Args[i] = a.Prompt
			continue
		}
		l.Process.Args[i] = strings.ReplaceAll(arg, promptFileArg, promptFile)
	}
}

// Words in an agent's arguments that stand for its prompt.
const (
	promptArg     = "{{prompt}}"
	promptFileArg = "{{prompt_file}}"
)

// Environment is what the agent finds in its environment where servers are found at hosts.
func (t *Trial) Environment(container sandbox.Layout, hosts map[string]string) []string {
	return agentEnv(t, container, t.values(container, hosts))
}

// agentEnv is what every agent finds in its environment, in addition to what the image
// and the eval set.
func agentEnv(t *Trial, container sandbox.Layout, values map[string]string) []string {
	env := map[string]string{
		"WAZA_WORKSPACE":  container.Workspace,
		"WAZA_MCP_CONFIG": container.MCPConfig,
		"WAZA_TASK":       t.Task,
		"WAZA_MODEL":      t.Agent.Model,
	}
	if t.Agent.Effort != "" {
		env["WAZA_REASONING_EFFORT"] = t.Agent.Effort
	}
	if len(t.Skills) > 0 {
		env["WAZA_SKILLS"] = container.At(sandbox.SkillsDir)
	}
	if url := modelURL(t, container); url != "" {
		env["WAZA_MODEL_URL"] = url
	}
	if len(t.Commands) > 0 {
		env[cmdmock.Variable] = container.Models + cmdmock.Path
	}
	if container.Home != "" {
		env["HOME"] = container.Home
	}
	if t.Agent.Context != nil {
		env["WAZA_CONTEXT"] = string(t.Agent.Context)
	}
	maps.Copy(env, egress.Env(t.Agent.Egress, t.agentNames()))
	maps.Copy(env, t.Agent.adaptedEnv(values, container))
	maps.Copy(env, t.Agent.Env)
	var list []string
	for _, key := range slices.Sorted(maps.Keys(env)) {
		list = append(list, key+"="+env[key])
	}
	return list
}

// values are what templates of t's adapter stand for, where servers are found at hosts;
// nil where it has none. The prompt's own are left to givePrompt, since a prompt may hold
// anything.
func (t *Trial) values(container sandbox.Layout, hosts map[string]string) map[string]string {
	a := t.Agent
	if a.Adapted == nil {
		return nil
	}
	values := map[string]string{
		adapter.Workspace: container.Workspace, adapter.Home: container.Private, adapter.MCPConfig: container.MCPConfig,
		adapter.MCPServers: a.Adapted.Shape.Servers(hosts),
	}
	if t.Models != nil {
		values[adapter.ModelName], values[adapter.ModelURL] = t.Models.Model, modelURL(t, container)
	}
	return values
}

// homeFiles are the files that an adapted agent finds below home.
func (a Agent) homeFiles(values map[string]string) []File {
	if a.Adapted == nil {
		return nil
	}
	var files []File
	for _, name := range slices.Sorted(maps.Keys(a.Adapted.Home)) {
		files = append(files, NewFile(path.Join(sandbox.HomeDir, name), adapter.Fill(a.Adapted.Home[name], values)))
	}
	return files
}

// adaptedEnv is the environment of an adapted agent, below its own. Its home is the
// trial's, wherever it runs.
func (a Agent) adaptedEnv(values map[string]string, container sandbox.Layout) map[string]string {
	if a.Adapted == nil {
		return nil
	}
	env := map[string]string{"HOME": container.Private}
	for name, value := range a.Adapted.Env {
		env[name] = adapter.Fill(value, values)
	}
	return env
}

// CommandsDir is where the agent's container has the programs that are played.
const CommandsDir = sandbox.HomeDir + "/commands"

// commandsIn is the directory in a container in which programs are looked for first; empty for none.
func (t *Trial) commandsIn(container sandbox.Layout) string {
	if len(t.Commands) == 0 {
		return ""
	}
	return container.At(CommandsDir)
}

// skillsFor are the skills as the loop of executor llm finds them.
func skillsFor(t *Trial, container sandbox.Layout) []llm.Skill {
	var all []llm.Skill
	for _, s := range t.Skills {
		all = append(all, llm.Skill{Name: s.Name, Description: s.Description, Dir: container.At(path.Join(sandbox.SkillsDir, s.Name))})
	}
	return all
}

// modelURL is the base URL of the provider that has the agent's model, as the agent
// reaches it; empty where it has none.
func modelURL(t *Trial, container sandbox.Layout) string {
	if t.Models == nil {
		return ""
	}
	return container.Models + "/" + t.Models.Provider
}
