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
	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/cmdmock"
)

// Eval is an eval file. Package strictyaml defines the tags other than json.
type Eval struct {
	_ struct{} `unknown:"warn"`

	SchemaVersion string          `json:"schemaVersion,omitempty" jsonschema:"version of the format, such as 1.0; a label"`
	Scenario      json.RawMessage `json:"scenario,omitempty" jsonschema:"kind of scenario; a label"`
	Requirements  json.RawMessage `json:"requirements,omitempty" jsonschema:"what graders show; a label"`
	Adversarial   json.RawMessage `json:"adversarial,omitempty" jsonschema:"packs of attacks that waza adversarial runs; a label"`

	Name        string            `json:"name" jsonschema:"what the eval is called in results"`
	Description string            `json:"description,omitempty" jsonschema:"what the eval is about; a label"`
	Skill       string            `json:"skill,omitempty" jsonschema:"the skill under evaluation; a label"`
	Version     string            `json:"version,omitempty" jsonschema:"the eval's own version; a label"`
	Config      Config            `json:"config" jsonschema:"how the tasks are run"`
	Baseline    bool              `json:"baseline,omitempty" jsonschema:"run every trial without skills too, and compare"`
	Hooks       *Hooks            `json:"hooks,omitempty" jsonschema:"commands that run in every trial's sandbox before the agent and after it"`
	MCPMocks    []MCPMock         `json:"mcp_mocks,omitempty" jsonschema:"MCP servers that answer from a table"`
	Commands    []CommandMock     `json:"command_mocks,omitempty" jsonschema:"programs that answer from a table in the agent's container"`
	Graders     []Grader          `json:"graders,omitempty" jsonschema:"graders of every task"`
	Metrics     []Metric          `json:"metrics,omitempty" jsonschema:"figures over the whole run"`
	Inputs      map[string]string `json:"inputs,omitempty" jsonschema:"values of {{.Vars.NAME}} in prompts"`
	TasksFrom   string            `json:"tasks_from,omitempty" jsonschema:"CSV file of tasks in place of tasks, a row each, with the columns id, name and prompt; relative to the eval"`
	Range       []int             `json:"range,omitempty" min:"0" jsonschema:"first and last row of tasks_from, from 1; all where both are 0"`
	Tasks       []string          `json:"tasks,omitempty" jsonschema:"globs of task files, relative to the eval; ** is not a glob"`

	Path  string `json:"-"` // as given
	Local bool   `json:"-"` // read to run on processes of this machine, without containers

	// Mocks are the servers of MCPMocks, and MockFiles the files that they were read from.
	Mocks     []*mock.Server `json:"-"`
	MockFiles []string       `json:"-"`

	// TextFiles are the files of prompts, of instructions and of graders.
	TextFiles []string `json:"-"`

	// Adapter says how to run the agent, from the executor or from config.agent.adapter. It
	// may be nil.
	Adapter *adapter.Adapter `json:"-"`

	// Warnings name the parts of the eval's and its tasks' files that have no effect.
	Warnings []*strictyaml.Error `json:"-"`

	commands []cmdmock.Command // of Commands, with their fixtures
	files    []string          // that were read: the eval's own and its tasks'

	start string // directory where waza was started; empty unless the eval is below it
}

// Files returns the paths of the eval's file and its task files, which servers must not
// see.
func (e *Eval) Files() []string { return e.files }

// Labels returns the values of the eval that do not affect verdicts and are copied to the
// results.
func (e *Eval) Labels() map[string]json.RawMessage {
	labels := labels{}
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
	return labels.orNil()
}

// labels are values that change no verdict and are kept in the results, by key.
type labels map[string]json.RawMessage

// keep adds a value, unless it is empty JSON.
func (l labels) keep(name string, value any) {
	data, err := json.Marshal(value)
	if raw, isRaw := value.(json.RawMessage); err == nil && (!isRaw || len(raw) > 0) {
		l[name] = data
	}
}

func (l labels) orNil() map[string]json.RawMessage {
	if len(l) == 0 {
		return nil
	}
	return l
}

// measuredMetrics returns the metrics that are measured; others are labels.
func measuredMetrics() []string {
	return []string{"task_completion", "behavior_quality", "trigger_accuracy"}
}

