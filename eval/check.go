package eval

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// checker checks the rules of an eval that the tags of its types cannot express.
type checker struct{ *loader }

// config makes the checks that do not depend on tasks. config is the eval's config before an adapter changes
// it.
func (c checker) config(config Config) {
	c.hooks()
	c.llm(config)
	c.programsOfSkills()
	c.schemaVersion()
	c.effort(config)
	checkIsolation(c.doc, config.Isolation)
	checkJudge(c.doc, config.Judge)
	c.canaries(config.Canaries)
	c.metrics()
	if injects := config.InjectSkillBody; config.SkillRouting && (injects == nil || *injects) {
		at := strictyaml.Path{"config", "trigger_skill_routing"}
		c.doc.Warnf(at, "%s has no effect in tasks, since the skill's text is in the prompt; set config.inject_skill_body: false", at)
	}
}

// newerThanKnown returns the reason why unknown keys of upstream's mappings are ignored: the eval names a
// newer version of their format, which may have more keys. It returns "" for other evals.
func newerThanKnown(doc *strictyaml.Document) string {
	var version string
	if at := "schemaVersion"; doc.Has(at) {
		doc.DecodeAt(&version, at)
	}
	major, rest, _ := strings.Cut(version, ".")
	known, ok := map[string]int{"1": 2, "2": 0}[major]
	if minor, err := strconv.Atoi(rest); !ok || err != nil || minor <= known {
		return ""
	}
	return fmt.Sprintf("schemaVersion %s is newer than %s.%d, which waza knows", version, major, known)
}

// schemaVersion rejects an unknown major version of the format, in which keys may have
// other meanings.
func (c checker) schemaVersion() {
	version := c.eval.SchemaVersion
	if major, _, _ := strings.Cut(version, "."); version != "" && major != "1" && major != "2" {
		c.doc.Problemf(strictyaml.Path{"schemaVersion"}, "schemaVersion %q is not supported; use 1.x or 2.x", version)
	}
}

// GroupByModel is the value of group_by.
const GroupByModel = "model"

// effort rejects a reasoning effort that the agent does not support.
func (c checker) effort(config Config) {
	at, own := strictyaml.Path{"config", "reasoning_effort"}, c.eval.Adapter
	switch {
	case config.ReasoningEffort == "":
	case evidence.AsksNoModel(config.Executor):
		c.doc.Warnf(at, "config.reasoning_effort has no effect: executor %s asks no model", config.Executor)
	case own != nil && own.Effort == nil:
		c.doc.Problemf(at, "config.reasoning_effort: %s does not support it; leave it out, or choose it with the model", own.Title)
	}
}

func (c checker) executor(config Config) {
	agent, image := strictyaml.Path{"config", "agent"}, strictyaml.Path{"config", "isolation", "agent", "image"}
	c.adapt(config)
	if config.Executor != evidence.ExecutorCommand {
		if config.Agent != nil && c.written != "" && c.written != evidence.ExecutorCommand {
			c.doc.Problemf(agent, "config.agent is for executor command; this eval's executor is %s", c.written)
		}
		return
	}
	if config.Agent == nil {
		c.doc.Problemf(agent, "executor command needs config.agent with the command to run")
	} else {
		c.agent(*config.Agent, agent)
	}
	if config.Isolation.Agent.Image == "" && !c.eval.Local && !c.bringsImage(config.Agent) {
		or := ""
		if c.eval.Adapter != nil {
			or = ", or image or npm in the adapter"
		}
		c.doc.Problemf(image, "executor command needs config.isolation.agent.image, the image that holds the command%s", or)
	}
}

