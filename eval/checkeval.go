package eval

import (
	"maps"
	"net/netip"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// checkEval holds the eval to what its tags cannot say.
func (l *loader) checkEval() {
	l.mocks()
	l.eval.commands = l.commandMocks(l.doc, l.eval.Commands)
	l.checkHooks()
	l.layServers()
	c := l.eval.Config
	if l.doc.Has("config", "workers") && l.doc.Has("config", "max_workers") {
		l.doc.Problemf(strictyaml.Path{"config", "max_workers"}, "config.max_workers is the older name of config.workers; give one of them")
	}
	l.checkExecutor(c)
	l.checkLLM(c)
	l.evalSkills = l.skills(l.doc, c.SkillDirectories, strictyaml.Path{"config", "skill_directories"})
	l.findSkills()
	l.warnOfScripts()
	l.checkSchemaVersion()
	l.checkEffort(c)
	if l.eval.Adversarial != nil {
		l.doc.Warnf(strictyaml.Path{"adversarial"}, "adversarial has no effect: its packs are run by a command of their own in waza, and there is none here; attack of a task says what somebody else wants of the agent")
	}
	if c.GroupBy != "" && c.GroupBy != GroupByModel {
		l.doc.Warnf(strictyaml.Path{"config", "group_by"}, "config.group_by: %q groups nothing; results are grouped by model", c.GroupBy)
	}
	checkIsolation(l.doc, c.Isolation)
	checkJudge(l.doc, c.Judge)
	l.checkCanaries(c.Canaries)
	l.checkModels(c)
	l.servers = append(slices.Collect(maps.Keys(c.MCPServers)), l.eval.mockNames()...)
	l.graders = graders{doc: l.doc, eval: l.eval, update: l.opts.UpdateSnapshots, seen: map[string]string{}}
	l.graders.add(l.eval.Graders, strictyaml.Path{"graders"}, "")
	l.checkMetrics()
}

// checkSchemaVersion refuses another major version of the format than those that are known:
// in such a file keys may mean something else.
func (l *loader) checkSchemaVersion() {
	version := l.eval.SchemaVersion
	if major, _, _ := strings.Cut(version, "."); version != "" && major != "1" && major != "2" {
		l.doc.Problemf(strictyaml.Path{"schemaVersion"}, "schemaVersion %q is none that is read here, which are 1.x and 2.x", version)
	}
}

// GroupByModel is what results can be grouped by.
const GroupByModel = "model"

// checkEffort refuses a reasoning effort that the agent cannot be told.
func (l *loader) checkEffort(c Config) {
	at, own := strictyaml.Path{"config", "reasoning_effort"}, l.eval.Adapter
	switch {
	case c.ReasoningEffort == "":
	case c.Executor == "mock" || c.Executor == "script":
		l.doc.Warnf(at, "config.reasoning_effort has no effect: executor %s asks no model", c.Executor)
	case own != nil && own.Effort == nil:
		l.doc.Problemf(at, "config.reasoning_effort: %s has no way to be told how much to reason; leave it out, or say it in its model", own.Title)
	}
}

func (l *loader) checkExecutor(c Config) {
	agent, image := strictyaml.Path{"config", "agent"}, strictyaml.Path{"config", "isolation", "agent", "image"}
	l.adapt(c)
	if c.Executor != "command" {
		if c.Agent != nil && l.written != "" && l.written != "command" {
			l.doc.Problemf(agent, "config.agent is for executor command; this eval's executor is %s", l.written)
		}
		return
	}
	if c.Agent == nil {
		l.doc.Problemf(agent, "executor command needs config.agent with the command to run")
	} else {
		l.checkAgent(*c.Agent, agent)
	}
	if c.Isolation.Agent.Image == "" && !l.eval.Local && !l.bringsImage(c.Agent) {
		or := ""
		if l.eval.Adapter != nil {
			or = ", or image or npm in the adapter"
		}
		l.doc.Problemf(image, "executor command needs config.isolation.agent.image, the image that holds the command%s", or)
	}
}

func (l *loader) checkAgent(a Agent, at strictyaml.Path) {
	if a.Adapter != "" {
		return // adapt says what may not stand beside it
	}
	if a.Command == "" {
		l.doc.Problemf(append(slices.Clone(at), "command"), "missing key \"command\"; add config.agent.command, or config.agent.adapter")
	}
	output := append(slices.Clone(at), "output")
	switch {
	case a.Output == "transcript" && a.Transcript == nil:
		l.doc.Problemf(output, "%s: the messages of the transcript need %s.transcript, which says where that is", output, at)
	case a.Output != "" && a.Output != "stdout" && a.Output != "transcript" && !isInside(a.Output):
		l.doc.Problemf(output, "%s must be stdout, transcript or the path of a file in the workspace, relative and without leading out", output)
	}
	if a.Skills != "" && (!isInside(a.Skills) || path.Clean(a.Skills) == ".") {
		path := append(slices.Clone(at), "skills")
		l.doc.Problemf(path, "%s must be the path of a directory in the workspace, relative and without leading out", path)
	}
	if a.Transcript != nil {
		l.checkTranscript(*a.Transcript, append(slices.Clone(at), "transcript"))
	}
}

func (l *loader) checkTranscript(s transcript.Source, at strictyaml.Path) {
	if s.From != "" && s.From != "stdout" && s.From != "stderr" && !isInside(s.From) {
		path := append(slices.Clone(at), "from")
		l.doc.Problemf(path, "%s must be stdout, stderr or the path of a file in the workspace, relative and without leading out", path)
	}
	for _, p := range s.Problems() {
		path := slices.Concat(at, p.At)
		l.doc.Problemf(path, "%s: %s", path, p.What)
	}
}

func (l *loader) checkMetrics() {
	seen := map[string]bool{}
	for i, m := range l.eval.Metrics {
		at := strictyaml.Path{"metrics", i, "name"}
		switch {
		case m.Name == "":
		case seen[m.Name]:
			l.doc.Problemf(at, "metric %s stands here twice", m.Name)
		case !m.On():
		}
		seen[m.Name] = true
	}
}

// checkMeasures refuses a metric that nothing would be measured for.
func (l *loader) checkMeasures(tasks []ResolvedTask) {
	behaviors := slices.ContainsFunc(tasks, func(t ResolvedTask) bool {
		return slices.ContainsFunc(t.Graders, func(g evidence.GraderSpec) bool { return g.Type == "behavior" })
	})
	for i, m := range l.eval.Metrics {
		if m.Name == "behavior_quality" && m.On() && !behaviors && len(tasks) > 0 {
			l.doc.Warnf(strictyaml.Path{"metrics", i, "name"}, "metric behavior_quality is the mean of behavior graders and no task has one: it is not measured")
		}
	}
}

// Hooks are commands around trials.
type Hooks struct {
	_ struct{} `unknown:"warn"`

	BeforeRun  []Hook `json:"before_run,omitempty" jsonschema:"commands before every trial's agent, ahead of before_task; on the host once, before the first trial"`
	BeforeTask []Hook `json:"before_task,omitempty" jsonschema:"commands before every trial's agent"`
	AfterTask  []Hook `json:"after_task,omitempty" jsonschema:"commands after every trial's agent"`
	AfterRun   []Hook `json:"after_run,omitempty" jsonschema:"commands after every trial's agent, behind after_task; on the host once, after the last trial"`
}

// Hook is a command that runs in the agent's container, or on the host.
type Hook struct {
	_ struct{} `unknown:"warn"`

	Command          string `json:"command" jsonschema:"what the shell runs"`
	WorkingDirectory string `json:"working_directory,omitempty" jsonschema:"where it starts, relative to the workspace; on the host to where waza was started"`
	ExitCodes        []int  `json:"exit_codes,omitempty" jsonschema:"exit codes that are no failure; default 0"`
	ErrorOnFail      bool   `json:"error_on_fail,omitempty" jsonschema:"have no agent started where it fails; of hooks before the agent"`
	Host             bool   `json:"host,omitempty" jsonschema:"run it on the host, which --allow-host-hooks has to allow; default false"`
}

// OnHost is the place of the first hook that runs on the host; empty where none does.
func (h *Hooks) OnHost() string {
	for _, hook := range h.all() {
		if hook.Host {
			return hook.at.String()
		}
	}
	return ""
}

// Accepted are the exit codes that are no failure.
func (h Hook) Accepted() []int {
	if len(h.ExitCodes) == 0 {
		return []int{0}
	}
	return h.ExitCodes
}

// placedHook is a hook and where it stands.
type placedHook struct {
	Hook
	at strictyaml.Path
}

// all are the hooks in the order in which they run.
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

func (l *loader) checkHooks() {
	for _, hook := range l.eval.Hooks.all() {
		if hook.WorkingDirectory != "" && !hook.Host && !isInside(hook.WorkingDirectory) {
			at := append(hook.at, "working_directory")
			l.doc.Problemf(at, "%s must be a directory in the workspace, relative and without leading out: hooks run in the trial's sandbox", at)
		}
	}
}

// EnvPattern is what the name of an environment variable must match, and
// ReservedEnv what it must not begin with: those the runner sets itself.
const (
	EnvPattern  = `^[A-Za-z_][A-Za-z0-9_]*$`
	ReservedEnv = "WAZA_"
)

var (
	runtimePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	envPattern     = regexp.MustCompile(EnvPattern)
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
	checkContainer(doc, at("agent"), iso.Agent)
	if _, err := mcpconfig.ParseSize(iso.EgressLimits.Bytes); iso.EgressLimits.Bytes != "" && err != nil {
		doc.Problemf(at("egress_limits", "bytes"), "%s: %v", at("egress_limits", "bytes"), err)
	}
}

func checkContainer(doc *strictyaml.Document, base strictyaml.Path, c AgentContainer) {
	at := func(step string) strictyaml.Path { return append(slices.Clone(base), step) }
	for _, size := range []struct{ field, value string }{{"memory", c.Memory}, {"disk", c.Disk}, {"scratch", c.Scratch}, {"max_output", c.MaxOutput}} {
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
	if c.Workdir != "" && !isInside(c.Workdir) {
		doc.Problemf(at("workdir"), "%s must be a path in the workspace, relative and without leading out", at("workdir"))
	}
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

// subnetProblem says what is wrong with a range of task networks.
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
		at := append(slices.Clone(base), name)
		switch {
		case !envPattern.MatchString(name):
			doc.KeyProblemf(at, "%s: %q is not a variable's name", base, name)
		case strings.HasPrefix(name, ReservedEnv):
			doc.KeyProblemf(at, "%s: names that begin with %s are set by waza itself; choose another", at, ReservedEnv)
		case strings.ContainsRune(env[name], 0):
			doc.Problemf(at, "%s must not hold a NUL character", at)
		}
	}
}

// isInside reports whether p is a path in the workspace that does not lead out.
func isInside(p string) bool {
	return filepath.IsLocal(p) && !path.IsAbs(p) && !strings.ContainsAny(p, "\\\x00")
}
