// Package eval reads eval and task files: it defines their types, which the JSON Schemas
// are generated from, reports mistakes with their lines, and resolves defaults, fixtures
// and overlays.
//
// It starts nothing, expands no variables and knows no engine.
package eval

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcp/answer"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// Eval is an eval file. Package strictyaml defines the tags other than json.
type Eval struct {
	_ struct{} `unknown:"warn"`

	SchemaVersion string          `json:"schemaVersion,omitempty" jsonschema:"version of the format, such as 1.0; for information only"`
	Scenario      json.RawMessage `json:"scenario,omitempty" jsonschema:"kind of scenario; for information only"`
	Requirements  json.RawMessage `json:"requirements,omitempty" jsonschema:"what graders show; for information only"`
	Adversarial   json.RawMessage `json:"adversarial,omitempty" jsonschema:"has no effect, with a warning; give a task an attack instead"`

	Name        string            `json:"name" jsonschema:"name of the eval in results"`
	Description string            `json:"description,omitempty" jsonschema:"description of the eval; for information only"`
	Skill       string            `json:"skill,omitempty" jsonschema:"the skill that the eval is about: its name or that of its directory"`
	Version     string            `json:"version,omitempty" jsonschema:"version of the eval; for information only"`
	Config      Config            `json:"config" jsonschema:"settings for running the tasks"`
	Baseline    bool              `json:"baseline,omitempty" jsonschema:"also run every trial without skills, and compare, as --baseline does"`
	Hooks       *Hooks            `json:"hooks,omitempty" jsonschema:"commands to run in the sandbox of each trial, before and after the agent"`
	MCPMocks    []MCPMock         `json:"mcp_mocks,omitempty" jsonschema:"mock MCP servers, which answer from a table"`
	Commands    []CommandMock     `json:"command_mocks,omitempty" jsonschema:"mock programs in the agent's container, which answer from a table"`
	Graders     []Grader          `json:"graders,omitempty" jsonschema:"graders for all tasks"`
	Metrics     []Metric          `json:"metrics,omitempty" jsonschema:"metrics of the whole run"`
	Inputs      map[string]string `json:"inputs,omitempty" jsonschema:"values of {{.Vars.NAME}} in prompts"`
	TasksFrom   string            `json:"tasks_from,omitempty" jsonschema:"CSV file to read tasks from, instead of tasks: one per row, with the columns id, name and prompt; relative to the eval"`
	Range       []int             `json:"range,omitempty" min:"0" jsonschema:"first and last row of tasks_from to use, counted from 1; 0 and 0 for all"`
	Tasks       []string          `json:"tasks,omitempty" jsonschema:"glob patterns of task files, relative to the eval, each of which must match a file; ** is not supported"`

	Path  string `json:"-"` // as given to Load
	Local bool   `json:"-"` // read for running as processes of this machine, without containers
	// Contained names the setting that needs a container, if that is why the eval was not read as Local.
	Contained string `json:"-"`

	// Mocks are the servers of MCPMocks. MockFiles are the files that mocks, a cassette and faults were read
	// from.
	Mocks     []*mock.Server `json:"-"`
	MockFiles []string       `json:"-"`

	// Cassette is the cassette to play; nil if there is none. See [Eval.Plays].
	Cassette *cassette.Cassette `json:"-"`
	play     []cassette.Kind    // kinds to play; empty for all
	// MissLive means that real servers answer requests that the cassette cannot.
	MissLive bool `json:"-"`

	// TextFiles are the files with prompts, instructions and graders.
	TextFiles []string `json:"-"`

	// Adapter describes how to run the agent; it comes from the executor or from config.agent.adapter. It may
	// be nil.
	Adapter *adapter.Adapter `json:"-"`

	// Warnings name the parts of the eval's and its tasks' files that have no effect.
	Warnings []*strictyaml.Error `json:"-"`

	files []string // files that were read: the eval's own and its tasks'

	doc     *strictyaml.Document  // the eval's file
	overlay *mcpconfig.ClientFile // merged over its servers; may be nil

	undecided     bool // Local is only a first attempt
	otherExecutor bool // the executor differs from the file's

	start   string // directory that waza was started in; empty unless the eval is below it
	context string // directory of fixtures that the command line names, or ""
	// project is the directory of the eval's project, if that is below start, and otherwise empty. Paths may
	// be relative to it, as if waza had been started there.
	project string
}

