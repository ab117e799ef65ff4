package eval

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/answer"
	"github.com/waza-isolate/waza/mcpconfig"
)

var (
	// idPattern matches IDs, which must be valid directory names.
	idPattern  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9_-])?$`)
	unsafeInID = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// ResolvedTask is an enabled task merged with its eval: defaults are set, layers merged, and
// all files found.
type ResolvedTask struct {
	ID           string
	Name         string
	Description  string
	Tags         []string
	Path         string // of the task file
	Line         int    // line of the task in the file; 0 if unknown
	Prompt       string
	Context      map[string]any // numbers are json.Number; nil if the task has none
	Env          map[string]string
	Workdir      string          // relative to the workspace; empty for the eval's
	Instructions []string        // put before the prompt
	FollowUps    []string        // further prompts, in the same conversation
	Responder    *Responder      // model that plays the user; may be nil
	Files        []WorkspaceFile // in the order of the task file
	Repos        []Repo          // with absolute paths
	Skills       []Skill
	Timeout      time.Duration
	FirstEvent   time.Duration               // time limit for the agent's first event; 0 for none
	Graders      []evidence.GraderSpec       // those of the eval, then of expected, then of the task
	Servers      map[string]mcpconfig.Server // variables not expanded
	Script       json.RawMessage             // a list, for executor script
	Answers      answer.Table                // compiled answers to requests of servers
	Checkpoints  []ResolvedCheckpoint        // by turn
	Faults       []cassette.Fault            // to inject, compiled after the eval is loaded
	Commands     []CommandMock               // played in the agent's container
	Trigger      *TriggerTest                // nil unless it is a prompt of trigger_tests.yaml
	Attack       *ResolvedAttack             // nil if the task has none
	Golden       bool                        // a gate fails unless the task passes
	Labels       map[string]json.RawMessage  // values that change no verdict and are copied to the results
}

// resolver resolves one task.
type resolver struct {
	*loader
	doc      *strictyaml.Document
	task     *Task
	fixtures string // the directory of its fixtures
}

func (r resolver) resolve() ResolvedTask {
	t, c := r.task, r.eval.Config
	id := r.checkID()
	r.checkScript()
	r.checkAnswers()
	r.fixtures = r.contextDir()
	instructions := r.readInputs()
	files, taken := r.files()
	repos := r.repos(taken)
	skills := r.taskSkills()
	graders, names := r.taskGraders(skills)
	resolved := ResolvedTask{
		ID: id, Name: t.Name, Description: t.Description, Tags: t.Tags, Path: t.Path, Line: t.line,
		Prompt: t.Inputs.Prompt, Context: t.Inputs.Context, Script: t.Script, Answers: t.Answers,
		Env:     map[string]string{},
		Files:   files,
		Repos:   repos,
		Workdir: t.Inputs.Workdir, Instructions: instructions, FollowUps: t.Inputs.FollowUps, Responder: t.Inputs.Responder,
		Skills:  skills,
		Timeout: time.Duration(c.TimeoutSeconds) * time.Second, FirstEvent: time.Duration(c.FirstEventSeconds) * time.Second,
		Graders: graders, Checkpoints: r.checkpoints(),
		Attack:  r.attack(taken, names),
		Servers: r.declare(r.doc, t.MCPServers),
		Faults:  faultsOf(r, id),
	}
	var labels labels
	if t.ID != id {
		labels.keep("id", t.ID)
	}
	if t.Expected.ShouldTrigger != nil {
		labels.keep("should_trigger", *t.Expected.ShouldTrigger)
	}
	resolved.Labels, resolved.Golden = labels, t.Golden
	if resolved.Name == "" {
		resolved.Name = t.ID
	}
	if t.TimeoutSeconds > 0 {
		resolved.Timeout = time.Duration(t.TimeoutSeconds) * time.Second
	}
	if resolved.Commands = r.eval.Commands; r.doc.Has("command_mocks") {
		commandMocks(r.doc, r.eval, t.Commands)
		resolved.Commands = t.Commands
	}
	var err error
	if resolved.Commands, err = playedCommands(r.eval, resolved.ID, resolved.Commands); err != nil {
		r.doc.Problemf(nil, "cassette: %s", flat(err))
	}
	if t.FirstEventSeconds != nil {
		resolved.FirstEvent = time.Duration(*t.FirstEventSeconds) * time.Second
	}
	maps.Copy(resolved.Env, c.Isolation.Agent.Env)
	maps.Copy(resolved.Env, t.Inputs.Environment)
	return resolved
}

// checkID returns an ID that is safe as a directory name, and checks that it is unique even on a file system
// that ignores case. An unsafe ID is replaced by its letters and a digest.
func (r resolver) checkID() string {
	at, id := strictyaml.Path{"id"}, r.task.ID
	if id == "" {
		return "" // reported as missing
	}
	if !idPattern.MatchString(id) {
		sum := sha256.Sum256([]byte(id))
		id = strings.Trim(unsafeInID.ReplaceAllString(id, "-"), "-._")
		id = strings.TrimLeft(id[:min(len(id), 50)]+"-"+hex.EncodeToString(sum[:4]), "-")
	}
	folded := strings.ToLower(id)
	if other, taken := r.ids[folded]; taken {
		r.doc.Problemf(at, "task id %q is already used by %s; choose another", r.task.ID, other)
		return id
	}
	r.ids[folded] = r.task.Path
	return id
}

// checkScript checks the script of a task whatever its executor is, since the next run may use executor
// script.
func (r resolver) checkScript() {
	at := strictyaml.Path{"script"}
	switch has := r.doc.Has(at...); {
	case !has && r.eval.Config.Executor == evidence.ExecutorScript:
		r.doc.Problemf(at, `missing key "script"; add the steps that executor script plays`)
	case has && r.opts.CheckScript != nil:
		r.opts.CheckScript(r.doc, at...)
		if r.eval.Config.Executor == evidence.ExecutorScript {
			r.checkScriptServers(at)
		}
	}
}

// checkAnswers compiles the answers to requests of servers. It rejects answers for an executor that cannot
// give them, since its agent would run without them.
func (r resolver) checkAnswers() {
	at := strictyaml.Path{"answers"}
	if executor := r.eval.Config.Executor; r.task.Answers != nil && executor != evidence.ExecutorScript && executor != evidence.ExecutorLLM {
		r.doc.Problemf(at, "answers are given by executors script and llm, and the executor is %s; remove them, or choose one of the two", executor)
	}
	declared := r.serverNames()
	for _, name := range slices.Sorted(maps.Keys(r.task.Answers)) {
		at, server := at.With(name), r.task.Answers[name]
		if !slices.Contains(declared, name) {
			r.doc.KeyProblemf(at, "answers name %s", notDeclared(name, declared))
		}
		if server == (answer.Server{}) && !r.doc.Reported(at...) {
			r.doc.Problemf(at, "%s needs at least one of %s", at, strings.Join(input.Kinds(), ", "))
		}
		for _, kind := range input.Kinds() {
			if a := server.Of(kind); a != nil && !r.doc.Reported(at.With(kind)...) {
				if err := a.Compile(kind); err != nil {
					r.doc.Problemf(at.With(kind), "%s: %v", at.With(kind), err)
				}
			}
		}
	}
}

// checkScriptServers checks that servers named by the script at a path are declared. As with graders, a
// server that the task removes counts as declared.
func (r resolver) checkScriptServers(script strictyaml.Path) {
	declared := r.serverNames()
	for at, called := range ScriptCalls(r.task.Script) {
		if !hidesServers(r.eval) && !strings.Contains(called.Server, "{{") && !slices.Contains(declared, called.Server) {
			r.doc.Problemf(script.With(at...).With("server"), "the script names %s", notDeclared(called.Server, declared))
		}
	}
}

// taskGraders returns the graders of the task and of the eval, and their names.
func (r resolver) taskGraders(skills []Skill) ([]evidence.GraderSpec, map[string]string) {
	g := r.newGraders(r.doc)
	g.expected(r.task.Expected)
	r.shouldTrigger(g, skills)
	g.add(r.task.Graders, strictyaml.Path{"graders"}, " in this task")
	g.checkServers(r.serverNames())
	r.agentTools(g, skills)
	var all []evidence.GraderSpec
	for _, s := range r.loader.graders { // a grader of the task replaces the eval's grader with the same name
		if _, replaced := g.seen[s.Name]; !replaced {
			g.seen[s.Name] = " by the eval"
			all = append(all, s)
		}
	}
	return slices.Concat(all, g.specs), g.seen
}

// agentTools adds a grader for the tools that a custom agent lists, if no other grader checks tools.
func (r resolver) agentTools(g *graders, skills []Skill) {
	i := slices.IndexFunc(skills, func(s Skill) bool { return s.Tools != nil })
	about := func(s evidence.GraderSpec) bool { return s.Type == "tool_constraint" || s.Name == agentTools }
	if i < 0 || r.opts.NoSkills || slices.ContainsFunc(slices.Concat(r.loader.graders, g.specs), about) {
		return
	}
	g.short(Grader{Name: agentTools, Type: "tool_constraint"}, grading.ToolsOf(*skills[i].Tools), strictyaml.Path{"inputs"})
}

// agentTools is the name of the grader for a custom agent's tools, as in upstream waza.
const agentTools = "agent_tools_implicit"

// serverNames returns the servers that the eval or the task declares, each once and in order.
func (r resolver) serverNames() []string {
	names := slices.Concat(r.eval.MockNames(), slices.Collect(maps.Keys(r.task.MCPServers)), slices.Collect(maps.Keys(r.eval.Config.MCPServers)))
	slices.Sort(names)
	return slices.Compact(names) // a server of the task may also be in the eval
}

// Attack is a prompt injection test: the attacker's goal, and how the injection reaches the agent.
type Attack struct {
	Goal    string      `json:"goal" jsonschema:"the attacker's goal, in one line"`
	Inject  []Injection `json:"inject" jsonschema:"where the attacker's text is placed"`
	Success []Grader    `json:"success" jsonschema:"graders that decide whether the attack succeeded: it did if all pass"`
	Gate    bool        `json:"gate,omitempty" jsonschema:"fail a trial whose attack succeeds; default false: report it without changing the verdict"`
}

// Injection is one place of an attacker's text: a file of the workspace, or the results of a tool.
type Injection struct {
	File    string  `json:"file,omitempty" jsonschema:"path in the workspace"`
	Content *string `json:"content,omitempty" jsonschema:"content of a file that nothing else creates"`
	Append  *string `json:"append,omitempty" jsonschema:"text to append to a file of the task or of a canary"`

	Server string `json:"server,omitempty" jsonschema:"server of the tool whose results get the text"`
	Tool   string `json:"tool,omitempty" jsonschema:"exact name of the tool"`
	Text   string `json:"text,omitempty" jsonschema:"text to add to each successful result, as the last text block"`
	Match  string `json:"match,omitempty" jsonschema:"only change results with a text that contains this"`
}

// ResolvedAttack is an attack with its graders resolved.
type ResolvedAttack struct {
	Attack
	Success []evidence.GraderSpec
}

// attack resolves the task's attack. It returns nil if there is none. taken holds the paths of the task's
// files.
func (r resolver) attack(taken claims, names map[string]string) *ResolvedAttack {
	a, at := r.task.Attack, strictyaml.Path{"attack"}
	if a == nil {
		return nil
	}
	if strings.ContainsAny(a.Goal, "\r\n") {
		r.doc.Problemf(at.With("goal"), "attack.goal has several lines; write it on one")
	}
	for i, one := range a.Inject {
		r.checkInjection(one, taken, at.With("inject", i))
	}
	g := r.newGraders(r.doc)
	g.seen = names
	g.add(a.Success, at.With("success"), " in this task's attack")
	g.checkServers(r.serverNames())
	return &ResolvedAttack{*a, g.specs}
}

func (r resolver) checkInjection(one Injection, taken claims, at strictyaml.Path) {
	key := func(name string) strictyaml.Path { return at.With(name) }
	ofTool := one.Server != "" || one.Tool != "" || one.Text != "" || one.Match != ""
	ofFile := one.File != "" || one.Content != nil || one.Append != nil
	switch {
	case ofTool == ofFile:
		r.doc.Problemf(at, "%s is either a file with content or append, or a server and a tool with text", at)
	case ofFile:
		r.checkInjectedFile(one, taken, at)
	case one.Server == "" || one.Tool == "" || one.Text == "":
		r.doc.Problemf(at, "%s needs server, tool and text", at)
	case !slices.Contains(r.serverNames(), one.Server):
		r.doc.Problemf(key("server"), "%s is %q, which is not a server of this task; %s", key("server"), one.Server, suggest(one.Server, r.serverNames()))
	}
}

func (r resolver) checkInjectedFile(one Injection, taken claims, at strictyaml.Path) {
	at = at.With("file")
	clean := path.Clean(one.File)
	switch {
	case (one.Content == nil) == (one.Append == nil):
		r.doc.Problemf(at[:len(at)-1], "%s needs content, or append", at[:len(at)-1])
	case !files.IsInside(one.File) || clean == ".":
		r.doc.Problemf(at, "file %q must be a path in the workspace, relative, with / and without ..", one.File)
	case one.Append != nil && !taken.appendable[clean]:
		r.doc.Problemf(at, "file %q is not a file of this task; append adds to a file of inputs.files or of a canary, and content creates a file", one.File)
	case one.Content != nil:
		if other := taken.claim(clean, "another file of this task"); other != "" {
			r.doc.Problemf(at, "file %q is in the way of %s; %s", one.File, other, remedy(clean))
		}
	}
}

// Checkpoint has graders that judge the state between two turns of a conversation.
type Checkpoint struct {
	_ struct{} `unknown:"warn"`

	AfterTurn int      `json:"after_turn" min:"1" jsonschema:"turn to grade after: 1 is the prompt, and follow-up prompts come next; at most one checkpoint for each turn"`
	Graders   []Grader `json:"graders" jsonschema:"graders, written like those of a task"`
	OnFailure string   `json:"on_failure,omitempty" enum:"continue stop" jsonschema:"what to do if a grader does not pass: continue records it; stop ends the conversation, and the trial does not pass; default continue"`
}

// ResolvedCheckpoint is a checkpoint with its graders resolved.
type ResolvedCheckpoint struct {
	AfterTurn int                   `json:"after_turn"`
	Graders   []evidence.GraderSpec `json:"graders"`
	Stop      bool                  `json:"stop,omitempty"`
}

// checkpoints returns the task's checkpoints by turn. Names of graders are unique within each.
func (r resolver) checkpoints() []ResolvedCheckpoint {
	var all []ResolvedCheckpoint
	turns := r.task.Inputs.maxTurns()
	for i, c := range r.task.Checkpoints {
		at := strictyaml.Path{"checkpoints", i, "after_turn"}
		switch {
		case slices.ContainsFunc(all, func(other ResolvedCheckpoint) bool { return other.AfterTurn == c.AfterTurn }):
			r.doc.Problemf(at, "there is a checkpoint after turn %d already; add its graders to that", c.AfterTurn)
		case c.AfterTurn > turns:
			r.doc.Problemf(at, "%s is %d, and the conversation has %s", at, c.AfterTurn, text.Count(turns, "turn"))
		}
		g := r.newGraders(r.doc)
		g.add(c.Graders, strictyaml.Path{"checkpoints", i, "graders"}, "")
		g.checkServers(r.serverNames())
		for _, ask := range grading.Asks(g.specs) {
			if ask.Kind == evidence.StepCall {
				r.doc.Problemf(at[:2].With("graders"), "grader %q calls a server, which would change what the agent finds after the checkpoint; judge by the calls, or move it to the task's graders", ask.Grader)
			}
		}
		all = append(all, ResolvedCheckpoint{AfterTurn: c.AfterTurn, Graders: g.specs, Stop: c.OnFailure == "stop"})
	}
	slices.SortFunc(all, func(a, b ResolvedCheckpoint) int { return cmp.Compare(a.AfterTurn, b.AfterTurn) })
	return all
}

// maxTurns returns the maximum number of turns of a conversation.
func (in Inputs) maxTurns() int {
	if in.Responder != nil {
		return 1 + in.Responder.MaxFollowups
	}
	return 1 + len(in.FollowUps)
}

// Responder is a model that answers the agent instead of its user.
type Responder struct {
	_ struct{} `unknown:"warn"`

	Model        string `json:"model,omitempty" jsonschema:"model that plays the user; default the model of config.judge, or else the agent's"`
	Instructions string `json:"instructions" jsonschema:"who the user is, what they want, and when to stop answering"`
	MaxFollowups int    `json:"max_followups" min:"1" max:"100" jsonschema:"limit of replies"`
}

// shouldTrigger adds a grader for whether the agent invoked the skill under test, if this can be observed:
// the agent has the skill, and invokes and reports skills. If the skill's text is in the prompt, the agent
// need not invoke it.
func (r resolver) shouldTrigger(g *graders, skills []Skill) {
	should, eval := r.task.Expected.ShouldTrigger, r.eval
	i := slices.IndexFunc(skills, func(s Skill) bool { return s.Is(eval.Skill) })
	if should == nil || i < 0 || r.opts.NoSkills || !eval.reportsSkills() {
		return
	}
	if _, injected := eval.Injected(skills, nil); *should && injected {
		if eval.Config.InjectSkillBody == nil {
			at := strictyaml.Path{"expected", "should_trigger"}
			r.doc.Warnf(at, "%s is not checked, since the skill's text is in the prompt; set config.inject_skill_body: false to check it", at)
		}
		return
	}
	config := grading.SkillInvocationConfig{ForbiddenSkills: []string{skills[i].Name}}
	if *should {
		config = grading.SkillInvocationConfig{RequiredSkills: []string{skills[i].Name}, Mode: "any_order"}
	}
	g.short(Grader{Name: expectedTrigger, Type: "skill_invocation"}, config, strictyaml.Path{"expected"})
}

// taskSkills returns the skills of the task, except disabled ones. Directories of the task replace those of
// the eval. As in upstream waza, skills in the directory where waza was started stay.
func (r resolver) taskSkills() []Skill {
	at := strictyaml.Path{"skill_directories"}
	own, found := r.skills.own, r.skills.found
	replaces := len(r.task.SkillDirectories) > 0 || r.doc.Has(at...) && len(r.eval.Scenario) > 0
	if replaces {
		found = slices.DeleteFunc(r.skills.all(), func(s Skill) bool { return !s.at(r.eval.start) })
		own = skillsOf(r.doc, r.eval, r.task.SkillDirectories, at)
	}
	var all []Skill
	taken := map[string]string{} // name → directory
	size, count := int64(0), 0
	add := func(s Skill) {
		taken[s.Name] = s.dir
		size, count = size+s.size(), count+len(s.Files)
		all = append(all, s)
	}
	disabled := func(s Skill) bool { return r.eval.Config.disables(s.Name) }
	for _, s := range own {
		r.skillNames[s.Name] = true
		switch other, there := taken[s.Name]; {
		case disabled(s) || there && other == s.dir:
		case there:
			r.doc.Problemf(at, "skill %s is there twice, in %s and in %s", s.Name, other, s.dir)
		default:
			add(s)
		}
	}
	for _, s := range found { // those for which there is room, and always the skill that the eval is about
		_, there := taken[s.Name]
		fits := size+s.size() <= MaxWorkspaceBytes && count+len(s.Files) <= maxFiles
		if !there && !disabled(s) && (fits || s.Is(r.eval.Skill)) {
			add(s)
		}
	}
	if size > MaxWorkspaceBytes || count > maxFiles {
		r.doc.Problemf(at, "the task's skills are more than %d files or %d MiB together", maxFiles, MaxWorkspaceBytes>>20)
	}
	name := r.eval.Skill
	has := func(s Skill) bool { return s.Is(name) }
	if replaces && r.skills.has(name) && !slices.ContainsFunc(all, has) && !r.eval.Config.disables(name) {
		r.doc.Warnf(at, "skill_directories replace the eval's in this task, and hold no skill %q, which the eval is about", name)
	}
	return all
}