// adapt finds the adapter of the eval's agent, if there is one.
func (c checker) adapt(config Config) {
	if config.Executor != evidence.ExecutorCommand {
		c.eval.Adapter, _ = adapter.Builtin(config.Executor)
		if c.eval.Adapter != nil && c.written == evidence.ExecutorCommand {
			c.eval.Config.Isolation.Agent.Image = "" // it holds the command
		}
		return
	}
	if config.Agent == nil || config.Agent.Adapter == "" {
		return
	}
	at := strictyaml.Path{"config", "agent", "adapter"}
	c.aloneIn(*config.Agent)
	if !files.IsInside(config.Agent.Adapter) {
		c.doc.Problemf(at, "%s must be a relative path without .., to a file in the eval's directory or below", at)
		return
	}
	a, err := adapter.Load(filepath.Join(c.eval.Dir(), config.Agent.Adapter))
	var problems strictyaml.Errors
	switch {
	case errors.As(err, &problems):
		c.fail(err)
	case err != nil:
		c.doc.Problemf(at, "%v", unreadable(config.Agent.Adapter, err))
	}
	c.eval.Adapter = a
}

// aloneIn rejects keys that the adapter sets.
func (c checker) aloneIn(a Agent) {
	for _, key := range strictyaml.Given(a) {
		if key != "adapter" {
			at := strictyaml.Path{"config", "agent", key}
			c.doc.Problemf(at, "%s: the adapter says this already; give one of them", at)
		}
	}
}

// bringsImage reports whether the agent's adapter has an image. It also returns true for a broken adapter,
// since that is reported elsewhere.
func (c checker) bringsImage(a *Agent) bool {
	if a == nil || a.Adapter == "" {
		return false
	}
	own := c.eval.Adapter
	return own == nil || own.Image != "" || len(own.NPM) > 0
}

func (c checker) agent(a Agent, at strictyaml.Path) {
	if a.Adapter != "" {
		return // adapt reports keys that cannot be combined with it
	}
	if a.Command == "" {
		c.doc.Problemf(at.With("command"), "missing key \"command\"; add config.agent.command, or config.agent.adapter")
	}
	for _, p := range adapter.Reporting(a.Output, a.Transcript, a.Skills) {
		path := slices.Concat(at, p.At)
		c.doc.Problemf(path, "%s: %s", path, p.What)
	}
}

func (c checker) metrics() {
	seen := map[string]bool{}
	for i, m := range c.eval.Metrics {
		at := strictyaml.Path{"metrics", i, "name"}
		switch {
		case m.Name == "":
		case seen[m.Name]:
			c.doc.Problemf(at, "metric %s appears twice", m.Name)
		}
		seen[m.Name] = true
	}
}

// measures warns of a metric that no grader measures.
func (c checker) measures(tasks []ResolvedTask) {
	behaviors := slices.ContainsFunc(tasks, func(t ResolvedTask) bool {
		return slices.ContainsFunc(t.Graders, func(g evidence.GraderSpec) bool { return g.Type == "behavior" })
	})
	for i, m := range c.eval.Metrics {
		if m.Name == "behavior_quality" && m.On() && !behaviors && len(tasks) > 0 {
			c.doc.Warnf(strictyaml.Path{"metrics", i, "name"}, "metric behavior_quality is the mean of behavior graders and no task has one: it is not measured")
		}
	}
}

// toolKinds are the values of LLM.Tools.
func toolKinds() []string { return []string{input.ToolsMCP, input.ToolsFiles, input.ToolsShell} }

// llm checks config.llm.
func (c checker) llm(config Config) {
	at := strictyaml.Path{"config", "llm"}
	if config.LLM != nil && c.written != "" && c.written != evidence.ExecutorLLM && config.Executor != evidence.ExecutorLLM {
		c.doc.Problemf(at, "config.llm is for executor llm; this eval's executor is %s", c.written)
	}
	if config.LLM == nil {
		return
	}
	for i, kind := range config.LLM.Tools {
		here := at.With("tools", i)
		if !slices.Contains(toolKinds(), kind) {
			c.doc.Problemf(here, "%s: unknown kind %q; %s", here, kind, strictyaml.Suggest(kind, toolKinds()))
		}
	}
}