// Files returns the paths of the eval's file and its task files, which servers must not
// see.
func (e *Eval) Files() []string { return e.files }

// Labels returns the values of the eval that do not affect verdicts and are copied to the
// results.
func (e *Eval) Labels() map[string]json.RawMessage {
	var labels labels
	if e.SchemaVersion != "" {
		labels.keep("schemaVersion", e.SchemaVersion)
	}
	labels.keep("scenario", e.Scenario)
	labels.keep("requirements", e.Requirements)
	labels.keep("adversarial", e.Adversarial)
	var metrics []string
	for _, m := range e.Metrics {
		if !slices.Contains(measuredMetrics(), m.Name) {
			metrics = append(metrics, m.Name)
		}
	}
	if metrics != nil {
		labels.keep("metrics", metrics)
	}
	return labels
}

// labels are values that change no verdict and are copied to the results, by key.
type labels map[string]json.RawMessage

// keep adds a value, unless it is empty JSON.
func (l *labels) keep(name string, value any) {
	data, err := json.Marshal(value)
	if raw, isRaw := value.(json.RawMessage); err != nil || isRaw && len(raw) == 0 {
		return
	}
	if *l == nil {
		*l = labels{}
	}
	(*l)[name] = data
}

// measuredMetrics returns the metrics that are measured. Other metrics are labels.
func measuredMetrics() []string {
	return []string{"task_completion", "behavior_quality", "trigger_accuracy"}
}

// Dir returns the directory of the eval file. Paths in the file are relative to it.
func (e *Eval) Dir() string { return filepath.Dir(e.Path) }

// Place returns the path at which to write a file next to the eval. Below the current directory it does not
// follow links. For an eval elsewhere, whose directory the user named, it resolves them.
func (e *Eval) Place(name string) (string, error) {
	if !files.IsInside(filepath.ToSlash(name)) {
		return "", fmt.Errorf("%q is not in the eval's directory, and waza writes nowhere else", name)
	}
	dir := e.Dir()
	if !filepath.IsLocal(dir) {
		dir = files.Named(dir)
	}
	return filepath.Join(dir, name), nil
}

// besides returns a path of this machine that the eval names; it may be relative to the eval or absolute.
func (e *Eval) besides(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.Dir(), path)
}

