package plan

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/cmdmock"
	"github.com/waza-isolate/waza/sandbox/process"
)

// Paths of an agent's prompt and transcript in its container, outside of the workspace.
const (
	PromptPath     = sandbox.HomeDir + "/prompt.md"
	TranscriptPath = sandbox.HomeDir + "/transcript/transcript.jsonl"
)

// Launch contains everything to start an agent with: its process, its stdin and files.
type Launch struct {
	Process process.Spec
	Stdin   []byte
	Files   []File // by absolute path
}

// Launch returns how to start the agent. hosts are the addresses of servers by name. early are
// the servers that are known not to support server/discover. New built-in agents are added here
// and in planAgent; others are a file in agents/adapter.
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
	case evidence.ExecutorMock, evidence.ExecutorScript, evidence.ExecutorLLM:
		in := input.Input{
			Prompt: a.Prompt, Turns: t.TakesTurns(), Context: a.Context, Script: a.Script,
			Workspace: container.Workspace, MCPConfig: container.MCPConfig, Early: early, Transcript: container.At(a.Transcript),
			Dir: l.Process.Dir, LLM: a.LLM, Model: a.Model, Effort: a.Effort, ModelURL: modelURL(t, container), Skills: skillsFor(t, container),
		}
		if a.Executor == evidence.ExecutorMock {
			t.describe(&in)
		}
		if len(t.Answers) > 0 {
			in.Answers = &input.Answers{URL: container.Models + input.AnswersPath, Kinds: t.Answers.Kinds()}
		}
		stdin, err := json.Marshal(in)
		l.Process.Args = []string{container.Guest, "agent", a.Executor}
		l.Stdin = stdin
		return l, err
	default:
		l.givePrompt(a, container.At(PromptPath))
		return l, nil
	}
}

// describe adds the task's name, description and files.
func (t *Trial) describe(in *input.Input) {
	if t.TaskName != t.Task {
		in.TaskName = t.TaskName
	}
	in.Description = t.About
	for _, f := range t.Files {
		in.Files = append(in.Files, f.Path)
	}
}

// givePrompt passes the prompt to the agent: in a file, as an argument or on stdin. A file that
// an argument names is always written. Its path in the container is promptFile.
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

// Placeholders for the prompt in an agent's arguments.
const (
	promptArg     = "{{prompt}}"
	promptFileArg = "{{prompt_file}}"
)

// Environment returns the agent's environment. hosts are the addresses of servers by name.
func (t *Trial) Environment(container sandbox.Layout, hosts map[string]string) []string {
	return agentEnv(t, container, t.values(container, hosts))
}

// agentEnv returns the environment variables that waza sets for an agent, merged with those of
// the eval.
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

// values returns the values of templates in the agent's adapter, or nil if it has none. The
// prompt is handled by givePrompt, since it may itself contain templates.
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

// homeFiles returns the files in the home directory of an adapted agent.
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

// adaptedEnv returns the environment of an adapted agent, except for its own. HOME is a
// directory of the trial on every backend.
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

// CommandsDir is the directory of mocked commands in the agent's container.
const CommandsDir = sandbox.HomeDir + "/commands"

// commandsIn returns the directory that comes first in a container's PATH, or "".
func (t *Trial) commandsIn(container sandbox.Layout) string {
	if len(t.Commands) == 0 {
		return ""
	}
	return container.At(CommandsDir)
}

// skillsFor returns the skills for executor llm.
func skillsFor(t *Trial, container sandbox.Layout) []input.Skill {
	var all []input.Skill
	for _, s := range t.Skills {
		all = append(all, input.Skill{Name: s.Name, Description: s.Description, Dir: container.At(path.Join(sandbox.SkillsDir, s.Name))})
	}
	return all
}

// modelURL returns the base URL of the model's provider as the agent reaches it, or "".
func modelURL(t *Trial, container sandbox.Layout) string {
	if t.Models == nil {
		return ""
	}
	return container.Models + "/" + t.Models.Provider
}
