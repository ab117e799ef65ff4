package eval

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// Options are settings for [Load] that are not in the eval's files.
type Options struct {
	// ContextDir contains the fixtures. The default is the directory fixtures next to the
	// eval.
	ContextDir string
	// Overlay is merged over config.mcp_servers of the eval, before the servers of tasks. A server in it
	// replaces the eval's whole server, not single fields, since a client's file is a complete definition. It
	// may be nil.
	Overlay *mcpconfig.ClientFile
	// Egress lists additional hosts that servers may reach, in the form that [Eval.Allow] takes.
	Egress []string
	// Executor, Model and JudgeModel replace the eval's settings unless they are empty.
	Executor, Model, JudgeModel string
	// CheckScript checks the script at a path of a task's document, and reports mistakes to the
	// document. If it is nil, scripts are not checked.
	CheckScript func(doc *strictyaml.Document, at ...any)
	// CheckModelScript validates the script of a model, given its file name and content. If
	// it is nil, scripts are not read.
	CheckModelScript func(file string, data []byte) error
	// Start is the directory where waza was started, by default the current one. Paths in
	// evals may be relative to it, and its .waza.yaml, or else the eval's, has defaults.
	Start string
	// NoSkills disables the search for the skill under test.
	NoSkills bool
	// UpdateSnapshots treats missing snapshots of diff graders as empty, and rejects those that
	// [Eval.WriteSnapshot] would not write.
	UpdateSnapshots bool
	// Faults is a file with faults that replace those of the eval and of all tasks, or [NoFaults].
	Faults string
	// Local reads the eval for running it as processes of this machine. Settings that need containers are
	// rejected.
	Local bool
	// AsWritten makes the eval determine Local; see [choose].
	AsWritten bool
	Playing
}

// Load reads the eval at path with its task files, and resolves its enabled tasks in the order of the globs.
// It returns all errors in the files together as [strictyaml.Errors]. If there are errors, the eval may be nil,
// and only its warnings are valid.
func Load(path string, opts Options) (*Eval, []ResolvedTask, error) {
	e, tasks, err := load(path, opts)
	if e == nil || e.Contained == "" {
		return e, tasks, err
	}
	why := e.Contained
	opts.Local, opts.AsWritten = false, false
	if e, tasks, err = load(path, opts); e != nil {
		e.Contained = why
	}
	return e, tasks, err
}

