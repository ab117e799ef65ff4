package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/agents/llm"
	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// Agent is the program under evaluation and its container.
type Agent struct {
	sandbox.Container
	Executor string            `json:"executor"`
	Model    string            `json:"model,omitempty"`
	Effort   string            `json:"reasoning_effort,omitempty"` // of the model; empty leaves it to that
	Command  []string          `json:"command,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir"`
	Prompt   string            `json:"prompt"`
	// FollowUps are prompts behind the first, each of a run with Continue in place of Command,
	// which goes on with the conversation; agents of ours wait for them.
	FollowUps []string        `json:"follow_up_prompts,omitempty"`
	Responder *eval.Responder `json:"responder,omitempty"` // who answers the agent in their place; nil for nobody
	Continue  []string        `json:"continue,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`   // the task's, as it finds it in WAZA_CONTEXT
	PromptBy  string          `json:"prompt_by,omitempty"` // file, argument or stdin
	Output    string          `json:"output,omitempty"`    // stdout, or a file in the workspace
	// Transcript is where the agent leaves what it says it did; empty for none.
	Transcript string `json:"transcript,omitempty"`
	// Events is where the transcript of an agent that is somebody's program is, and how that is
	// read; nil for nowhere.
	Events *transcript.Source `json:"events,omitempty"`
	// SkillsAt is where in the workspace it finds the trial's skills.
	SkillsAt string `json:"skills_at,omitempty"`
	// LLM is how the loop of executor llm goes; nil for other executors.
	LLM *llm.Settings `json:"llm,omitempty"`
	// MaxOutput is how many bytes each of stdout and stderr may have, and MaxCalls how
	// often the agent may call a tool; 0 for the defaults.
	MaxOutput int64 `json:"max_output,omitempty"`
	MaxCalls  int64 `json:"max_calls,omitempty"`
	// Egress is what its programs may reach outside of the trial, through the runner.
	Egress []mcpconfig.Destination `json:"egress,omitempty"`
	// Script is handed to the agent beside the prompt, for executor script.
	Script json.RawMessage `json:"-"`

	// Adapted is how an agent with an adapter is run, beside all of this; nil for others.
	Adapted *Adapted `json:"adapted,omitempty"`
	// Package names what the agent's image is built from, where it is built; Build is
	// that image, which is Image once the package is resolved.
	Package string        `json:"package,omitempty"`
	Build   *images.Image `json:"-"`
}

// Places of an agent's final output that are no file in the workspace.
const (
	OutputStdout     = adapter.Stdout
	OutputTranscript = adapter.Transcript // all messages of it
)

// OutputFile is the file that holds the agent's final output, or "" for none.
func (a Agent) OutputFile() string {
	switch a.Output {
	case "", OutputStdout, OutputTranscript:
		return ""
	}
	return path.Clean(a.Output)
}

// planAgent plans the agent of a task.
func planAgent(e *eval.Eval, task eval.ResolvedTask, c Choices) (Agent, error) {
	declared := e.Config.Isolation.Agent
	container, err := sized(sandbox.Container{
		Image: declared.Image, User: declared.User, Pull: cmp.Or(c.Pull, e.Config.Isolation.Pull),
		Memory: defaultAgentMemory, Disk: defaultAgentDisk,
	}, declared.Limits)
	if err != nil {
		return Agent{}, err
	}
	allowed, err := readEgress(declared.Egress)
	if err != nil {
		return Agent{}, err
	}
	preface, err := prefaceOf(e, task)
	if err != nil {
		return Agent{}, err
	}
	task.Prompt = prefaced(e.Config.Executor, preface, task.Prompt)
	a := Agent{
		Container: container, Executor: e.Config.Executor, Model: e.Config.Model, Effort: e.Config.ReasoningEffort,
		Dir: path.Join(sandbox.WorkspaceDir, cmp.Or(task.Workdir, declared.Workdir)), Prompt: task.Prompt,
		FollowUps: task.FollowUps, Responder: task.Responder,
		Env: task.Env, Script: task.Script, MaxCalls: int64(declared.MaxCalls), Egress: allowed,
	}
	if err := readSize(&a.MaxOutput, declared.MaxOutput); err != nil {
		return a, err
	}
	if task.Context != nil {
		if a.Context, err = json.Marshal(task.Context); err != nil {
			return a, fmt.Errorf("inputs.context: %w", err)
		}
	}
	switch a.Executor {
	case agents.Mock, agents.Script, agents.LLM:
		a.Transcript = TranscriptPath
		if a.Executor == agents.LLM {
			a.LLM = settingsOf(e)
			a.LLM.System = strings.TrimSpace(preface + "\n\n" + a.LLM.System)
		}
	default:
		if e.Adapter != nil {
			return a, a.adapt(e, task, c)
		}
		if err := fitsArgument(task, e.Config.Agent.Prompt, a.Context); err != nil {
			return a, err
		}
		program := e.Config.Agent
		a.Command = append([]string{program.Command}, program.Args...)
		if program.Continue != nil {
			a.Continue = append([]string{program.Command}, program.Continue...)
		}
		if err := a.canContinue("config.agent.continue"); err != nil {
			return a, err
		}
		a.PromptBy = cmp.Or(program.Prompt, "argument")
		a.Output = cmp.Or(program.Output, OutputStdout)
		a.Events = program.Transcript
	}
	return a, nil
}