// Dir returns the directory of the eval file. Paths in the file are relative to it.
func (e *Eval) Dir() string { return filepath.Dir(e.Path) }

// besides returns a path of this machine that the eval names, relative to itself or absolute.
func (e *Eval) besides(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(e.Dir(), path)
}

// Config is how an eval's tasks are run.
type Config struct {
	_ struct{} `unknown:"warn"`

	TrialsPerTask     int                          `json:"trials_per_task,omitempty" min:"1" max:"10000" jsonschema:"trials of each task; default 1"`
	TimeoutSeconds    int                          `json:"timeout_seconds,omitempty" min:"1" max:"604800" jsonschema:"seconds an agent may take; default 300"`
	FirstEventSeconds int                          `json:"first_event_timeout_seconds,omitempty" min:"0" max:"604800" jsonschema:"seconds in which an agent must begin: say something on stdout, ask a model or call a tool; 0, the default, is no limit"`
	Parallel          *bool                        `json:"parallel,omitempty" jsonschema:"run trials side by side"`
	Workers           Workers                      `json:"workers,omitempty" jsonschema:"trials at once when parallel; auto, the default with --isolate, is as many as machine and models bear; 4 without"`
	MaxWorkers        Workers                      `json:"max_workers,omitempty" jsonschema:"older name of workers"`
	FailFast          bool                         `json:"fail_fast,omitempty" jsonschema:"start no further trial once one did not pass"`
	MaxAttempts       int                          `json:"max_attempts,omitempty" min:"0" max:"100" jsonschema:"how often a trial is tried until no grader fails; the last attempt decides; default 1"`
	Executor          string                       `json:"executor,omitempty" enum:"mock script command llm claude codex copilot copilot-sdk gemini opencode" jsonschema:"what plays the agent; copilot-sdk is copilot"`
	Model             string                       `json:"model,omitempty" jsonschema:"model the agent uses, as PROVIDER/MODEL or MODEL; handed to the agent as WAZA_MODEL, without the provider"`
	ReasoningEffort   string                       `json:"reasoning_effort,omitempty" enum:"low medium high xhigh max" jsonschema:"how much the agent's model is to reason, as its provider and its agent take it; handed to the agent as WAZA_REASONING_EFFORT"`
	MCPServers        map[string]*mcpconfig.Server `json:"mcp_servers,omitempty" jsonschema:"MCP servers of every task, by the name the agent reaches them under"`
	MCPServerLifetime string                       `json:"mcp_server_lifetime,omitempty" enum:"per_task per_benchmark" jsonschema:"how long servers live: per_task is one set for each trial, per_benchmark one for the run; default per_task with --isolate and else per_benchmark"`
	Isolation         Isolation                    `json:"isolation,omitzero" jsonschema:"the sandbox, with --isolate"`
	Agent             *Agent                       `json:"agent,omitempty" jsonschema:"the program of executor command"`
	LLM               *LLM                         `json:"llm,omitempty" jsonschema:"how the loop of executor llm goes"`
	SkillDirectories  []string                     `json:"skill_directories,omitempty" jsonschema:"directories of skills for every task, relative to the eval: each a skill, with a SKILL.md, or holding skills"`
	InjectSkillBody   bool                         `json:"inject_skill_body,omitempty" jsonschema:"put the instructions of the skill under evaluation before the task, beside having it as a skill; default false"`
	SkillRouting      bool                         `json:"trigger_skill_routing,omitempty" jsonschema:"tell the agent before every task to invoke the skill under evaluation where the task is one for it; without effect beside inject_skill_body"`
	InstructionFiles  []string                     `json:"instruction_files,omitempty" jsonschema:"files of instructions that go before every task, from the fixtures"`
	RequiredSkills    []string                     `json:"required_skills,omitempty" jsonschema:"names of skills that must be there"`
	DisabledSkills    []string                     `json:"disabled_skills,omitempty" jsonschema:"names of skills that are left out"`
	Models            map[string]*Model            `json:"models,omitempty" jsonschema:"models that agents may ask, through the runner, by provider; the agent never holds a key"`
	ModelLimits       ModelLimits                  `json:"model_limits,omitzero" jsonschema:"what a trial may ask of models"`
	Judge             *Judge                       `json:"judge,omitempty" jsonschema:"the model that graders ask"`
	JudgeModel        string                       `json:"judge_model,omitempty" jsonschema:"model that graders ask, in place of every other that is named"`
	JudgeEffort       string                       `json:"judge_reasoning_effort,omitempty" enum:"low medium high xhigh max" jsonschema:"how much it is to reason where the grader does not say"`
	GroupBy           string                       `json:"group_by,omitempty" jsonschema:"model: results.json has figures by model"`

	Canaries map[string]*Canary `json:"canaries,omitempty" jsonschema:"values that are planted and watched for, by name"`
}