// Config configures how an eval's tasks are run.
type Config struct {
	_ struct{} `unknown:"warn"`

	TrialsPerTask     int                          `json:"trials_per_task,omitempty" min:"1" max:"10000" jsonschema:"number of trials of each task; default 1"`
	TimeoutSeconds    int                          `json:"timeout_seconds,omitempty" min:"1" max:"604800" jsonschema:"time limit of the agent in seconds, from its start; a task's own and --timeout override it; default 300"`
	FirstEventSeconds int                          `json:"first_event_timeout_seconds,omitempty" min:"0" max:"604800" jsonschema:"seconds within which the agent must write to stdout, ask a model or call a tool; otherwise the trial ends as timeout, reason first_event; default 0, no limit"`
	Parallel          *bool                        `json:"parallel,omitempty" jsonschema:"run trials in parallel; default true if isolated"`
	Workers           Workers                      `json:"workers,omitempty" jsonschema:"number of parallel trials; auto, the default if isolated, for as many as the engine has room for; default 4 otherwise"`
	MaxWorkers        Workers                      `json:"max_workers,omitempty" jsonschema:"former name of workers"`
	FailFast          bool                         `json:"fail_fast,omitempty" jsonschema:"start no more trials after one that does not pass"`
	MaxAttempts       int                          `json:"max_attempts,omitempty" min:"0" max:"100" jsonschema:"how many times to attempt a trial until no grader fails; the last attempt counts; 0 means 1; default 1"`
	Executor          string                       `json:"executor,omitempty" enum:"mock script command llm claude codex copilot copilot-sdk gemini opencode" jsonschema:"agent to run; copilot-sdk is another name for copilot; default that of --executor, else defaults.engine of .waza.yaml, else copilot-sdk"`
	Model             string                       `json:"model,omitempty" jsonschema:"model of the agent, as PROVIDER/MODEL or MODEL; the agent gets it in WAZA_MODEL, without the provider; without models, the provider of the executor's kind is asked"`
	ReasoningEffort   string                       `json:"reasoning_effort,omitempty" enum:"low medium high xhigh max" jsonschema:"reasoning effort of the agent's model, in the terms of the provider; the agent gets it in WAZA_REASONING_EFFORT; refused with gemini and opencode, which cannot pass it on"`
	MCPServers        map[string]*mcpconfig.Server `json:"mcp_servers,omitempty" jsonschema:"MCP servers for all tasks, by name"`
	Isolate           *bool                        `json:"isolate,omitempty" jsonschema:"run each trial in its own containers, as with --isolate; false runs agents and servers as processes of this machine; --isolate and --no-isolate override it; default: as .waza.yaml says, or else only if a server needs a container"`
	MCPServerLifetime string                       `json:"mcp_server_lifetime,omitempty" enum:"per_task per_benchmark" jsonschema:"lifetime of servers: per_task starts them for each trial, per_benchmark once for the run; default per_task if isolated, otherwise per_benchmark"`
	Isolation         Isolation                    `json:"isolation,omitzero" jsonschema:"settings of the sandbox; without isolation only max_output and max_calls of the agent act"`
	Agent             *Agent                       `json:"agent,omitempty" jsonschema:"program to run as the agent, for executor command"`
	LLM               *input.LLM                   `json:"llm,omitempty" jsonschema:"settings of executor llm"`
	SkillDirectories  []string                     `json:"skill_directories,omitempty" jsonschema:"directories of skills for all tasks, relative to the eval; each is a skill with a SKILL.md, or contains skills"`
	InjectSkillBody   *bool                        `json:"inject_skill_body,omitempty" jsonschema:"also put the instructions of the skill under evaluation before the prompt; default true, but for prompts of trigger_tests.yaml"`
	SkillRouting      bool                         `json:"trigger_skill_routing,omitempty" jsonschema:"tell the agent in every prompt to invoke the skill under evaluation if it fits the task; no effect unless inject_skill_body is false"`
	InstructionFiles  []string                     `json:"instruction_files,omitempty" jsonschema:"files of the fixtures whose text is put before every prompt"`
	RequiredSkills    []string                     `json:"required_skills,omitempty" jsonschema:"names of skills that must be in skill_directories, or that every task must have"`
	DisabledSkills    []string                     `json:"disabled_skills,omitempty" jsonschema:"names of skills to leave out; * leaves out all"`
	Models            map[string]*Model            `json:"models,omitempty" jsonschema:"models that agents may ask through the runner, by provider; agents get no API key"`
	ModelLimits       ModelLimits                  `json:"model_limits,omitzero" jsonschema:"limits on a trial's model usage; a trial that reaches one ends as agent_error, reason budget"`
	Judge             *Judge                       `json:"judge,omitempty" jsonschema:"model that judges for graders"`
	JudgeModel        string                       `json:"judge_model,omitempty" jsonschema:"model that judges for graders without a model of their own; overrides that of judge"`
	JudgeEffort       string                       `json:"judge_reasoning_effort,omitempty" enum:"low medium high xhigh max" jsonschema:"default reasoning effort of the judge"`
	GroupBy           string                       `json:"group_by,omitempty" jsonschema:"model: add figures by model to results.json; other values have no effect"`

	Cassette string             `json:"cassette,omitempty" jsonschema:"directory of a cassette, relative to the eval: what servers, models and commands are played from, in place of the real ones"`
	Faults   []cassette.Fault   `json:"faults,omitempty" jsonschema:"faults to make on purpose of calls of servers and of models' turns"`
	Canaries map[string]*Canary `json:"canaries,omitempty" jsonschema:"values that are planted and whose leaks are recorded, by name"`
}