// programsOfSkills warns of the first skill with Python programs when the agent's image is waza's,
// which lacks Python.
func (c checker) programsOfSkills() {
	own, builtin := adapter.Builtin(c.eval.Config.Executor)
	if !builtin || c.eval.Local || c.eval.Config.Isolation.Agent.Image != "" {
		return
	}
	for _, skill := range c.skills.all() {
		for _, file := range skill.Files {
			if path.Ext(file.Path) == ".py" {
				c.doc.Warnf(strictyaml.Path{"config", "executor"}, "skill %s has %s, and the image of %s lacks Python; name one that has both in config.isolation.agent.image", skill.Name, file.Path, own.Title)
				return
			}
		}
	}
}

// tasks checks the resolved tasks. servers are the servers that the eval or a task declares.
func (c checker) tasks(tasks []ResolvedTask, servers []string) {
	c.measures(tasks)
	c.planted(servers, tasks)
	c.requiredSkills(tasks)
	if !c.opts.NoSkills {
		c.found(tasks)
	}
}

// requiredSkills checks that every task has the skills that the eval requires, and that the skills which it
// disables exist.
func (c checker) requiredSkills(tasks []ResolvedTask) {
	known := c.skillNames // those of tasks included
	if len(tasks) == 0 {
		return
	}
	config := c.eval.Config
	for i, name := range config.RequiredSkills {
		at := strictyaml.Path{"config", "required_skills", i}
		if config.disables(name) {
			c.doc.Problemf(at, "%s: skill %q is disabled by config.disabled_skills", at, name)
			continue
		}
		has := func(s Skill) bool { return s.Name == name }
		if slices.ContainsFunc(c.skills.own, has) {
			continue // a task may replace it
		}
		for _, task := range tasks {
			if !slices.ContainsFunc(task.Skills, has) {
				c.doc.Problemf(at, "%s: task %s has no skill %q%s", at, task.ID, name, suggestSkill(known, name))
				break
			}
		}
	}
	for i, name := range config.DisabledSkills {
		if at := (strictyaml.Path{"config", "disabled_skills", i}); !known[name] && name != allSkills {
			c.doc.Problemf(at, "%s: no skill is called %q%s", at, name, suggestSkill(known, name))
		}
	}
}

// allSkills in disabled_skills means every skill.
const allSkills = "*"

// disables reports whether an eval withholds a skill from the agent.
func (c Config) disables(name string) bool {
	return slices.Contains(c.DisabledSkills, name) || slices.Contains(c.DisabledSkills, allSkills)
}

// suggestSkill ends a message about an unknown skill with a suggestion.
func suggestSkill(known map[string]bool, name string) string {
	if len(known) == 0 {
		return "; name a directory of skills in skill_directories"
	}
	return "; " + strictyaml.Suggest(name, slices.Collect(maps.Keys(known)))
}

// found reports an error if the eval's skill does not exist, since the agent would run without it.
func (c checker) found(tasks []ResolvedTask) {
	name, at := c.eval.Skill, strictyaml.Path{"skill"}
	if name == "" || len(tasks) == 0 || c.skills.has(name) {
		return
	}
	for _, task := range tasks {
		if slices.ContainsFunc(task.Skills, func(s Skill) bool { return s.Is(name) }) || c.eval.Config.disables(name) {
			return
		}
	}
	where := fmt.Sprintf("there is no skill %q in %s", name, strings.Join(c.skills.looked, ", "))
	if !readsSkills(c.eval.Config.Executor) {
		c.doc.Warnf(at, "%s, so that executor %s runs without it", where, c.eval.Config.Executor)
		return
	}
	c.doc.Problemf(at, "%s; start waza in the root of its repository, or name its directory in config.skill_directories", where)
}

// readsSkills reports whether an executor's agent is known to read skills.
func readsSkills(executor string) bool {
	return !evidence.AsksNoModel(executor) && executor != evidence.ExecutorCommand
}