// Isolation is config.isolation, read with --isolate.
type Isolation struct {
	Network     string         `json:"network,omitempty" enum:"bridge airtight" jsonschema:"kind of task network; default bridge"`
	Agent       AgentContainer `json:"agent,omitzero" jsonschema:"the agent's container"`
	Image       string         `json:"image,omitempty" enum:"tools" jsonschema:"tools: the agent, servers and packages have the image with the usual tools where they name no other"`
	ServerImage string         `json:"server_image,omitempty" jsonschema:"image of servers that have a command and no image"`
	Pull        string         `json:"pull,omitempty" enum:"missing always never" jsonschema:"when images are pulled: where the engine lacks them, always or never; default missing"`
	NPMImage    string         `json:"npm_image,omitempty" jsonschema:"base image of servers written as npx: Node.js with npm; default node:24-bookworm-slim"`
	PyPIImage   string         `json:"pypi_image,omitempty" jsonschema:"base image of servers written as uvx: Python with venv; default python:3.11-slim-bookworm"`
	GoImage     string         `json:"go_image,omitempty" jsonschema:"base image that servers in Go are built on; default golang:1.26-bookworm"`
	Runtime     string         `json:"runtime,omitempty" jsonschema:"container runtime, such as runsc"`
	Subnets     string         `json:"subnets,omitempty" jsonschema:"IPv4 range in CIDR notation that task networks are cut from, a /29 each; default 10.213.0.0/16"`
	Workspace   string         `json:"workspace,omitempty" enum:"tmpfs volume" jsonschema:"where the workspace is; default tmpfs"`
	Pins        string         `json:"pins,omitempty" enum:"warn fail off" jsonschema:"what becomes of trials whose servers list something else than waza.lock has pinned; default warn"`
	MCPJSON     string         `json:"mcp_json,omitempty" enum:"error keep" jsonschema:"when a fixture brings its own mcp.json; default error"`

	EgressLimits EgressLimits `json:"egress_limits,omitzero" jsonschema:"what a container with egress may carry out of its sandbox"`
	Kubernetes   Kubernetes   `json:"kubernetes,omitzero" jsonschema:"the cluster, with --on kubernetes"`
}

// OnKubernetes is the backend that runs trials on a cluster, as --on names it.
const OnKubernetes = "kubernetes"

// Kubernetes is config.isolation.kubernetes: where pods of trials run.
type Kubernetes struct {
	Context         string            `json:"context,omitempty" jsonschema:"context of the client's configuration (KUBECONFIG); default the current one"`
	Namespace       string            `json:"namespace,omitempty" jsonschema:"namespace of the pods; default waza"`
	Images          string            `json:"images,omitempty" jsonschema:"file that waza images writes: where the cluster has the images; relative to the eval; default waza.images.json"`
	Queue           string            `json:"queue,omitempty" jsonschema:"local queue of Kueue that admits the pods"`
	NodeSelector    map[string]string `json:"node_selector,omitempty" jsonschema:"labels of the nodes that pods may run on"`
	Tolerations     []Toleration      `json:"tolerations,omitempty" jsonschema:"taints of nodes that pods bear"`
	RuntimeClass    string            `json:"runtime_class,omitempty" jsonschema:"RuntimeClass of the pods, such as gvisor"`
	CPURequests     float64           `json:"cpu_requests,omitempty" over:"0" max:"1" jsonschema:"share of each container's limit of CPUs that its node reserves for it; default 1"`
	RemoveInterface bool              `json:"remove_interface,omitempty" jsonschema:"remove every pod's network interface before its guest starts; needs a namespace that allows NET_ADMIN to an init container"`
}

