package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/agents"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// Defaults of a box.
const (
	defaultCPUs         = 1
	defaultPids         = 256
	defaultAgentMemory  = 1 << 30
	defaultAgentDisk    = 512 << 20
	defaultServerMemory = 512 << 20
	defaultServerDisk   = 256 << 20
)

// Defaults of a server's time limits.
const (
	defaultStartup = 30 * time.Second
	defaultRequest = 300 * time.Second
)

// Lifetimes of servers: one set for each trial, or one for the run.
const (
	PerTask      = "per_task"
	PerBenchmark = "per_benchmark"
)

// Choices is what the command line decides about a plan. Lookup and Secrets are
// required.
type Choices struct {
	Run     string
	Trials  int           // of each task; 0 for the eval's own
	Timeout time.Duration // of each agent; 0 for the task's own
	// Lifetime is that of servers where the eval says none: per_task or
	// per_benchmark; empty is per_task.
	Lifetime string
	// Pull is when images are pulled, as in mcpconfig.PullPolicies; empty for the
	// eval's own.
	Pull string
	// Keyless plans without the keys of models, for plans that nobody runs.
	Keyless bool
	// NoAttacks leaves out what attacks inject.
	NoAttacks bool
	// NoSkills leaves out all skills.
	NoSkills bool
	// HostHooks lets hooks run on the host that ask for it.
	HostHooks bool
	// Lookup finds variables of the configuration; what it brings in is added to
	// Secrets.
	Lookup  func(string) (string, bool)
	Secrets *redact.Set
	// Lock is what packages were resolved to; nil for none yet. Platform is the
	// engine's, such as linux/amd64, which some of them depend on.
	Lock     *images.Lock
	Platform string
	// Pins says what becomes of trials whose servers are not as Lock has them pinned: warn,
	// fail or off; empty for the eval's own.
	Pins string
	// ModelScript reads the script of a model, by its file's name and content; required
	// where the eval has one.
	ModelScript func(file string, data []byte) (ModelScript, error)
}

