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
	"github.com/waza-isolate/waza/agents/input"
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
	Effort   string            `json:"reasoning_effort,omitempty"` // reasoning effort of the model; empty for its default
	Command  []string          `json:"command,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"dir"`
	Prompt   string            `json:"prompt"`
	// FollowUps are the prompts after the first. A built-in agent reads them from stdin; other
	// agents are run again for each, with Continue instead of Command, to continue the
	// conversation.
	FollowUps []string        `json:"follow_up_prompts,omitempty"`
	Responder *eval.Responder `json:"responder,omitempty"` // a model that replies to the agent instead of FollowUps; may be nil
	Continue  []string        `json:"continue,omitempty"`
	Context   json.RawMessage `json:"context,omitempty"`   // the task's context, for WAZA_CONTEXT
	PromptBy  string          `json:"prompt_by,omitempty"` // file, argument or stdin
	Output    string          `json:"output,omitempty"`    // stdout, or a file in the workspace
	// Transcript is the path of the transcript that the agent writes; empty for none.
	Transcript string `json:"transcript,omitempty"`
	// Events is where a custom agent writes its transcript, and its format; may be nil.
	Events *transcript.Source `json:"events,omitempty"`
	// SkillsAt is the directory of the workspace in which the agent looks for skills.
	SkillsAt string `json:"skills_at,omitempty"`
	// LLM configures executor llm; nil for other executors.
	LLM *input.LLM `json:"llm,omitempty"`
	// MaxOutput is the maximum size in bytes of each of stdout and stderr. MaxCalls is the
	// maximum number of tool calls. 0 means the default.
	MaxOutput int64 `json:"max_output,omitempty"`
	MaxCalls  int64 `json:"max_calls,omitempty"`
	// Egress are the hosts outside that its programs may reach through the runner.
	Egress []mcpconfig.Destination `json:"egress,omitempty"`
	// Script is the script of executor script.
	Script json.RawMessage `json:"-"`

	// Adapted are settings from the agent's adapter; nil if it has none.
	Adapted *Adapted `json:"adapted,omitempty"`
	// Package describes what the agent's image is built from, if it is built. Build is that
	// image. Image is set to it once the package is resolved.
	Package string        `json:"package,omitempty"`
	Build   *images.Image `json:"-"`
}

// Values of Agent.Output that are not a file of the workspace.
const (
	OutputStdout     = adapter.Stdout
	OutputTranscript = adapter.Transcript // all messages of the transcript
)

// OutputFile returns the file of the workspace with the agent's final output, or "".
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
	case evidence.ExecutorMock, evidence.ExecutorScript, evidence.ExecutorLLM:
		a.Transcript = TranscriptPath
		if a.Executor == evidence.ExecutorLLM {
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

// maxArgument is the maximum length of an argument or environment variable on Linux (execve(2),
// MAX_ARG_STRLEN), less space for a name.
const maxArgument = 128<<10 - 256

// fitsArgument returns an error if a prompt or context is too long to pass to a program.
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

// DefaultOutput is the default limit of each of the agent's outputs, in bytes.
const DefaultOutput = 64 << 20

// OutputLimit returns the limit of each of the agent's outputs, in bytes.
func (a Agent) OutputLimit() int64 { return cmp.Or(a.MaxOutput, DefaultOutput) }

// canContinue returns an error if an agent with several prompts has no command to continue a
// conversation. key is the name of that setting.
func (a Agent) canContinue(key string) error {
	if (len(a.FollowUps) > 0 || a.Responder != nil) && len(a.Continue) == 0 {
		return fmt.Errorf("inputs.follow_up_prompts and inputs.responder need an agent that goes on with a conversation: say how in %s", key)
	}
	return nil
}

// prefaceOf returns the instructions that precede the prompt: those of the task's files and, if the
// eval says so, the body of the skill under evaluation or a request to invoke it.
func prefaceOf(e *eval.Eval, task eval.ResolvedTask) (string, error) {
	parts := slices.Clone(task.Instructions)
	if skill, ok := e.Injected(task.Skills, task.Trigger); ok {
		body, err := skill.Body()
		if err != nil {
			return "", fmt.Errorf("inject_skill_body: %w", err)
		}
		parts = append(parts, body)
	} else if e.Config.SkillRouting && slices.ContainsFunc(task.Skills, func(s eval.Skill) bool { return s.Is(e.Skill) }) {
		parts = append(parts, fmt.Sprintf("Before anything else, see whether the task is one that the skill %s is for. Where it is, invoke that skill; where it is not, do without.", e.Skill))
	}
	return strings.Join(parts, "\n\n"), nil
}

// prefaced returns the prompt with the preface. For built-in agents it returns the prompt: llm
// has the preface in its system prompt, and mock and script do not follow instructions.
func prefaced(executor, preface, prompt string) string {
	if preface == "" || agents.IsOurs(executor) {
		return prompt
	}
	return preface + "\n\n" + prompt
}

// settingsOf returns the settings of executor llm in an eval.
func settingsOf(e *eval.Eval) *input.LLM {
	settings := new(input.LLM)
	if e.Config.LLM != nil {
		*settings = *e.Config.LLM
	}
	return settings
}

// Adapted contains settings that only agents with an adapter have. Its strings, and those of
// the command, may contain templates. Some of their values are known only when the agent is
// started.
type Adapted struct {
	Name      string            `json:"name"`
	Title     string            `json:"title"`
	Env       map[string]string `json:"env,omitempty"`   // overridden by the agent's own
	Home      map[string]string `json:"home,omitempty"`  // files in the home directory, by path
	Shape     mcpconfig.Shape   `json:"shape,omitempty"` // format of servers in them
	ExitCodes map[int]string    `json:"exit_codes,omitempty"`
}

// adapt plans an agent with an adapter.
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

// useProvider configures an adapted agent for the provider of its model. For a scripted model, it
// uses the API that the agent prefers.
func (a *Agent) useProvider(from *adapter.Adapter, models *Models) error {
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

// SaysOnStdout reports whether the final output is on stdout, plain or in a transcript.
func (a *Agent) SaysOnStdout() bool {
	return cmp.Or(a.Output, OutputStdout) == OutputStdout || a.Output == OutputTranscript && a.Events.From == "stdout"
}

// planResponder sets the model that plays the user, if a task needs one. It is asked through the
// provider of graders. It fails if there is no model, or the output is not on stdout.
func (a *Agent) planResponder(judge *evidence.Judge) error {
	if a.Responder == nil {
		return nil
	}
	own := *a.Responder
	if own.Model = cmp.Or(own.Model, judge.Model); own.Model == "" {
		return errors.New("inputs.responder: no model is set to play the user; set inputs.responder.model or config.model")
	}
	a.Responder = &own
	if !a.SaysOnStdout() {
		return errors.New("inputs.responder: the agent's output or its transcript must be on stdout")
	}
	return nil
}
