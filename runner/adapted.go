package runner

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// Adapted is what an adapter says of an agent that no other agent has. Its strings, and
// those of the command, may hold templates: some of what they stand for is known only
// when the agent is started.
type Adapted struct {
	Name      string            `json:"name"`
	Title     string            `json:"title"`
	Env       map[string]string `json:"env,omitempty"`   // below the agent's own
	Home      map[string]string `json:"home,omitempty"`  // files below home, by path
	Shape     mcpconfig.Shape   `json:"shape,omitempty"` // of servers in them
	ExitCodes map[int]string    `json:"exit_codes,omitempty"`
}

// adapt plans an agent that the eval's adapter says how to run.
func (a *Agent) adapt(e *eval.Eval, task eval.ResolvedTask, c Choices) error {
	from := e.Adapter
	a.PromptBy = cmp.Or(from.Prompt, "argument")
	if err := fitsArgument(task, a.PromptBy, a.Context); err != nil {
		return err
	}
	a.Command, a.Continue, a.Tells = slices.Clone(from.Command), slices.Clone(from.Continue), from.Transcript
	for _, arg := range from.Effort {
		if a.Effort == "" {
			break
		}
		arg = adapter.Fill(arg, map[string]string{adapter.Effort: a.Effort})
		if a.Command = append(a.Command, arg); a.Continue != nil {
			a.Continue = append(a.Continue, arg)
		}
	}
	if err := a.canContinue("continue in the adapter"); err != nil {
		return err
	}
	a.Output = cmp.Or(from.Output, outputStdout)
	a.Adapted = &Adapted{Name: from.Name, Title: from.Title, Env: maps.Clone(from.Env), Home: from.Files, Shape: from.MCP}
	if len(from.ExitCodes) > 0 {
		a.Adapted.ExitCodes = make(map[int]string, len(from.ExitCodes))
	}
	for code, meaning := range from.ExitCodes {
		number, err := strconv.Atoi(code)
		if err != nil {
			return fmt.Errorf("exit code %q: %w", code, err)
		}
		a.Adapted.ExitCodes[number] = meaning
	}
	return a.adaptImage(e, c)
}

// adaptImage plans the image of the agent's box, unless the eval names one.
func (a *Agent) adaptImage(e *eval.Eval, c Choices) error {
	if e.Local || a.Image != "" {
		return nil
	}
	build, err := agentImage(e, c.Lock)
	if err != nil || build == nil {
		a.Image = e.Adapter.Image
		return err
	}
	a.Build, a.Package, a.Image = build, build.String(), build.Tag()
	return nil
}

// agentImage is the image that is built for the eval's agent; nil for none. Packages of
// an agent that comes with waza have a lock of their own.
func agentImage(e *eval.Eval, lock *images.Lock) (*images.Image, error) {
	if e.Adapter == nil || e.Local || e.Config.Isolation.Agent.Image != "" {
		return nil, nil
	}
	if e.Config.Executor != "command" {
		lock = adapter.Lock()
	}
	return e.Adapter.Build(bases(e), lock)
}

// askModels has an adapted agent ask the provider of its model. One that is a script
// speaks what the agent would rather.
func (t *Trial) askModels(from *adapter.Adapter) error {
	if from == nil || len(from.Models) == 0 || t.Models == nil {
		return nil
	}
	if t.Models.Model == "" {
		return fmt.Errorf("%s needs to know which model to ask: name it in config.model or with --model", from.Title)
	}
	provider := t.Models.chosen()
	how, ok := from.ModelOf(provider.Kind)
	if provider.Script != "" {
		how, ok = from.Models[0], true
	}
	if !ok {
		return fmt.Errorf("%s asks providers of kind %s, and config.models.%s is of kind %s; name another provider in config.model", from.Title, strings.Join(from.Kinds(), " or "), provider.Name, provider.Kind)
	}
	t.Agent.Command = append(t.Agent.Command, how.Args...)
	if t.Agent.Continue != nil {
		t.Agent.Continue = append(t.Agent.Continue, how.Args...)
	}
	if t.Agent.Adapted.Env == nil {
		t.Agent.Adapted.Env = map[string]string{}
	}
	maps.Copy(t.Agent.Adapted.Env, how.Env)
	return nil
}

// values are what templates of t's adapter stand for, where servers are found at hosts;
// nil where it has none. The prompt's own are left to givePrompt, since a prompt may hold
// anything.
func (t *Trial) values(box sandbox.Layout, hosts map[string]string) map[string]string {
	a := t.Agent
	if a.Adapted == nil {
		return nil
	}
	values := map[string]string{
		adapter.Workspace: box.Workspace, adapter.Home: box.Private, adapter.MCPConfig: box.MCPConfig,
		adapter.MCPServers: a.Adapted.Shape.Servers(hosts),
	}
	if t.Models != nil {
		values[adapter.ModelName], values[adapter.ModelURL] = t.Models.Model, modelURL(t, box)
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
		files = append(files, fileOf(path.Join(sandbox.HomeDir, name), adapter.Fill(a.Adapted.Home[name], values)))
	}
	return files
}

// adaptedEnv is the environment of an adapted agent, below its own. Its home is the
// trial's, wherever it runs.
func (a Agent) adaptedEnv(values map[string]string, box sandbox.Layout) map[string]string {
	if a.Adapted == nil {
		return nil
	}
	env := map[string]string{"HOME": box.Private}
	for name, value := range a.Adapted.Env {
		env[name] = adapter.Fill(value, values)
	}
	return env
}