// Plan decides every trial of an eval, in order. It starts nothing.
func Plan(e *eval.Eval, tasks []eval.ResolvedTask, c Choices) ([]*Trial, error) {
	if c.Lookup == nil || c.Secrets == nil || c.Trials < 0 || c.Timeout < 0 {
		return nil, errors.New("runner: incomplete choices")
	}
	if hook := e.Hooks.OnHost(); hook != "" && !c.HostHooks {
		return nil, fmt.Errorf("%s is to run on this machine (host: true), where it can do what you can: read it, and allow it with --allow-host-hooks", hook)
	}
	models, err := planModels(e, c)
	if err == nil {
		err = models.forLLM(e.Config.Executor)
	}
	if err != nil {
		return nil, err
	}
	var trials []*Trial
	var errs []error
	for _, task := range tasks {
		t, err := planTask(e, task, c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		t.Models = models
		if t.Judge, err = planJudge(e, task, models, c.Lookup); err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", task.ID, err))
			continue
		}
		if err := t.planResponder(); err != nil {
			errs = append(errs, fmt.Errorf("task %s: %w", task.ID, err))
			continue
		}
		if err := t.askModels(e.Adapter); err != nil {
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
	return trials, errors.Join(errs...)
}

func planTask(e *eval.Eval, task eval.ResolvedTask, c Choices) (Trial, error) {
	isolation := e.Config.Isolation
	if c.NoSkills {
		task.Skills = nil
	}
	agent, err := planAgent(e, task, c)
	if err != nil {
		return Trial{}, fmt.Errorf("task %s: %w", task.ID, err)
	}
	t := Trial{
		Run: c.Run, Task: task.ID, TaskName: task.Name,
		Network:   cmp.Or(isolation.Network, "bridge"),
		Subnets:   isolation.Subnets,
		Runtime:   isolation.Runtime,
		Workspace: cmp.Or(isolation.Workspace, "tmpfs"),
		Timeout:   cmp.Or(c.Timeout, task.Timeout), FirstEvent: task.FirstEvent,
		Agent:   agent,
		Graders: task.Graders, Commands: task.Commands,
		Hooks:   planHooks(e.Hooks),
		Trigger: task.Trigger != nil,
	}
	if t.EgressLimits, err = planEgressLimits(isolation.EgressLimits); err != nil {
		return Trial{}, err
	}
	if e.Local {
		t.planLocal(isolation, len(e.Config.Canaries) > 0)
	}
	planted := canariesOf(e, c.Run)
	for _, f := range task.Files {
		t.Files = append(t.Files, File{f})
	}
	t.Files = append(t.Files, planted.inWorkspace()...)
	for _, repo := range task.Repos {
		t.Repos = append(t.Repos, Repo{Repo: repo})
	}
	if err := t.planSkills(e, task.Skills); err != nil {
		return Trial{}, fmt.Errorf("task %s: %w", task.ID, err)
	}
	for _, name := range slices.Sorted(maps.Keys(task.Servers)) {
		server, err := planServer(e, name, task.Servers[name], c)
		if err == nil && e.Local {
			t.NotEnforced = append(t.NotEnforced, notEnforced(server)...)
			server, err = server.onThisMachine(e.Dir())
		}
		if err != nil {
			return Trial{}, fmt.Errorf("task %s: %w", task.ID, err)
		}
		t.Servers = append(t.Servers, server)
	}
	for _, mock := range e.Mocks {
		t.Servers = slices.DeleteFunc(t.Servers, func(s Server) bool { return s.Name == mock.Name })
		t.Servers = append(t.Servers, Server{
			Name: mock.Name, Mock: mock, Remote: true, Transport: mcpconfig.Stdio, StartupTimeout: defaultStartup, Timeout: defaultRequest,
		})
	}
	var names []string
	for _, s := range t.Servers {
		names = append(names, s.Name)
	}
	hosts, err := mcpconfig.HostNames(names)
	if err := errors.Join(err, t.ownNames()); err != nil {
		return Trial{}, fmt.Errorf("task %s: %w", task.ID, err)
	}
	t.MCPJSON = string(mcpconfig.Render(hosts))
	t.Canaries = planted.record(t.Servers)
	if err := t.planAttack(task.Attack, c.NoAttacks); err != nil {
		return Trial{}, fmt.Errorf("task %s: %w", task.ID, err)
	}
	if err := errors.Join(t.planGraders(e), t.planCheckpoints(e, task.Checkpoints)); err != nil {
		return Trial{}, fmt.Errorf("task %s: %w", task.ID, err)
	}
	return t, nil
}

func planAgent(e *eval.Eval, task eval.ResolvedTask, c Choices) (Agent, error) {
	container := e.Config.Isolation.Agent
	box, err := sized(sandbox.Box{
		Image: container.Image, User: container.User, Pull: cmp.Or(c.Pull, e.Config.Isolation.Pull),
		CPUs: cmp.Or(container.CPUs, defaultCPUs), Pids: int64(cmp.Or(container.Pids, defaultPids)),
		Memory: defaultAgentMemory, Disk: defaultAgentDisk, OpenFiles: int64(cmp.Or(container.OpenFiles, sandbox.DefaultOpenFiles)),
	}, container.Memory, container.Disk, container.Scratch)
	if err != nil {
		return Agent{}, err
	}
	allowed, err := readEgress(container.Egress)
	if err != nil {
		return Agent{}, err
	}
	preface, err := prefaceOf(e, task)
	if err != nil {
		return Agent{}, err
	}
	task.Prompt = prefaced(e.Config.Executor, preface, task.Prompt)
	a := Agent{
		Box: box, Executor: e.Config.Executor, Model: e.Config.Model, Effort: e.Config.ReasoningEffort,
		Dir: path.Join(sandbox.WorkspaceDir, cmp.Or(task.Workdir, container.Workdir)), Prompt: task.Prompt,
		FollowUps: task.FollowUps, Responder: task.Responder,
		Env: task.Env, Script: task.Script, MaxCalls: int64(container.MaxCalls), Egress: allowed,
	}
	if container.MaxOutput != "" {
		if a.MaxOutput, err = mcpconfig.ParseSize(container.MaxOutput); err != nil {
			return a, err
		}
	}
	if task.Context != nil {
		if a.Context, err = json.Marshal(task.Context); err != nil {
			return a, fmt.Errorf("inputs.context: %w", err)
		}
	}
	switch a.Executor {
	case agents.Mock, agents.Script, agents.LLM:
		a.Transcript = transcriptPath
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
		a.Output = cmp.Or(program.Output, outputStdout)
		a.Tells = program.Transcript
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

// placed is a server as it is where it runs: taken out of docker run in a
// container, and with its directory found on this machine.
func placed(e *eval.Eval, name string, declared mcpconfig.Server) (mcpconfig.Server, error) {
	if e.Local {
		return e.Placed(declared), nil
	}
	return mcpconfig.FromDockerRun(name, declared)
}

func planServer(e *eval.Eval, name string, declared mcpconfig.Server, c Choices) (Server, error) {
	contained, err := placed(e, name, declared)
	if err != nil {
		return Server{}, err
	}
	config, secrets, err := mcpconfig.Expand(name, contained, c.Lookup)
	if err != nil {
		return Server{}, err
	}
	for _, secret := range secrets {
		c.Secrets.Add(secret)
	}
	plantedFiles := canariesOf(e, c.Run).inServer(name, &config)
	box, err := sized(sandbox.Box{
		Image: cmp.Or(config.Image, e.Config.Isolation.ServerImage), User: config.User, Platform: config.Platform,
		Pull: cmp.Or(c.Pull, config.Pull, e.Config.Isolation.Pull),
		CPUs: cmp.Or(config.CPUs, defaultCPUs), Pids: int64(cmp.Or(config.Pids, defaultPids)),
		Memory: defaultServerMemory, Disk: defaultServerDisk, OpenFiles: int64(cmp.Or(config.OpenFiles, sandbox.DefaultOpenFiles)),
	}, config.Memory, config.Disk, config.Scratch)
	if err != nil {
		return Server{}, fmt.Errorf("server %q: %w", name, err)
	}
	allowed, err := readEgress(config.Egress)
	if err != nil {
		return Server{}, fmt.Errorf("server %q: %w", name, err)
	}
	s := Server{
		Box: box, Name: name, Config: declared, expanded: config,
		Transport: config.Transport(), Remote: config.URL != "", Port: config.Port, Path: config.Endpoint(),
		Shared:         config.URL == "" && cmp.Or(e.Config.MCPServerLifetime, c.Lifetime) == PerBenchmark,
		StartupTimeout: cmp.Or(seconds(config.StartupTimeout), defaultStartup),
		Timeout:        cmp.Or(seconds(config.Timeout/1000), defaultRequest),
		Egress:         allowed,
	}
	s.MaxFrames = int64(config.MaxFrames)
	for _, size := range []struct {
		text string
		to   *int64
	}{{config.MaxMessage, &s.MaxMessage}, {config.MaxTraffic, &s.MaxTraffic}} {
		if size.text == "" {
			continue
		}
		if *size.to, err = mcpconfig.ParseSize(size.text); err != nil {
			return s, fmt.Errorf("server %q: %w", name, err)
		}
	}
	if !e.Local && mcpconfig.IsDockerRun(declared) {
		s.Becomes = &contained
	}
	if s, err = s.installed(e, declared, c); err != nil {
		return s, err
	}
	if pins := cmp.Or(c.Pins, e.Config.Isolation.Pins, PinsWarn); pins != PinsOff {
		s.Pin = c.Lock.Pin(name)
		s.Strict = s.Pin != nil && pins == PinsFail
	}
	sources, err := eval.ServerFiles(e, config)
	if err != nil {
		return s, fmt.Errorf("server %q: %w", name, err)
	}
	for _, target := range slices.Sorted(maps.Keys(sources)) {
		source := sources[target]
		s.Files = append(s.Files, File{eval.WorkspaceFile{Path: target, Source: &source}})
	}
	s.Files = append(s.Files, plantedFiles...)
	s.Writable = writableFor(s.Files)
	for _, dir := range s.Writable {
		if mcpconfig.ReservedDir(dir) || s.Build != nil && (dir == images.InstallDir || strings.HasPrefix(dir, images.InstallDir+"/")) {
			return s, fmt.Errorf("server %q: no files can be put into %s of its container; choose a directory of their own, such as /data", name, dir)
		}
	}
	s.Writable = together(s.Writable, config.Writable)
	if s.Services, err = planServices(e, config, declared, box.Pull); err != nil {
		return s, fmt.Errorf("server %q: %w", name, err)
	}
	return s, nil
}

// together is the directories that a server names, and of those of its files the
// ones that lie in none of them.
func together(ofFiles, named []string) []string {
	all := slices.DeleteFunc(slices.Clone(named), func(dir string) bool { return dir == "/tmp" || dir == sandbox.HomeDir })
	for _, dir := range ofFiles {
		if !slices.ContainsFunc(named, func(n string) bool { return dir == n || strings.HasPrefix(dir, n+"/") }) {
			all = append(all, dir)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// sized is b with the sizes that are given in place of its own. Scratch is as large
// as the disk where it has no size of its own.
func sized(b sandbox.Box, memory, disk, scratch string) (sandbox.Box, error) {
	var errs [3]error
	if memory != "" {
		b.Memory, errs[0] = mcpconfig.ParseSize(memory)
	}
	if disk != "" {
		b.Disk, errs[1] = mcpconfig.ParseSize(disk)
	}
	b.Scratch = b.Disk
	if scratch != "" {
		b.Scratch, errs[2] = mcpconfig.ParseSize(scratch)
	}
	return b, errors.Join(errs[:]...)
}

// writableFor is the directories that files need in a box whose root is
// read-only.
func writableFor(files []File) []string { return outermost(dirsOf(files)) }

// dirsOf is the directory of each file.
func dirsOf(files []File) []string {
	var dirs []string
	for _, f := range files {
		dirs = append(dirs, path.Dir(f.Path))
	}
	return dirs
}

// outermost is dirs without those that lie in another, or in one that is writable
// as it is.
func outermost(dirs []string) []string {
	dirs = append(dirs, "/tmp", sandbox.HomeDir)
	slices.Sort(dirs)
	var outer []string
	for _, dir := range slices.Compact(dirs) {
		within := slices.ContainsFunc(outer, func(o string) bool { return dir == o || strings.HasPrefix(dir, o+"/") })
		if !within {
			outer = append(outer, dir)
		}
	}
	return slices.DeleteFunc(outer, func(dir string) bool { return dir == "/tmp" || dir == sandbox.HomeDir })
}