// Toleration is a taint that pods bear.
type Toleration struct {
	Key      string `json:"key,omitempty" jsonschema:"key of the taint; every taint where left out"`
	Operator string `json:"operator,omitempty" enum:"Equal Exists" jsonschema:"how value is compared; default Equal"`
	Value    string `json:"value,omitempty" jsonschema:"value of the taint"`
	Effect   string `json:"effect,omitempty" enum:"NoSchedule PreferNoSchedule NoExecute" jsonschema:"effect of the taint; every effect where left out"`
}

// EgressLimits bound the connections of one container that leave its sandbox.
type EgressLimits struct {
	Connections int    `json:"connections,omitempty" min:"1" max:"100" jsonschema:"connections at once; default 64"`
	Rate        int    `json:"rate,omitempty" min:"1" max:"1000" jsonschema:"new connections a second; default 50"`
	Bytes       string `json:"bytes,omitempty" jsonschema:"size limit of all that they carry in a trial, both ways together; default 256m"`
}

// AgentContainer is the container an agent runs in.
type AgentContainer struct {
	Image     string            `json:"image,omitempty" jsonschema:"container image; mock, script and llm need none"`
	User      string            `json:"user,omitempty" jsonschema:"user or uid, with :group or :gid; never root"`
	MaxOutput string            `json:"max_output,omitempty" jsonschema:"size limit of stdout, and of stderr; what is over it ends the agent; default 64m"`
	MaxCalls  int               `json:"max_calls,omitempty" min:"1" jsonschema:"calls of tools that the agent may make in a trial; default 10000"`
	Env       map[string]string `json:"env,omitempty" jsonschema:"environment of the agent; names that begin with WAZA_ are taken"`
	Workdir   string            `json:"workdir,omitempty" jsonschema:"where the agent starts, relative to the workspace"`

	mcpconfig.Limits

	Egress []mcpconfig.Egress `json:"egress,omitempty" jsonschema:"hosts outside of the trial that the agent may reach through the runner; none where left out"`
}

// Agent is the program of the command executor. Command or Adapter is given.
type Agent struct {
	Command  string   `json:"command,omitempty" jsonschema:"program in the agent's image"`
	Continue []string `json:"continue,omitempty" jsonschema:"its arguments for follow-up prompts, in place of args: the run goes on with the conversation of the one before"`
	Args     []string `json:"args,omitempty" jsonschema:"its arguments; {{prompt}} stands for the prompt and {{prompt_file}} for its path"`
	Prompt   string   `json:"prompt,omitempty" enum:"file argument stdin" jsonschema:"how the prompt arrives; default argument"`
	Output   string   `json:"output,omitempty" jsonschema:"where the final output is: stdout (default), transcript for all messages there, or a file in the workspace"`

	Skills string `json:"skills,omitempty" jsonschema:"directory in the workspace where it looks for skills; default .waza/skills"`

	Transcript *transcript.Source `json:"transcript,omitempty" jsonschema:"where the agent reports what it did, and how that is read"`
	Adapter    string             `json:"adapter,omitempty" jsonschema:"file that says all of this and more, in place of the other keys; relative to the eval"`
}

// LLM configures the loop of executor llm.
type LLM struct {
	MaxTurns    int      `json:"max_turns,omitempty" min:"1" max:"10000" jsonschema:"answers of the model; default 50"`
	System      string   `json:"system,omitempty" jsonschema:"what the system prompt ends with"`
	Tools       []string `json:"tools,omitempty" jsonschema:"kinds of tools beside those that read skills: mcp, files and shell; default all that there can be"`
	Temperature *float64 `json:"temperature,omitempty" min:"0" max:"2" jsonschema:"how freely the model answers; the endpoint's own where left out"`
	MaxTokens   int      `json:"max_tokens,omitempty" min:"1" max:"10000000" jsonschema:"limit of each answer; the endpoint's own where left out"`
}

