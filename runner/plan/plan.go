// Package plan turns an eval into a plan of each of its trials: plain data, made before anything
// starts, and printed by --dry-run. It reads the files of the eval and the variables that it is
// given. It uses no network, processes, container engine or clock.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/waza-isolate/waza/egress"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// PerBenchmark is the lifetime of servers with one instance for the whole run instead of one per
// trial. It is the default outside of containers.
const PerBenchmark = "per_benchmark"

// Choices are the settings of a plan that come from the command line. Lookup and Secrets are
// required.
type Choices struct {
	Run     string
	Trials  int           // number of trials per task; 0 for the eval's
	Timeout time.Duration // time limit of each agent; 0 for the task's
	// Pull is when images are pulled, one of mcpconfig.PullPolicies; empty for the eval's.
	Pull string
	// Keyless does not require models' API keys, for plans that are not run.
	Keyless bool
	// NoAttacks leaves out injections.
	NoAttacks bool
	// NoSkills leaves out skills.
	NoSkills bool
	// On is the backend: empty for Docker, or eval.OnKubernetes.
	On string
	// Cluster returns the settings of an eval's pods. It fails if the eval asks for settings that the
	// user's own configuration lacks. Nil means that there is no such configuration.
	Cluster func(kube.Settings) (kube.Settings, error)
	// HostHooks allows hooks on the host.
	HostHooks bool
	// Lookup returns environment variables. Values used in the plan are added to Secrets.
	Lookup  func(string) (string, bool)
	Secrets *secret.Set
	// Open is called with each variable whose value is not secret, and why. It may be nil.
	Open func(variable, why string)
	// written are the eval's own files.
	written [][]byte
	// Lock has the versions of packages; may be nil. Platform is the engine's, such as
	// linux/amd64. Some versions depend on it.
	Lock     *images.Lock
	Platform string
	// Pins is what happens if a server differs from its pin in Lock: warn, fail or off; empty
	// for the eval's setting.
	Pins string
	// Omit are directories of runs, which are left out of image builds.
	Omit []string
	// Output are the files that waza's own output goes to, which are left out of image builds too.
	Output []fs.FileInfo
	// sources caches what was read for image builds.
	sources map[string]*images.Source
	// ModelScript parses the script of a model, given its file name and content. It is required
	// if the eval has one.
	ModelScript func(file string, data []byte) (ModelScript, error)
}

// Plan plans every trial of an eval, in order. It starts nothing.
func Plan(e *eval.Eval, tasks []eval.ResolvedTask, c Choices) ([]*Trial, error) {
	if hook := e.Hooks.OnHost(); hook != "" && !c.HostHooks {
		return nil, fmt.Errorf("%s runs on this machine with your permissions (host: true): read it, then allow it with --allow-host-hooks", hook)
	}
	c.sources = map[string]*images.Source{}
	c.written = writtenIn(e, tasks)
	models, err := planModels(e, c)
	if err == nil {
		err = models.forLLM(e.Config.Executor)
	}
	if err != nil {
		return nil, e.Locate(err, "config", "executor")
	}
	var trials []*Trial
	var errs []error // each error in the file once, even if it stops several tasks
	var declared *declaration
	for _, task := range tasks {
		if declared == nil || !reflect.DeepEqual(declared.servers, task.Servers) {
			declared = &declaration{servers: task.Servers}
			declared.plan(e, c)
		}
		t, err := planTask(e, task, declared, models, c)
		if errors.As(err, new(strictyaml.Errors)) {
			if !slices.ContainsFunc(errs, func(other error) bool { return other.Error() == err.Error() }) {
				errs = append(errs, err)
			}
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", task.ID, err))
			continue
		}
		if err := t.Agent.useProvider(e.Adapter, models); err != nil {
			return nil, err // the same for every task
		}
		times := cmp.Or(c.Trials, e.Config.TrialsPerTask)
		if t.Trigger {
			times = 1
		}
		for number := 1; number <= times; number++ {
			trial := t
			if models != nil {
				trial.Agent.Model = models.Model
			}
			trial.Number = number
			trials = append(trials, &trial)
		}
	}
	return trials, together(e, errs)
}

