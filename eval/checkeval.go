package eval

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/transcript"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
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