// Model is a provider of models, or a script that answers in place of one.
type Model struct {
	Kind      string            `json:"kind,omitempty" enum:"openai anthropic google azure" jsonschema:"whose API it speaks; default the provider's name, and openai for others"`
	BaseURL   string            `json:"base_url,omitempty" jsonschema:"where the API is, as its clients are told; default the provider's own; https, or http on the runner's network; needed for azure, and for names that are no kind"`
	APIKeyEnv string            `json:"api_key_env,omitempty" jsonschema:"environment variable of the runner's that holds the key; default the usual one of the kind, and none where base_url is set, but for azure"`
	Headers   map[string]string `json:"headers,omitempty" jsonschema:"headers that the runner adds; ${VAR} is a variable of the runner's"`
	Prices    map[string]Price  `json:"prices,omitempty" jsonschema:"prices by model, for costs"`
	Script    string            `json:"script,omitempty" jsonschema:"file of turns that are played in place of asking anybody, relative to the eval"`
	// TimeoutSeconds is 0 for the default.
	TimeoutSeconds int `json:"timeout_seconds,omitempty" min:"1" max:"3600" jsonschema:"seconds that the provider may say nothing, before an answer and within it; default 600"`
}

// Workers is how many trials run at once; 0, which may be written auto, leaves that to the run.
type Workers int

// MaxWorkers is how many trials can run at once.
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
	Input       float64  `json:"input" min:"0" jsonschema:"US dollars for a million tokens of input"`
	Output      float64  `json:"output" min:"0" jsonschema:"US dollars for a million tokens of output"`
	Cached      *float64 `json:"cached,omitempty" min:"0" jsonschema:"the same for input that is read from a cache; default that of input"`
	CacheWrites *float64 `json:"cache_writes,omitempty" min:"0" jsonschema:"the same for input that is written to a cache; default that of input"`
}

// ModelLimits bound the model calls of a trial. A limit that is left out is none, except
// Requests, which has a default.
type ModelLimits struct {
	Requests int     `json:"requests,omitempty" min:"1" jsonschema:"requests in a trial; default 1000"`
	Tokens   int64   `json:"tokens,omitempty" min:"1" jsonschema:"tokens of input and output in a trial, by the provider's count"`
	Cost     float64 `json:"cost,omitempty" over:"0" jsonschema:"US dollars in a trial; needs prices of the model"`
	Seconds  int     `json:"seconds,omitempty" min:"1" max:"604800" jsonschema:"seconds that model calls of a trial may take together"`
}

// Judge configures the model that graders ask.
type Judge struct {
	BaseURL        string   `json:"base_url" jsonschema:"where the endpoint's /chat/completions is; https, or http on this machine"`
	APIKeyEnv      string   `json:"api_key_env,omitempty" jsonschema:"environment variable of the runner's that holds the key; left out for none"`
	Model          string   `json:"model,omitempty" jsonschema:"model to ask where a grader names none"`
	TimeoutSeconds int      `json:"timeout_seconds,omitempty" min:"1" max:"3600" jsonschema:"seconds an answer may take; default 120"`
	MaxTokens      int      `json:"max_tokens,omitempty" min:"1" max:"1000000" jsonschema:"limit of an answer; the endpoint's own where left out"`
	Temperature    *float64 `json:"temperature,omitempty" min:"0" max:"2" jsonschema:"how freely the model answers; the endpoint's own where left out"`
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

	Name        string   `json:"name" jsonschema:"task_completion, behavior_quality or trigger_accuracy; others are labels"`
	Description string   `json:"description,omitempty" jsonschema:"a label"`
	Weight      *float64 `json:"weight,omitempty" min:"0" jsonschema:"weight among the metrics; default 1"`
	Threshold   *float64 `json:"threshold,omitempty" min:"0" max:"1" jsonschema:"figure from which the metric passes"`
	Enabled     *bool    `json:"enabled,omitempty" jsonschema:"false leaves the metric out; default true"`
}

// On reports whether the metric is enabled.
func (m Metric) On() bool { return m.Enabled == nil || *m.Enabled }