// Isolation is config.isolation, read with --isolate.
type Isolation struct {
	Network     string         `json:"network,omitempty" enum:"bridge airtight" jsonschema:"bridge: the agent has one network interface, on a network of its own without a route; airtight: it has only loopback; default bridge"`
	Agent       AgentContainer `json:"agent,omitzero" jsonschema:"settings of the agent's container"`
	Image       string         `json:"image,omitempty" enum:"tools" jsonschema:"tools: use the image with common tools for the agent, servers and packages that name no image"`
	ServerImage string         `json:"server_image,omitempty" jsonschema:"image of servers with a command and no image"`
	Pull        string         `json:"pull,omitempty" enum:"missing always never" jsonschema:"when to pull images: missing, if the engine lacks them; always, at the start of each run; or never; --pull overrides it; default missing"`
	NPMImage    string         `json:"npm_image,omitempty" jsonschema:"base image of npx servers, with Node.js and npm; default node:24-bookworm-slim"`
	PyPIImage   string         `json:"pypi_image,omitempty" jsonschema:"base image of uvx servers, with Python and venv; default python:3.11-slim-bookworm"`
	GoImage     string         `json:"go_image,omitempty" jsonschema:"base image to build Go servers on; default golang:1.26-bookworm"`
	Runtime     string         `json:"runtime,omitempty" jsonschema:"container runtime, such as runsc; default the engine's"`
	Subnets     string         `json:"subnets,omitempty" jsonschema:"IPv4 range of the networks of trials, in CIDR notation; each network takes a /29; change it if it overlaps a network of yours; default 10.213.0.0/16"`
	Workspace   string         `json:"workspace,omitempty" enum:"tmpfs volume" jsonschema:"storage of the workspace: tmpfs, in memory; volume, for one that is too large for memory, whose size is not limited; default tmpfs"`
	Pins        string         `json:"pins,omitempty" enum:"warn fail off" jsonschema:"what to do if a server's tools differ from those pinned in waza.lock: fail ends the trial as infra, reason pin; --pins overrides it; default warn"`
	MCPJSON     string         `json:"mcp_json,omitempty" enum:"error keep" jsonschema:"what to do if a task's files are in the way of the mcp.json that waza puts there: error refuses the eval, keep leaves them; default error"`

	EgressLimits EgressLimits  `json:"egress_limits,omitzero" jsonschema:"limits on outside connections of a container with egress"`
	Kubernetes   kube.Settings `json:"kubernetes,omitzero" jsonschema:"settings of the cluster; only with --on kubernetes"`
}

// OnKubernetes is the backend that runs trials on a cluster, as --on names it.
const OnKubernetes = "kubernetes"

// EgressLimits bound the connections of one container that leave its sandbox.
type EgressLimits struct {
	Connections int    `json:"connections,omitempty" min:"1" max:"100" jsonschema:"limit of open connections; default 64"`
	Rate        int    `json:"rate,omitempty" min:"1" max:"1000" jsonschema:"limit of new connections per second; default 50"`
	Bytes       string `json:"bytes,omitempty" jsonschema:"limit of bytes in a trial, in both directions together; default 256m"`
}

// AgentContainer is the container an agent runs in.
type AgentContainer struct {
	Image     string            `json:"image,omitempty" jsonschema:"container image; not needed for mock, script and llm, which run in an image that holds waza alone"`
	User      string            `json:"user,omitempty" jsonschema:"user or uid, with optional :group or :gid; never root; default the image's, or where that is root one that no other container has"`
	MaxOutput string            `json:"max_output,omitempty" jsonschema:"size limit of stdout and of stderr; the agent is ended if it writes more; default 64m"`
	MaxCalls  int               `json:"max_calls,omitempty" min:"1" jsonschema:"limit of tool calls in a trial; default 10000"`
	Env       map[string]string `json:"env,omitempty" jsonschema:"environment variables of the agent, which are not expanded; names starting with WAZA_ are reserved"`
	Workdir   string            `json:"workdir,omitempty" jsonschema:"working directory of the agent, relative to the workspace"`

	mcpconfig.Limits

	Egress []mcpconfig.Egress `json:"egress,omitempty" jsonschema:"outside hosts that the agent may connect to through the runner; default none"`
}