// maxArgument is the longest argument or variable that Linux gives a program
// (execve(2), MAX_ARG_STRLEN), less room for a name.
const maxArgument = 128<<10 - 256

// fitsArgument refuses a prompt or a context that no program can be given.
func fitsArgument(task eval.ResolvedTask, promptBy string, context []byte) error {
	for _, prompt := range append([]string{task.Prompt}, task.FollowUps...) {
		if cmp.Or(promptBy, "argument") == "argument" && len(prompt) > maxArgument {
			return fmt.Errorf("a prompt of %d bytes is too long for an argument; set config.agent.prompt to file or stdin", len(prompt))
		}
	}
	if len(context) > maxArgument {
		return fmt.Errorf("inputs.context of %d bytes is too long for a variable; put it into a file", len(context))
	}
	return nil
}

// DefaultOutput is how many bytes each of the agent's outputs may have.
const DefaultOutput = 64 << 20

// OutputLimit is how many bytes each of the agent's outputs may have.
func (a Agent) OutputLimit() int64 { return cmp.Or(a.MaxOutput, DefaultOutput) }

// canContinue checks that a program with follow-up prompts can continue a conversation. key
// names the setting for the message.
func (a Agent) canContinue(key string) error {
	if (len(a.FollowUps) > 0 || a.Responder != nil) && len(a.Continue) == 0 {
		return fmt.Errorf("inputs.follow_up_prompts and inputs.responder need an agent that goes on with a conversation: say how in %s", key)
	}
	return nil
}

// prefaceOf is the instructions that go before a task: those of its files and, where the eval
// wants that, those of the skill under evaluation, or to invoke it.
func prefaceOf(e *eval.Eval, task eval.ResolvedTask) (string, error) {
	parts := slices.Clone(task.Instructions)
	i := slices.IndexFunc(task.Skills, func(s eval.Skill) bool { return s.Name == e.Skill })
	if e.Config.InjectSkillBody && i >= 0 {
		body, err := task.Skills[i].Body()
		if err != nil {
			return "", fmt.Errorf("inject_skill_body: %w", err)
		}
		parts = append(parts, body)
	} else if e.Config.SkillRouting && i >= 0 {
		parts = append(parts, fmt.Sprintf("Before anything else, see whether the task is one that the skill %s is for. Where it is, invoke that skill; where it is not, do without.", e.Skill))
	}
	return strings.Join(parts, "\n\n"), nil
}

// prefaced is the prompt of an agent that is somebody's program, behind the preface. Executor
// llm has that in its system prompt, and mock and script follow no instructions.
func prefaced(executor, preface, prompt string) string {
	if preface == "" || agents.IsOurs(executor) {
		return prompt
	}
	return preface + "\n\n" + prompt
}

// settingsOf is how the loop of executor llm goes in an eval.
func settingsOf(e *eval.Eval) *llm.Settings {
	settings := new(llm.Settings)
	if e.Config.LLM != nil {
		*settings = llm.Settings(*e.Config.LLM)
	}
	return settings
}

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
	a.Command, a.Continue, a.Events = slices.Clone(from.Command), slices.Clone(from.Continue), from.Transcript
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
	a.Output = cmp.Or(from.Output, OutputStdout)
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

// adaptImage plans the image of the agent's container, unless the eval names one.
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

// askModels has an adapted agent ask the provider of its model. One that is a script
// speaks what the agent would rather.
func (a *Agent) askModels(from *adapter.Adapter, models *Models) error {
	if from == nil || len(from.Models) == 0 || models == nil {
		return nil
	}
	if models.Model == "" {
		return fmt.Errorf("%s needs to know which model to ask: name it in config.model or with --model", from.Title)
	}
	provider := models.chosen()
	how, ok := from.ModelOf(provider.Kind)
	if provider.Script != "" {
		how, ok = from.Models[0], true
	}
	if !ok {
		return fmt.Errorf("%s asks providers of kind %s, and config.models.%s is of kind %s; name another provider in config.model", from.Title, strings.Join(from.Kinds(), " or "), provider.Name, provider.Kind)
	}
	a.Command = append(a.Command, how.Args...)
	if a.Continue != nil {
		a.Continue = append(a.Continue, how.Args...)
	}
	if a.Adapted.Env == nil {
		a.Adapted.Env = map[string]string{}
	}
	maps.Copy(a.Adapted.Env, how.Env)
	return nil
}

// respond checks that a model can play the agent's user, if one is to. It is asked where
// graders ask theirs.
func (a *Agent) respond(judge *evidence.Judge) error {
	if a.Responder == nil {
		return nil
	}
	own := *a.Responder
	if own.Model = cmp.Or(own.Model, judge.Model); own.Model == "" {
		return errors.New("inputs.responder: nobody says which model plays the user; name it in inputs.responder.model or in config.model")
	}
	a.Responder = &own
	onStdout := cmp.Or(a.Output, OutputStdout) == OutputStdout || a.Output == OutputTranscript && a.Events.From == "stdout"
	if !onStdout {
		return errors.New("inputs.responder: what the agent says has to come on stdout, itself or as its transcript")
	}
	return nil
}