// Hooks are commands around trials.
type Hooks struct {
	_ struct{} `unknown:"warn"`

	BeforeRun  []Hook `json:"before_run,omitempty" jsonschema:"commands to run before the agent of each trial, ahead of before_task; on the host they run once, before the first trial"`
	BeforeTask []Hook `json:"before_task,omitempty" jsonschema:"commands to run before the agent of each trial"`
	AfterTask  []Hook `json:"after_task,omitempty" jsonschema:"commands to run after the agent of each trial"`
	AfterRun   []Hook `json:"after_run,omitempty" jsonschema:"commands to run after the agent of each trial, following after_task; on the host they run once, after the last trial"`
}

// Hook is a command that runs in the agent's container, or on the host.
type Hook struct {
	_ struct{} `unknown:"warn"`

	Command          string `json:"command" jsonschema:"what sh -c runs, for up to 5 minutes, with the agent's environment"`
	WorkingDirectory string `json:"working_directory,omitempty" jsonschema:"working directory, relative to the workspace; on the host, to the directory waza was started in"`
	ExitCodes        []int  `json:"exit_codes,omitempty" jsonschema:"exit codes that count as success; default 0"`
	ErrorOnFail      bool   `json:"error_on_fail,omitempty" jsonschema:"if the command fails, do not start the agent, and end the trial as infra, reason sandbox; only for hooks before the agent"`
	Host             bool   `json:"host,omitempty" jsonschema:"run on the host, which needs --allow-host-hooks"`
}

// OnHost returns the path of the first hook that runs on the host, or "".
func (h *Hooks) OnHost() string {
	for _, hook := range h.all() {
		if hook.Host {
			return hook.at.String()
		}
	}
	return ""
}

// Accepted returns the exit codes that count as success.
func (h Hook) Accepted() []int {
	if len(h.ExitCodes) == 0 {
		return []int{0}
	}
	return h.ExitCodes
}

// placedHook is a hook with its path in the file.
type placedHook struct {
	Hook
	at strictyaml.Path
}

// all returns the hooks in the order in which they run.
func (h *Hooks) all() (all []placedHook) {
	if h == nil {
		return nil
	}
	for _, list := range []struct {
		key   string
		hooks []Hook
	}{{"before_run", h.BeforeRun}, {"before_task", h.BeforeTask}, {"after_task", h.AfterTask}, {"after_run", h.AfterRun}} {
		for i, hook := range list.hooks {
			all = append(all, placedHook{hook, strictyaml.Path{"hooks", list.key, i}})
		}
	}
	return all
}

func (c checker) hooks() {
	for _, hook := range c.eval.Hooks.all() {
		if hook.WorkingDirectory != "" && !hook.Host && !files.IsInside(hook.WorkingDirectory) {
			at := append(hook.at, "working_directory")
			c.doc.Problemf(at, "%s must be a directory in the workspace, relative, with / and without ..: hooks run in the trial's sandbox", at)
		}
	}
}

// ReservedEnv is the prefix of environment variables that the runner sets.
const ReservedEnv = "WAZA_"

var (
	runtimePattern   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	namespacePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
)

// taskNetworkBits is the size of a task network.
const taskNetworkBits = 29