// Agent is the program of the command executor. Command or Adapter is given.
type Agent struct {
	Command  string   `json:"command,omitempty" jsonschema:"program in the image isolation.agent.image; required without adapter"`
	Continue []string `json:"continue,omitempty" jsonschema:"arguments for follow-up prompts, instead of args; they must continue the previous conversation"`
	Args     []string `json:"args,omitempty" jsonschema:"arguments; one that is {{prompt}} is replaced by the prompt, and {{prompt_file}} anywhere in one by the path of a file with it"`
	Prompt   string   `json:"prompt,omitempty" enum:"file argument stdin" jsonschema:"how the prompt is passed; default argument"`
	Output   string   `json:"output,omitempty" jsonschema:"source of the final output: stdout, transcript for all messages there, or a file in the workspace; an agent that leaves none is agent_error; default stdout"`

	Skills string `json:"skills,omitempty" jsonschema:"directory in the workspace where the agent looks for skills; default .waza/skills"`

	Transcript *transcript.Source `json:"transcript,omitempty" jsonschema:"where the agent writes its transcript, and how to read it"`
	Adapter    string             `json:"adapter,omitempty" jsonschema:"adapter file, instead of the other keys; relative to the eval"`
}

// Model is a provider of models, or a script that answers in place of one.
type Model struct {
	Kind      string            `json:"kind,omitempty" enum:"openai anthropic google azure" jsonschema:"API of the provider; default the one with the provider's name, or else openai"`
	BaseURL   string            `json:"base_url,omitempty" jsonschema:"base URL of the API, as for the provider's clients; default the provider's; https, or http on the runner's network, without credentials, query or fragment; required for azure and for names that are not a kind"`
	APIKeyEnv string            `json:"api_key_env,omitempty" jsonschema:"environment variable of the runner with the API key; default the usual one of the kind; with base_url none, except for azure"`
	Headers   map[string]string `json:"headers,omitempty" jsonschema:"headers that the runner adds; ${VAR} is an environment variable of the runner, and a secret"`
	Prices    map[string]Price  `json:"prices,omitempty" jsonschema:"prices by model, to compute costs"`
	Script    string            `json:"script,omitempty" jsonschema:"script of responses to play instead of asking a model, relative to the eval; of other keys only prices is allowed"`
	// TimeoutSeconds is 0 for the default.
	TimeoutSeconds int `json:"timeout_seconds,omitempty" min:"1" max:"3600" jsonschema:"seconds that the provider may be silent, before and during a response; default 600"`
}

// Workers is the number of parallel trials; 0, also written as auto, lets the run decide.
type Workers int

// MaxWorkers is the limit of parallel trials.
const MaxWorkers = 256

// UnmarshalJSON reads a number or auto.
func (w *Workers) UnmarshalJSON(data []byte) error {
	n := 0
	if string(data) != `"auto"` && (json.Unmarshal(data, &n) != nil || n < 0 || n > MaxWorkers) {
		return fmt.Errorf("must be auto or a number from 1 to %d", MaxWorkers)
	}
	*w = Workers(n)
	return nil
}

// Price is the cost of a model in US dollars per million tokens.
type Price struct {
	Input       float64  `json:"input" min:"0" jsonschema:"US dollars per million input tokens"`
	Output      float64  `json:"output" min:"0" jsonschema:"US dollars per million output tokens"`
	Cached      *float64 `json:"cached,omitempty" min:"0" jsonschema:"US dollars per million input tokens read from a cache; default the price of input"`
	CacheWrites *float64 `json:"cache_writes,omitempty" min:"0" jsonschema:"US dollars per million input tokens written to a cache; default the price of input"`
}

// ModelLimits bound the model calls of a trial. A missing limit means no limit, except
// Requests, which has a default.
type ModelLimits struct {
	Requests int     `json:"requests,omitempty" min:"1" jsonschema:"limit of requests in a trial; default 1000"`
	Tokens   int64   `json:"tokens,omitempty" min:"1" jsonschema:"limit of input and output tokens in a trial, as counted by the provider"`
	Cost     float64 `json:"cost,omitempty" over:"0" jsonschema:"limit of costs in a trial, in US dollars; needs prices of the model"`
	Seconds  int     `json:"seconds,omitempty" min:"1" max:"604800" jsonschema:"limit of the total time of a trial's model calls, in seconds"`
}