// Grader is a grader as written; Config is of the type its Type names.
type Grader struct {
	_ struct{} `unknown:"warn"`

	Ref    string          `json:"ref,omitempty" jsonschema:"file of a grader, relative to the eval, that has what is left out here"`
	Type   string          `json:"type" jsonschema:"kind of grader"`
	Name   string          `json:"name,omitempty" jsonschema:"what its verdict is called; default its type and place"`
	Weight float64         `json:"weight,omitempty" jsonschema:"weight of its score; 1 where left out or not above 0"`
	Config json.RawMessage `json:"config,omitempty" jsonschema:"what it checks"`

	Assertions []string `json:"assertions,omitempty" jsonschema:"of a code grader: the same as config.assertions"`
	Model      string   `json:"model,omitempty" jsonschema:"of a prompt grader: the same as config.model"`
	Rubric     string   `json:"rubric,omitempty" jsonschema:"of a prompt grader: the same as config.prompt"`
	Script     string   `json:"script,omitempty" jsonschema:"nothing reads it, here or in waza"`
}

// Task is a task file.
type Task struct {
	_ struct{} `unknown:"warn"`

	ID                string                       `json:"id" jsonschema:"unique in the eval; the directory of its trials is called like it"`
	Name              string                       `json:"name,omitempty" jsonschema:"what the task is called in reports; default its id"`
	Description       string                       `json:"description,omitempty" jsonschema:"what the task is about; a label"`
	Tags              []string                     `json:"tags,omitempty" jsonschema:"labels that --tags selects by"`
	Golden            json.RawMessage              `json:"golden,omitempty" jsonschema:"what a good answer is; a label"`
	Enabled           *bool                        `json:"enabled,omitempty" jsonschema:"false leaves the task out; default true"`
	TimeoutSeconds    int                          `json:"timeout_seconds,omitempty" min:"1" max:"604800" zero:"unset" jsonschema:"seconds the agent may take, in place of the eval's"`
	FirstEventSeconds *int                         `json:"first_event_timeout_seconds,omitempty" min:"0" max:"604800" jsonschema:"seconds in which the agent must begin, in place of the eval's; 0 is no limit"`
	ContextDir        string                       `json:"context_dir,omitempty" jsonschema:"directory of this task's fixtures, in the eval's or from where waza is started"`
	InstructionFiles  []string                     `json:"instruction_files,omitempty" jsonschema:"files of instructions beside the eval's, from the fixtures"`
	Inputs            Inputs                       `json:"inputs" jsonschema:"what the agent gets"`
	Expected          Expected                     `json:"expected,omitzero" jsonschema:"short form of common graders"`
	Graders           []Grader                     `json:"graders,omitempty" jsonschema:"graders of this task, beside the eval's"`
	MCPServers        map[string]*mcpconfig.Server `json:"mcp_servers,omitempty" jsonschema:"laid over the eval's field by field; null removes a server"`
	SkillDirectories  []string                     `json:"skill_directories,omitempty" jsonschema:"directories of skills of this task, beside the eval's"`
	Script            json.RawMessage              `json:"script,omitempty" jsonschema:"steps of the script executor"`

	Commands    []CommandMock `json:"command_mocks,omitempty" jsonschema:"in place of the eval's; an empty list is none"`
	Checkpoints []Checkpoint  `json:"checkpoints,omitempty" jsonschema:"graders of the state between two turns of the conversation"`

	Attack *Attack `json:"attack,omitempty" jsonschema:"what somebody else wants of the agent, and how that reaches it"`

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

	Prompt      string            `json:"prompt,omitempty" jsonschema:"what the agent is asked; may be empty"`
	PromptFile  string            `json:"prompt_file,omitempty" jsonschema:"file of the prompt in its place, relative to the task file and not leading out of its directory"`
	FollowUps   []string          `json:"follow_up_prompts,omitempty" jsonschema:"what the agent is asked afterwards, one after another in the same conversation"`
	Responder   *Responder        `json:"responder,omitempty" jsonschema:"a model that answers the agent in its user's place, instead of follow_up_prompts"`
	Workdir     string            `json:"workdir,omitempty" jsonschema:"where the agent starts, relative to the workspace"`
	Context     map[string]any    `json:"context,omitempty" jsonschema:"handed to the agent as JSON in WAZA_CONTEXT; fixture names a file or a directory whose files are put into the workspace"`
	Files       []File            `json:"files,omitempty" jsonschema:"files of the workspace"`
	Repos       []Repo            `json:"repos,omitempty" jsonschema:"git repositories of the workspace, each with one commit checked out"`
	Environment map[string]string `json:"environment,omitempty" jsonschema:"environment of the agent; names that begin with WAZA_ are taken"`
}