// together joins errors. If some of them are in files, the result is a [strictyaml.Errors].
func together(e *eval.Eval, errs []error) error {
	var located, elsewhere strictyaml.Errors
	for _, err := range errs {
		if inFile := (strictyaml.Errors{}); errors.As(err, &inFile) {
			located = append(located, inFile...)
		} else {
			elsewhere = append(elsewhere, &strictyaml.Error{File: e.Path, Message: err.Error(), Cause: err})
		}
	}
	if len(located) == 0 {
		return errors.Join(errs...)
	}
	return append(located, elsewhere...)
}

// planTask plans what all trials of a task share.
func planTask(e *eval.Eval, task eval.ResolvedTask, declared *declaration, models *Models, c Choices) (Trial, error) {
	if c.NoSkills {
		task.Skills = nil
	}
	agent, err := planAgent(e, task, c)
	if err != nil {
		return Trial{}, err
	}
	isolation := e.Config.Isolation
	t := Trial{
		Run: c.Run, Task: task.ID, TaskName: task.Name, About: task.Description,
		Network:   cmp.Or(isolation.Network, "bridge"),
		Subnets:   isolation.Subnets,
		Runtime:   isolation.Runtime,
		Workspace: cmp.Or(isolation.Workspace, "tmpfs"),
		Timeout:   cmp.Or(c.Timeout, task.Timeout), FirstEvent: task.FirstEvent,
		Agent:   agent,
		Graders: task.Graders, Commands: task.Commands, Answers: task.Answers, Checkpoints: task.Checkpoints, Faults: task.Faults,
		Hooks:   planHooks(e.Hooks),
		Trigger: task.Trigger != nil,
	}
	if t.EgressLimits, err = planEgressLimits(isolation.EgressLimits); err != nil {
		return Trial{}, err
	}
	if e.Local { // the agent's disk limit still bounds what is collected
		t.Network, t.Subnets, t.Runtime, t.Workspace = sandbox.NetworkNone, "", "", "directory"
		t.Agent.Container, t.Agent.Egress, t.EgressLimits = sandbox.Container{Disk: t.Agent.Disk}, nil, egress.Limits{}
		t.NotEnforced = notEnforced(e.Config)
	}
	if c.On == eval.OnKubernetes {
		if err := planPods(&t, e, c.Cluster); err != nil {
			return Trial{}, err
		}
	}
	planted := canariesOf(e, c.Run)
	for _, f := range task.Files {
		t.Files = append(t.Files, File{f})
	}
	t.Files = append(t.Files, planted.inWorkspace()...)
	for _, repo := range task.Repos {
		t.Repos = append(t.Repos, Repo{Repo: repo})
	}
	if t.Agent.SkillsAt, t.Skills, err = planSkills(e, task.Skills, pathsOf(t.Files, t.Repos)); err != nil {
		return Trial{}, err
	}
	if declared.err != nil {
		return Trial{}, declared.err
	}
	if t.Servers, err = playFor(e, task.ID, declared.planned); err != nil {
		return Trial{}, err
	}
	t.MCPJSON = declared.mcpJSON
	t.NotEnforced = append(t.NotEnforced, declared.unenforced...)
	if err := checkEgress(t.Outgoing(), t.agentNames()); err != nil {
		return Trial{}, err
	}
	t.Canaries = planted.record(t.Servers)
	if t.Attack, t.Files, err = planAttack(task.Attack, c.NoAttacks, t.Files); err != nil {
		return Trial{}, err
	}
	graders := graderPlanner{e, t.Agent.Container, t.Servers, c}
	var unenforced []string
	if t.GraderContainers, unenforced, err = graders.planAll(t.AllGraders(), task.Checkpoints); err != nil {
		return Trial{}, err
	}
	t.NotEnforced = append(t.NotEnforced, unenforced...)
	if t.Models, err = models.playedFor(e, task.ID); err != nil {
		return Trial{}, err
	}
	if t.Judge, err = planJudge(e, task, models, c.Lookup); err != nil {
		return Trial{}, err
	}
	if t.Judge != nil && e.Plays(cassette.Judges) {
		if t.Judged, err = e.Cassette.Side(cassette.Judges, task.ID, cassette.Judge); t.Judged == nil {
			return Trial{}, cmp.Or(err, errors.New("the cassette has no answers of a judge for the task; record it"))
		}
	}
	return t, t.Agent.planResponder(t.Judge)
}