// Judge configures the model that graders ask.
type Judge struct {
	BaseURL        string   `json:"base_url" jsonschema:"base URL of the endpoint, to which /chat/completions is added; https, or http on this machine"`
	APIKeyEnv      string   `json:"api_key_env,omitempty" jsonschema:"environment variable of the runner with the API key; default no key"`
	Model          string   `json:"model,omitempty" jsonschema:"model to ask if a grader names none"`
	TimeoutSeconds int      `json:"timeout_seconds,omitempty" min:"1" max:"3600" jsonschema:"time limit of a response in seconds; default 120"`
	MaxTokens      int      `json:"max_tokens,omitempty" min:"1" max:"1000000" jsonschema:"limit of tokens of a response; default the endpoint's"`
	Temperature    *float64 `json:"temperature,omitempty" min:"0" max:"2" jsonschema:"sampling temperature; default the endpoint's"`
}

// NamedJudge returns the model for graders that name none, or "".
func (c Config) NamedJudge() string {
	if c.JudgeModel == "" && c.Judge != nil {
		return c.Judge.Model
	}
	return c.JudgeModel
}

// Metric is a figure over the whole run.
type Metric struct {
	_ struct{} `unknown:"warn"`

	Name        string   `json:"name" jsonschema:"task_completion: the share of tasks that passed; behavior_quality: the mean score of behavior graders; trigger_accuracy: the result of trigger_tests.yaml; others have no effect"`
	Description string   `json:"description,omitempty" jsonschema:"for information only"`
	Weight      *float64 `json:"weight,omitempty" min:"0" jsonschema:"kept in the results; default 1"`
	Threshold   *float64 `json:"threshold,omitempty" min:"0" max:"1" jsonschema:"value from which the metric passes; below it the exit code is 1; default 0"`
	Enabled     *bool    `json:"enabled,omitempty" jsonschema:"false to leave the metric out; default true"`
}

// On reports whether the metric is enabled.
func (m Metric) On() bool { return m.Enabled == nil || *m.Enabled }

// Grader is a grader as written; Config is of the type its Type names.
type Grader struct {
	_ struct{} `unknown:"warn"`

	Ref    string          `json:"ref,omitempty" jsonschema:"file of a grader, in the directory of the eval; keys given here take precedence; required without type"`
	Type   string          `json:"type" jsonschema:"kind of grader"`
	Name   string          `json:"name,omitempty" jsonschema:"name of the verdict, unique among the graders of an eval or a task; default from type and position, such as text-2"`
	Weight float64         `json:"weight,omitempty" max:"1000000" jsonschema:"weight of its score; default 1, also if not above 0"`
	Config json.RawMessage `json:"config,omitempty" jsonschema:"settings of the grader"`

	Assertions []string `json:"assertions,omitempty" jsonschema:"code grader: same as config.assertions"`
	Model      string   `json:"model,omitempty" jsonschema:"prompt grader: same as config.model"`
	Rubric     string   `json:"rubric,omitempty" jsonschema:"prompt grader: same as config.rubric or, for a text with spaces, config.prompt"`
	Script     string   `json:"script,omitempty" jsonschema:"has no effect"`
}