// File is one file of the workspace: from the fixtures, or with its content here.
type File struct {
	_ struct{} `unknown:"warn"`

	Path    string  `json:"path" jsonschema:"path in the workspace, and in the fixtures where content is left out: a file, or a directory with all that is in it"`
	Content *string `json:"content,omitempty" jsonschema:"what the file holds"`
}

// Expected is the short form of common graders.
type Expected struct {
	_ struct{} `unknown:"warn"`

	OutputContains    []string  `json:"output_contains,omitempty" jsonschema:"strings the final output contains, whatever their case"`
	OutputNotContains []string  `json:"output_not_contains,omitempty" jsonschema:"strings the final output does not contain, whatever their case"`
	OutputContainsAny []string  `json:"output_contains_any,omitempty" jsonschema:"strings of which the final output contains one, whatever their case"`
	Behavior          *Behavior `json:"behavior,omitempty" jsonschema:"what the agent does"`
	Outcomes          []Outcome `json:"outcomes,omitempty" jsonschema:"what came of the task: task_completed is what every trial that passes is"`
	ShouldTrigger     *bool     `json:"should_trigger,omitempty" jsonschema:"whether the agent is to invoke the skill under evaluation; a label where it does not tell"`
	MaxResponseTimeMS int64     `json:"max_response_time_ms,omitempty" min:"1" zero:"unset" jsonschema:"limit of the agent's time in milliseconds"`

	ToolCalls json.RawMessage `json:"tool_calls,omitempty" jsonschema:"config of a tool_calls grader"`
}

// Outcome is one of expected.outcomes.
type Outcome struct {
	_ struct{} `unknown:"warn"`

	Type      string          `json:"type" jsonschema:"task_completed, or tool_called with the tool's name as value; others are labels"`
	Value     json.RawMessage `json:"value,omitempty" jsonschema:"what it is about"`
	Condition string          `json:"condition,omitempty" jsonschema:"a label"`
}

// Behavior is expected.behavior.
type Behavior struct {
	_ struct{} `unknown:"warn"`

	MaxTokens      *int     `json:"max_tokens,omitempty" min:"1" zero:"unset" jsonschema:"limit of models' tokens, in and out"`
	MaxToolCalls   *int     `json:"max_tool_calls,omitempty" min:"1" zero:"unset" jsonschema:"limit of tool calls; for none at all use a behavior grader with max_mcp_calls: 0"`
	RequiredTools  []string `json:"required_tools,omitempty" jsonschema:"tools that are used"`
	ForbiddenTools []string `json:"forbidden_tools,omitempty" jsonschema:"tools that are not used"`
	MaxIterations  int      `json:"max_iterations,omitempty" min:"1" zero:"unset" jsonschema:"limit of the model's turns"`

	MaxResponseTimeMS int64 `json:"max_response_time_ms,omitempty" min:"1" zero:"unset" jsonschema:"limit of the agent's time in milliseconds"`
}

// reportsSkills reports whether the eval's agent reports the skills that it invokes.
func (e *Eval) reportsSkills() bool {
	if e.Adapter != nil {
		return e.Adapter.Transcript != nil
	}
	return e.Config.Executor == "llm" || e.Config.Executor == "command" && e.Config.Agent != nil && e.Config.Agent.Transcript != nil
}

// roots returns the directories that paths in the eval may be relative to.
func (e *Eval) roots() roots {
	if e.start == "" || same(e.start, e.Dir()) {
		return roots{e.Dir()}
	}
	return roots{e.Dir(), e.start}
}

// mockNames returns the names of the eval's mock servers.
func (e *Eval) mockNames() (names []string) {
	for _, mock := range e.Mocks {
		names = append(names, mock.Name)
	}
	return names
}