// planPods plans a trial for Kubernetes. It returns an error for settings that pods do not
// support.
func planPods(t *Trial, e *eval.Eval, settle func(kube.Settings) (kube.Settings, error)) error {
	isolation := e.Config.Isolation
	for _, cannot := range []struct {
		is           bool
		key, instead string
	}{
		{isolation.Network == "bridge", "network: bridge", "pods of a trial have no network between them: leave it out, or set it to airtight"},
		{isolation.Workspace == sandbox.WorkspaceVolume, "workspace: volume", "the workspace of a pod is in memory: leave it out, or set it to tmpfs"},
		{isolation.Runtime != "", "runtime", "it is a runtime of Docker's: set kubernetes.runtime_class"},
	} {
		if cannot.is {
			return fmt.Errorf("config.isolation.%s does not go with --on kubernetes: %s", cannot.key, cannot.instead)
		}
	}
	t.Network, t.Subnets = "airtight", ""
	if settle == nil {
		settle = func(k kube.Settings) (kube.Settings, error) { return k.Settle(kube.Settings{}, "") }
	}
	cluster, err := settle(isolation.Kubernetes)
	if err != nil {
		return err
	}
	t.ImagesFile = filepath.Join(e.Dir(), cmp.Or(cluster.Images, DefaultImagesFile))
	t.Kubernetes = &cluster
	return nil
}

// DefaultImagesFile is the file next to an eval with the locations of images for the cluster.
const DefaultImagesFile = "waza.images.json"

// PlanInspections plans the inspections of an eval's servers, each in its own sandbox without
// an agent, in the order of names. It starts nothing.
func PlanInspections(e *eval.Eval, names []string, c Choices) ([]*Trial, error) {
	c.sources = map[string]*images.Source{}
	c.written = writtenIn(e, nil)
	limits, err := planEgressLimits(e.Config.Isolation.EgressLimits)
	if err != nil {
		return nil, err
	}
	var plans []*Trial
	var errs []error
	for _, name := range names {
		server, err := planServer(e, name, *e.Config.MCPServers[name], c)
		if err != nil {
			errs = append(errs, e.LocateServer(name, err))
			continue
		}
		server.Shared = false
		t := &Trial{
			Run: c.Run, Task: name, TaskName: "inspect " + name, Number: 1,
			Network: "airtight", Runtime: e.Config.Isolation.Runtime, Workspace: "tmpfs",
			Servers: []Server{server}, EgressLimits: limits,
		}
		if server.Remote {
			t.Network, t.Runtime, t.Workspace, t.EgressLimits = sandbox.NetworkNone, "", "", egress.Limits{}
		}
		plans = append(plans, t)
	}
	return plans, errors.Join(errs...)
}

// What happens if servers differ from their pins.
const (
	PinsWarn = "warn" // a warning
	PinsFail = "fail" // the trial has no outcome
	PinsOff  = "off"  // pins are ignored
)

// PinModes returns all values of pins.
func PinModes() []string { return []string{PinsWarn, PinsFail, PinsOff} }

// notEnforced returns the settings of an eval that have no effect without isolation.
func notEnforced(c eval.Config) []string {
	var names []string
	for _, key := range strictyaml.Given(c.Isolation) {
		if key != "agent" && key != "mcp_json" {
			names = append(names, "config.isolation."+key)
		}
	}
	for _, key := range strictyaml.Given(c.Isolation.Agent) {
		if !slices.Contains([]string{"env", "workdir", "max_output", "max_calls"}, key) {
			names = append(names, "config.isolation.agent."+key)
		}
	}
	if len(c.Canaries) > 0 {
		names = append(names, "config.canaries in DNS names and egress")
	}
	return names
}

// notEnforcedOf returns the settings of a server that have no effect without isolation.
func notEnforcedOf(s Server) (names []string) {
	if s.Config.Image != "" {
		names = append(names, fmt.Sprintf("image of server %q", s.Name))
	}
	if s.Config.Build != nil {
		names = append(names, fmt.Sprintf("build of server %q", s.Name))
	}
	if s.Config.Egress != nil {
		names = append(names, fmt.Sprintf("egress of server %q", s.Name))
	}
	return names
}

// NotEnforced returns the settings in the trials' plans that have no effect without isolation,
// without duplicates.
func NotEnforced(trials []*Trial) []string {
	var names []string
	for _, t := range trials {
		for _, name := range t.NotEnforced {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