// Task is a task file.
type Task struct {
	_ struct{} `unknown:"warn"`

	ID                string                       `json:"id" jsonschema:"id of the task, unique in the eval without regard to case; also the name of the directory of its trials, where characters other than letters, digits, . - and _ are replaced"`
	Name              string                       `json:"name,omitempty" jsonschema:"name of the task in reports; default its id"`
	Description       string                       `json:"description,omitempty" jsonschema:"description of the task; for information only"`
	Tags              []string                     `json:"tags,omitempty" jsonschema:"labels that --tags selects by"`
	Golden            bool                         `json:"golden,omitempty" jsonschema:"true for a task that must pass: if it does not, waza gate ends with 2"`
	Enabled           *bool                        `json:"enabled,omitempty" jsonschema:"false to leave the task out; default true"`
	TimeoutSeconds    int                          `json:"timeout_seconds,omitempty" min:"1" max:"604800" zero:"unset" jsonschema:"time limit of the agent in seconds; overrides the eval's"`
	FirstEventSeconds *int                         `json:"first_event_timeout_seconds,omitempty" min:"0" max:"604800" jsonschema:"seconds within which the agent must begin; overrides the eval's; 0 for no limit"`
	ContextDir        string                       `json:"context_dir,omitempty" jsonschema:"directory of this task's fixtures, relative to that of the eval or to the directory waza is started in; default fixtures next to the eval, or --context-dir"`
	InstructionFiles  []string                     `json:"instruction_files,omitempty" jsonschema:"files of the fixtures whose text is put before the prompt, in addition to the eval's"`
	Inputs            Inputs                       `json:"inputs" jsonschema:"input of the agent"`
	Expected          Expected                     `json:"expected,omitzero" jsonschema:"short form for common graders"`
	Graders           []Grader                     `json:"graders,omitempty" jsonschema:"graders of this task, in addition to the eval's; one of the same name replaces the eval's"`
	MCPServers        map[string]*mcpconfig.Server `json:"mcp_servers,omitempty" jsonschema:"MCP servers of this task, merged with the eval's key by key; null removes a server"`
	SkillDirectories  []string                     `json:"skill_directories,omitempty" jsonschema:"directories of skills of this task, in place of the eval's; those in the directory waza was started in stay"`
	Script            json.RawMessage              `json:"script,omitempty" jsonschema:"steps of the script executor, which requires them; others ignore them"`
	Answers           answer.Table                 `json:"answers,omitempty" jsonschema:"answers to requests of MCP servers, by server, for executors script and llm"`

	Commands    []CommandMock    `json:"command_mocks,omitempty" jsonschema:"overrides the eval's; an empty list for none"`
	Faults      []cassette.Fault `json:"faults,omitempty" jsonschema:"overrides the eval's; an empty list for none"`
	Checkpoints []Checkpoint     `json:"checkpoints,omitempty" jsonschema:"graders to run between two turns of the conversation"`

	Attack *Attack `json:"attack,omitempty" jsonschema:"prompt injection: an attacker's goal, and where the attacker's text is placed"`

	Path string `json:"-"`

	doc  *strictyaml.Document
	line int               // line in the file at Path; 0 if unknown
	vars map[string]string // of a row of a dataset; nil for a task of a file
}

// On reports whether the task is enabled.
func (t *Task) On() bool { return t.Enabled == nil || *t.Enabled }

// Inputs is the input of a task for the agent.
type Inputs struct {
	_ struct{} `unknown:"warn"`

	Prompt      string            `json:"prompt,omitempty" jsonschema:"prompt of the agent; may be empty"`
	PromptFile  string            `json:"prompt_file,omitempty" jsonschema:"file with the prompt, instead of prompt; relative to the task file, within its directory"`
	FollowUps   []string          `json:"follow_up_prompts,omitempty" jsonschema:"prompts that follow in the same conversation, one after another"`
	Responder   *Responder        `json:"responder,omitempty" jsonschema:"a model that plays the user and answers the agent, instead of follow_up_prompts"`
	Workdir     string            `json:"workdir,omitempty" jsonschema:"working directory of the agent, relative to the workspace; created if no file creates it"`
	Context     map[string]any    `json:"context,omitempty" jsonschema:"values that the agent gets as JSON in WAZA_CONTEXT; fixture names a file or directory to copy into the workspace"`
	Files       []File            `json:"files,omitempty" jsonschema:"files of the workspace: up to 64 MiB each, 256 MiB in all; links that lead out of the fixtures are refused"`
	Repos       []Repo            `json:"repos,omitempty" jsonschema:"git repositories to put into the workspace, each with one commit checked out"`
	Environment map[string]string `json:"environment,omitempty" jsonschema:"environment variables of the agent; names starting with WAZA_ are reserved"`
}

// File is one file of the workspace: from the fixtures, or with its content here.
type File struct {
	_ struct{} `unknown:"warn"`

	Path    string  `json:"path,omitempty" jsonschema:"path in the workspace, and without content also in the fixtures: a file, or a directory with everything in it"`
	Content *string `json:"content,omitempty" jsonschema:"content of the file; default that of the file in the fixtures"`
}