func checkIsolation(doc *strictyaml.Document, iso Isolation) {
	at := func(steps ...any) strictyaml.Path {
		return append(strictyaml.Path{"config", "isolation"}, steps...)
	}
	for _, image := range []struct {
		path  strictyaml.Path
		value string
	}{
		{at("server_image"), iso.ServerImage}, {at("agent", "image"), iso.Agent.Image},
		{at("npm_image"), iso.NPMImage}, {at("pypi_image"), iso.PyPIImage},
	} {
		if strings.ContainsAny(image.value, " \t\r\n\x00") {
			doc.Problemf(image.path, "%s must not hold blanks", image.path)
		}
	}
	if iso.Runtime != "" && !runtimePattern.MatchString(iso.Runtime) {
		doc.Problemf(at("runtime"), "config.isolation.runtime is not a runtime's name")
	}
	if message := subnetProblem(iso.Subnets); message != "" {
		doc.Problemf(at("subnets"), "config.isolation.subnets %s", message)
	}
	if name := iso.Kubernetes.Namespace; name != "" && !namespacePattern.MatchString(name) {
		doc.Problemf(at("kubernetes", "namespace"), "config.isolation.kubernetes.namespace is not a namespace's name: it has lower-case letters, digits and dashes, at most 63")
	}
	checkInside(doc, at("kubernetes", "images"), iso.Kubernetes.Images, "a file below the eval's directory")
	for i, t := range iso.Kubernetes.Tolerations {
		if t.Operator == "Exists" && t.Value != "" || t.Operator != "Exists" && t.Key == "" {
			doc.Problemf(at("kubernetes", "tolerations", i), "config.isolation.kubernetes.tolerations: operator Exists takes no value, and every other a key")
		}
	}
	checkContainer(doc, at("agent"), iso.Agent)
	if _, err := mcpconfig.ParseSize(iso.EgressLimits.Bytes); iso.EgressLimits.Bytes != "" && err != nil {
		doc.Problemf(at("egress_limits", "bytes"), "%s: %v", at("egress_limits", "bytes"), err)
	}
}

func checkContainer(doc *strictyaml.Document, base strictyaml.Path, c AgentContainer) {
	at := func(step string) strictyaml.Path { return base.With(step) }
	for _, size := range []struct{ field, value string }{{"memory", c.Memory}, {"disk", c.Disk}, {"scratch", c.Scratch}, {"shm_size", c.ShmSize}, {"max_output", c.MaxOutput}} {
		if size.value == "" {
			continue
		}
		if _, err := mcpconfig.ParseSize(size.value); err != nil {
			doc.Problemf(at(size.field), "%s: %v", at(size.field), err)
		}
	}
	if c.User != "" {
		if err := mcpconfig.CheckUser(c.User); err != nil {
			doc.Problemf(at("user"), "%s %v", at("user"), err)
		}
	}
	checkInside(doc, at("workdir"), c.Workdir, "a path in the workspace")
	checkEnv(doc, at("env"), c.Env)
	_, problems := mcpconfig.ReadEgress(c.Egress)
	for _, p := range problems {
		entry := at("egress")
		if p.Index >= 0 {
			entry = append(entry, p.Index)
		}
		if p.Index >= 0 && c.Egress[p.Index].Host == "" {
			continue // reported as missing
		}
		doc.Problemf(entry, "%s %s", entry, p.What)
	}
}

// subnetProblem returns the error in an address range for task networks, or "".
func subnetProblem(s string) string {
	if s == "" {
		return ""
	}
	prefix, err := netip.ParsePrefix(s)
	switch {
	case err != nil || !prefix.Addr().Is4():
		return "must be an IPv4 range in CIDR notation, such as 10.213.0.0/16"
	case prefix.Bits() > taskNetworkBits:
		return "holds no /29, which is what one trial takes; use a wider range"
	case prefix.Masked() != prefix:
		return "has bits beyond its prefix; did you mean " + prefix.Masked().String() + "?"
	}
	return ""
}

func checkEnv(doc *strictyaml.Document, base strictyaml.Path, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		at := base.With(name)
		switch {
		case !mcpconfig.IsVariable(name):
			doc.KeyProblemf(at, "%s: %q is not a variable's name", base, name)
		case strings.HasPrefix(name, ReservedEnv):
			doc.KeyProblemf(at, "%s: names that begin with %s are set by waza itself; choose another", at, ReservedEnv)
		case strings.ContainsRune(env[name], 0):
			doc.Problemf(at, "%s must not hold a NUL character", at)
		}
	}
}
