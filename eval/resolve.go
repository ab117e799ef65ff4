package eval

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/cmdmock"
)

var (
	// idPattern is what an id matches that can name a directory.
	idPattern  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9_-])?$`)
	unsafeInID = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// ResolvedTask is an enabled task with its eval's part in it: defaults filled in,
// layers merged, every file found.
type ResolvedTask struct {
	ID           string
	Name         string
	Description  string
	Tags         []string
	Path         string // of the task file
	Prompt       string
	Context      map[string]any // numbers as json.Number; nil where the task has none
	Env          map[string]string
	Workdir      string          // in the workspace; empty for the eval's
	Instructions []string        // that go before the prompt
	FollowUps    []string        // prompts behind the first, in the same conversation
	Responder    *Responder      // who answers the agent in their place; nil for nobody
	Files        []WorkspaceFile // in the order of the task file
	Repos        []Repo          // their paths absolute
	Skills       []Skill
	Timeout      time.Duration
	FirstEvent   time.Duration               // in which the agent must begin; 0 for no limit
	Graders      []evidence.GraderSpec       // the eval's, then expected's, then the task's
	Servers      map[string]mcpconfig.Server // variables not expanded
	Script       json.RawMessage             // a list, with executor script only
	Checkpoints  []ResolvedCheckpoint        // by turn
	Commands     []cmdmock.Command           // that are played in the agent's box
	Trigger      *TriggerTest                // nil unless it is a prompt of trigger_tests.yaml
	Attack       *ResolvedAttack             // nil where the task has none
	Labels       map[string]json.RawMessage  // what changes no verdict and is kept in the results
}

// resolver resolves one task of a loader's eval.
type resolver struct {
	loader *loader
	doc    *strictyaml.Document
	task   *Task
}

func (r resolver) resolve() ResolvedTask {
	t, c := r.task, r.loader.eval.Config
	id := r.checkID()
	r.checkScript()
	instructions, fixture := r.readInputs()
	r.fill()
	if strings.ContainsRune(t.Inputs.Prompt, 0) {
		r.doc.Problemf(strictyaml.Path{"inputs", "prompt"}, "inputs.prompt must not hold a NUL character")
	}
	checkEnv(r.doc, strictyaml.Path{"inputs", "environment"}, t.Inputs.Environment)
	files, taken := r.files(fixture)
	repos := r.repos(taken)
	skills := r.skills()
	graders, names := r.graders(skills)
	resolved := ResolvedTask{
		ID: id, Name: t.Name, Description: t.Description, Tags: t.Tags, Path: t.Path,
		Prompt: t.Inputs.Prompt, Context: t.Inputs.Context, Script: t.Script,
		Env:     map[string]string{},
		Files:   files,
		Repos:   repos,
		Workdir: t.Inputs.Workdir, Instructions: instructions, FollowUps: t.Inputs.FollowUps, Responder: t.Inputs.Responder,
		Skills:  skills,
		Timeout: time.Duration(c.TimeoutSeconds) * time.Second, FirstEvent: time.Duration(c.FirstEventSeconds) * time.Second,
		Graders: graders, Checkpoints: r.checkpoints(),
		Attack:  r.attack(taken, names),
		Servers: servers{r.doc, under(r.doc, "mcp_servers"), r.loader.eval}.merge(t.MCPServers),
	}
	labels := labels{}
	labels.keep("golden", t.Golden)
	if t.ID != id {
		labels.keep("id", t.ID)
	}
	if t.Expected.ShouldTrigger != nil {
		labels.keep("should_trigger", *t.Expected.ShouldTrigger)
	}
	resolved.Labels = labels.orNil()
	if resolved.Name == "" {
		resolved.Name = t.ID
	}
	if t.TimeoutSeconds > 0 {
		resolved.Timeout = time.Duration(t.TimeoutSeconds) * time.Second
	}
	if resolved.Commands = r.loader.eval.commands; r.doc.Has("command_mocks") {
		resolved.Commands = r.loader.commandMocks(r.doc, t.Commands)
	}
	if t.FirstEventSeconds != nil {
		resolved.FirstEvent = time.Duration(*t.FirstEventSeconds) * time.Second
	}
	maps.Copy(resolved.Env, c.Isolation.Agent.Env)
	maps.Copy(resolved.Env, t.Inputs.Environment)
	return resolved
}

// checkID holds that the id is a safe directory name, unlike every other even
// where file names ignore case.
// One that is not gives its letters to one that is.
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
	if other, taken := r.loader.ids[folded]; taken {
		r.doc.Problemf(at, "task id %q is taken already, by %s", r.task.ID, other)
		return id
	}
	r.loader.ids[folded] = r.task.Path
	return id
}

func (r resolver) checkScript() {
	at, executor := strictyaml.Path{"script"}, r.loader.eval.Config.Executor
	steps := bytes.TrimSpace(r.task.Script)
	if steps != nil {
		r.loader.scripts++
	}
	switch {
	case executor == "" || r.loader.overridden(): // reported with the eval
	case executor != "script":
		if steps != nil {
			r.doc.Problemf(at, "script is for executor script; this eval's executor is %s", executor)
		}
	case steps == nil:
		r.doc.Problemf(at, `missing key "script"; executor script needs the steps to play`)
	case steps[0] != '[' || string(steps) == "[]":
		r.doc.Problemf(at, "script must be a list of steps")
	case r.loader.opts.CheckScript != nil:
		if err := r.loader.opts.CheckScript(steps); err != nil {
			r.doc.Problemf(at, "script: %s", flat(err))
		}
	}
}

// graders are the task's, with the names that they have.
func (r resolver) graders(skills []Skill) ([]evidence.GraderSpec, map[string]string) {
	g := graders{doc: r.doc, eval: r.loader.eval, update: r.loader.opts.UpdateSnapshots, seen: map[string]string{}}
	g.expected(r.task.Expected)
	r.shouldTrigger(&g, skills)
	g.add(r.task.Graders, strictyaml.Path{"graders"}, " in this task")
	g.checkServers(r.serverNames())
	r.loader.servers = append(r.loader.servers, slices.Collect(maps.Keys(r.task.MCPServers))...)
	var all []evidence.GraderSpec
	for _, s := range r.loader.graders.specs { // one of the task's of the same name takes its place
		if _, replaced := g.seen[s.Name]; !replaced {
			g.seen[s.Name] = " by the eval"
			all = append(all, s)
		}
	}
	return slices.Concat(all, g.specs), g.seen
}

// serverNames are the servers that the eval or the task declares.
func (r resolver) serverNames() []string {
	return slices.Concat(r.loader.eval.mockNames(), slices.Collect(maps.Keys(r.task.MCPServers)), slices.Collect(maps.Keys(r.loader.eval.Config.MCPServers)))
}