// Expected is the short form of common graders.
type Expected struct {
	_ struct{} `unknown:"warn"`

	OutputContains    []string  `json:"output_contains,omitempty" jsonschema:"strings that the final output must contain, ignoring case: a text grader named _output_contains"`
	OutputNotContains []string  `json:"output_not_contains,omitempty" jsonschema:"strings that it must not contain: a text grader named _output_not_contains"`
	OutputContainsAny []string  `json:"output_contains_any,omitempty" jsonschema:"strings of which it must contain at least one: a text grader named _output_contains_any"`
	Behavior          Behavior  `json:"behavior,omitzero" jsonschema:"limits and requirements on what the agent does: a behavior grader named expected:behavior"`
	Outcomes          []Outcome `json:"outcomes,omitempty" jsonschema:"expected outcomes; those of type tool_called are the required_tools of a behavior grader named expected:outcomes"`
	ShouldTrigger     *bool     `json:"should_trigger,omitempty" jsonschema:"whether the agent should invoke the eval's skill: a skill_invocation grader named expected:should_trigger; a label only where that cannot be known"`
	MaxResponseTimeMS int64     `json:"max_response_time_ms,omitempty" min:"1" zero:"unset" jsonschema:"time limit of the agent in milliseconds"`

	ToolCalls json.RawMessage `json:"tool_calls,omitempty" jsonschema:"settings of a tool_calls grader named expected:tool_calls"`
}

// Outcome is one of expected.outcomes.
type Outcome struct {
	_ struct{} `unknown:"warn"`

	Type      string          `json:"type" jsonschema:"tool_called with the tool's name as value; task_completed, which is true of every trial that passes; others are labels"`
	Value     json.RawMessage `json:"value,omitempty" jsonschema:"subject of the expectation"`
	ToolName  string          `json:"tool_name,omitempty" jsonschema:"other name of value with tool_called"`
	Condition string          `json:"condition,omitempty" jsonschema:"for information only"`
}

// Behavior is expected.behavior.
type Behavior struct {
	_ struct{} `unknown:"warn"`

	MaxTokens      int      `json:"max_tokens,omitempty" min:"1" zero:"unset" jsonschema:"limit of input and output tokens of models"`
	MaxToolCalls   int      `json:"max_tool_calls,omitempty" min:"1" zero:"unset" jsonschema:"limit of tool calls; to allow none, use a behavior grader with max_mcp_calls: 0"`
	RequiredTools  []string `json:"required_tools,omitempty" jsonschema:"tools that must be used"`
	ForbiddenTools []string `json:"forbidden_tools,omitempty" jsonschema:"tools that must not be used"`
	MaxIterations  int      `json:"max_iterations,omitempty" min:"1" zero:"unset" jsonschema:"limit of model turns"`

	MaxResponseTimeMS int64 `json:"max_response_time_ms,omitempty" min:"1" zero:"unset" jsonschema:"time limit of the agent in milliseconds"`
}

// Injected returns the skill under evaluation of a task if its instructions go before the
// prompt. Those of trigger_tests.yaml, which ask whether the agent finds it, have them only if
// the eval says so.
func (e *Eval) Injected(skills []Skill, trigger *TriggerTest) (Skill, bool) {
	i := slices.IndexFunc(skills, func(s Skill) bool { return s.Is(e.Skill) })
	if set := e.Config.InjectSkillBody; i < 0 || set != nil && !*set || set == nil && trigger != nil {
		return Skill{}, false
	}
	return skills[i], true
}

// reportsSkills reports whether the eval's agent reports the skills that it invokes.
func (e *Eval) reportsSkills() bool {
	if e.Adapter != nil {
		return e.Adapter.Transcript != nil
	}
	return e.Config.Executor == evidence.ExecutorLLM || e.Config.Executor == evidence.ExecutorCommand && e.Config.Agent != nil && e.Config.Agent.Transcript != nil
}

// roots returns the directories that paths in the eval may be relative to.
func (e *Eval) roots() roots {
	if e.start == "" || same(e.start, e.Dir()) {
		return roots{e.Dir()}
	}
	if e.project != "" {
		return roots{e.Dir(), e.start, e.project}
	}
	return roots{e.Dir(), e.start}
}

// Plays reports whether the sides of a kind are played from the eval's cassette.
func (e *Eval) Plays(kind cassette.Kind) bool {
	switch {
	case e.Cassette == nil:
		return false
	case len(e.play) > 0:
		return slices.Contains(e.play, kind) || kind == cassette.Judges && slices.Contains(e.play, cassette.Models)
	}
	return len(e.Cassette.Names(kind)) > 0
}

// MockNames returns the names of the eval's mock servers.
func (e *Eval) MockNames() (names []string) {
	for _, mock := range e.Mocks {
		names = append(names, mock.Name)
	}
	return names
}