// load reads an eval once; if nothing determines otherwise, for running as processes of this machine.
func load(path string, opts Options) (*Eval, []ResolvedTask, error) {
	e := &Eval{Path: path}
	e.start, e.context = startOf(opts.Start, e.Dir()), opts.ContextDir
	l := &loader{eval: e, opts: opts, ids: map[string]string{}}
	var err error
	if l.doc, err = l.open(path); err != nil {
		return nil, nil, err
	}
	l.newer = newerThanKnown(l.doc)
	l.doc.IgnoreUnknown(l.newer)
	if l.doc.Has("id") && !l.doc.Has("config") && !l.doc.Has("tasks") {
		l.doc.Problemf(strictyaml.Path{"id"}, "this is the file of a task; name the eval that lists it under tasks, as in waza run --task ID eval.yaml")
		return nil, nil, l.doc.Err()
	}
	e.doc, e.overlay, e.otherExecutor = l.doc, opts.Overlay, opts.Executor != ""
	project, err := ProjectOf(opts.Start, e.Dir())
	if err != nil {
		return nil, nil, err
	}
	if start, err := filepath.Abs(e.start); e.start != "" && project.Path != "" && err == nil && isWithin(start, project.Dir) && start != project.Dir {
		e.project = FromHere(project.Dir)
	}
	l.layRefs(l.doc, "graders")
	l.doc.Decode(e)
	choose(e, opts, project)
	translate(l.doc, e)
	complete(l.doc, e, project.Defaults, opts.Executor)
	l.written = override(&e.Config, opts)

	readCassette(l.doc, e, opts.Playing)
	readMocks(l.doc, e)
	commandMocks(l.doc, e, e.Commands)
	layServers(l.doc, e, opts.Overlay)
	if err := e.Allow(opts.Egress); err != nil {
		l.fail(err)
	}
	config := e.Config // config before an adapter changes it
	check := checker{l}
	check.executor(config)
	l.skills = findSkills(l.doc, e, project)
	l.skillNames = l.skills.names()
	check.config(config)
	check.models(config)
	graders := l.newGraders(l.doc)
	graders.add(e.Graders, strictyaml.Path{"graders"}, "")
	l.graders = graders.specs

	var tasks []ResolvedTask
	servers := append(slices.Collect(maps.Keys(config.MCPServers)), e.MockNames()...)
	l.servers = l.declare(l.doc, nil)
	l.faults = readFaults(l)
	read := 0
	for task := range l.readTasks() {
		if read++; task.On() {
			tasks = append(tasks, resolver{loader: l, doc: task.doc, task: task}.resolve())
			servers = slices.AppendSeq(servers, maps.Keys(task.MCPServers))
		}
	}
	if read > 0 && len(tasks) == 0 && l.othersAreFine() {
		l.doc.Problemf(strictyaml.Path{"tasks"}, "no task is enabled; remove enabled: false from one")
	}
	if len(tasks) > 0 {
		tasks = append(tasks, l.triggers()...)
	}
	slices.Sort(servers)
	servers = slices.Compact(servers)
	graders.checkServers(servers)
	l.faults.check(e, servers, l.servers)
	check.tasks(tasks, servers)
	for _, doc := range l.docs {
		e.Warnings = append(e.Warnings, doc.Warnings()...)
	}
	if err := l.err(); err != nil {
		return &Eval{Warnings: e.Warnings, Contained: e.Contained}, nil, err
	}
	return e, tasks, nil
}

// complete sets defaults: the project's, then waza's. The file needs no executor if the
// command line names one.
func complete(doc *strictyaml.Document, e *Eval, d ProjectDefaults, executor string) {
	c := &e.Config
	c.TrialsPerTask = cmp.Or(c.TrialsPerTask, 1)
	c.TimeoutSeconds = cmp.Or(c.TimeoutSeconds, d.Timeout, 300)
	c.Executor = cmp.Or(c.Executor, d.Engine)
	if executor == "" { // as in upstream waza
		c.Executor = cmp.Or(c.Executor, "copilot-sdk")
	}
	giveTools(doc, e)
	c.Model = cmp.Or(c.Model, d.Model)
	c.JudgeModel = cmp.Or(c.JudgeModel, d.JudgeModel)
	c.Parallel = cmp.Or(c.Parallel, d.Parallel)
	c.Workers = cmp.Or(c.Workers, d.Workers)
}

// choose sets whether the eval is read for running as processes of this machine. The options determine that
// or, failing them, config.isolate, or defaults.isolate of the project. If none does, it is read for
// processes; the first setting that needs a container sets e.Contained, and [Load] then reads the eval again.
func choose(e *Eval, opts Options, project *Project) {
	e.Local = opts.Local
	if !opts.AsWritten {
		return
	}
	written := cmp.Or(e.Config.Isolate, project.Defaults.Isolate)
	e.Local, e.undecided = written == nil || !*written, written == nil
}

// override replaces settings of the file with those of the options. It returns the executor that the eval was
// written for.
func override(c *Config, opts Options) (written string) {
	written = cmp.Or(c.Executor, opts.Executor) // an eval without an executor is written for any
	c.Executor = cmp.Or(opts.Executor, c.Executor)
	c.JudgeModel = cmp.Or(opts.JudgeModel, c.JudgeModel)
	c.Model = cmp.Or(opts.Model, c.Model)
	return written
}

// CheckExecutor validates the name of an executor.
func CheckExecutor(name string) error {
	field, _ := reflect.TypeFor[Config]().FieldByName("Executor")
	limits := strictyaml.LimitsOf(field)
	if slices.Contains(limits.Enum, name) {
		return nil
	}
	return fmt.Errorf("unknown executor %q; %s", name, strictyaml.Suggest(name, limits.Enum))
}
