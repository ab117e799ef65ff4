package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/cmd/waza/scaffold"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner"
)

// newCommand is waza new.
func newCommand(s *state) *cli.Command {
	evalFlag := &cli.StringFlag{Name: "eval", Usage: "Add to `EVAL`, a file, directory or skill", DefaultText: "the one here"}
	return &cli.Command{
		Name:   "new",
		Usage:  "Add a task, a server or a grader to an eval",
		Action: noSubcommand, HideHelpCommand: true,
		Commands: []*cli.Command{
			{
				Name: "task", Usage: "Add a task to an eval", ArgsUsage: "NAME | [NAME] --from RUN TASK/N",
				Description: "Writes a task file with places marked CHANGE ME. The task fails until they are replaced. With --tool " +
					"and without --args, starts the server in a container, calls the tool, and asserts what it answers, as init does.\n\n" +
					"With --from it makes a task of trial TASK/N of RUN: its prompt, its files in fixtures/NAME, what its servers and " +
					"models answered in the eval's cassette or else in cassette/tasks/NAME, and an assertion of each call that was " +
					"answered, to be edited. RUN is a run directory, or latest.",
				Flags: []cli.Flag{
					evalFlag,
					&cli.StringFlag{Name: "server", Usage: "Use the server called `NAME`", DefaultText: "the eval's, if it has only one"},
					&cli.StringFlag{Name: "tool", Usage: "Call `TOOL` of the server"},
					&cli.StringFlag{Name: "args", Value: "{}", Usage: "Arguments for --tool, as a `JSON` object"},
					&cli.StringFlag{Name: "from", Usage: "Repeat a trial of `RUN`"},
				},
				Action: func(ctx context.Context, c *cli.Command) error { return newTask(ctx, s, c) },
			},
			{
				Name: "server", Usage: "Add an MCP server to an eval", ArgsUsage: "NAME URL | NAME -- COMMAND [ARGS]",
				Description: "COMMAND starts the server as in a client: npx, uvx, docker run, a program in --image, or one in the current directory, whose image is then built from it.",
				Flags:       []cli.Flag{evalFlag, &cli.StringFlag{Name: "image", Usage: "Run COMMAND in `IMAGE`"}},
				Action:      func(_ context.Context, c *cli.Command) error { return newServer(s, c) },
			},
			{
				Name: "grader", Usage: "Add a grader for every task to an eval", ArgsUsage: "NAME",
				Description: "Writes graders/NAME.yaml with places marked CHANGE ME, and adds a reference to it to the eval.",
				Flags:       []cli.Flag{evalFlag, &cli.StringFlag{Name: "type", Value: "text", Usage: "Write a grader of `TYPE`, such as text, file, mcp_compliance, tool_calls or prompt"}},
				Action:      func(_ context.Context, c *cli.Command) error { return newGrader(s, c) },
			},
		},
	}
}

// evalEdit is an eval to add to.
type evalEdit struct {
	path    string
	data    []byte
	doc     *strictyaml.Document
	servers []string
}

// newName returns the command's first argument, which must be usable as a file name. It returns an error if
// there are more than most arguments.
func newName(c *cli.Command, most int) (string, error) {
	name := c.Args().First()
	if err := takes(c, 1, most, "a name"); err != nil {
		return "", err
	}
	if err := mcpconfig.CheckName(name); err != nil {
		return "", usage("%q cannot be a name here: use letters, digits, - and _", text.Inert(name))
	}
	return name, nil
}

func openEval(c *cli.Command) (*evalEdit, error) {
	named := c.String("eval")
	if isDir(named) {
		named = files.Named(named)
	} else if isFile(named) { // not the name of a skill
		named = files.NamedFile(named)
	}
	path, err := evalNamed(named)
	if err != nil {
		return nil, usage("--eval: %w", err)
	}
	return readEval(path)
}

// readEval reads the eval in a file, which must be writable.
func readEval(path string) (*evalEdit, error) {
	var err error
	a := &evalEdit{path: path}
	if a.data, err = files.Read(a.path, strictyaml.MaxBytes); err != nil {
		return nil, usage("%w", err)
	}
	if err := files.Writable(path); err != nil { // before anything is written
		return nil, usage("%w", err)
	}
	if a.doc, err = strictyaml.Parse(a.path, a.data); err != nil {
		return nil, &exitError{exitUsage, err}
	}
	if at := (strictyaml.Path{"config", "mcp_servers"}); a.doc.Has(at...) {
		var servers map[string]json.RawMessage
		a.doc.DecodeAt(&servers, at...)
		for name := range servers {
			a.servers = append(a.servers, name)
		}
		slices.Sort(a.servers)
	}
	return a, nil
}

// relPath returns a path relative to the eval's directory.
func (a *evalEdit) relPath(name string) string {
	return filepath.Join(filepath.Dir(a.path), filepath.FromSlash(name))
}

// writeNew creates a file. It returns an error if the file exists.
func writeNew(s *state, name string, content []byte) error {
	if err := files.MakeDir(filepath.Dir(name)); err != nil {
		return usage("%w", err)
	}
	file, err := files.Create(name, os.O_EXCL|os.O_WRONLY)
	if errors.Is(err, os.ErrExist) {
		return usage("%s exists already; choose another name, or remove it", name)
	}
	if err != nil {
		return usage("%w", err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		return withExitCode(err)
	}
	_, err = fmt.Fprintln(s.stdout, "wrote "+name)
	return err
}

// saveEval writes the eval file after an addition at a path.
func saveEval(s *state, a *evalEdit, at strictyaml.Path, content []byte) error {
	if err := files.Write(a.path, content); err != nil {
		return usage("%w", err)
	}
	_, err := fmt.Fprintf(s.stdout, "added it to %s of %s\n", at, a.path)
	return err
}

// triedTask calls a tool and returns a task for it, or nil if the server cannot be tried.
func triedTask(ctx context.Context, s *state, a *evalEdit, id, server, tool string) ([]byte, error) {
	var servers map[string]json.RawMessage
	a.doc.DecodeAt(&servers, "config", "mcp_servers")
	e, err := eval.OfServers(a.path, map[string]json.RawMessage{server: servers[server]})
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	all, err := tryServers(ctx, s, "new task "+id, e, tool, func(*runner.Inspection) {})
	switch {
	case ctx.Err() != nil:
		return nil, err
	case err != nil:
	case all[0].failed != nil:
		err = all[0].failed
	default:
		var listed []string
		for _, t := range all[0].tools {
			listed = append(listed, t.Key)
		}
		if !slices.Contains(listed, tool) {
			return nil, usage("server %q lists no tool %q; %s", server, text.Inert(tool), strictyaml.Suggest(tool, listed))
		}
		if task, ok := scaffold.ChooseFor(tool, all[0].answers); ok {
			return task.File(id, server)
		}
		err = fmt.Errorf("waza does not call %s: it may change something outside, or no arguments fit its schema", tool)
	}
	s.say("the task has places to fill in, for the server could not be tried: " + text.Indented(err.Error()))
	return nil, nil
}

func newTask(ctx context.Context, s *state, c *cli.Command) error {
	if c.IsSet("from") {
		return newCase(s, c)
	}
	name, err := newName(c, 1)
	if err != nil {
		return err
	}
	a, err := openEval(c)
	if err != nil {
		return err
	}
	server, tool := c.String("server"), c.String("tool")
	if server == "" && len(a.servers) == 1 {
		server = a.servers[0]
	}
	switch {
	case server != "" && !slices.Contains(a.servers, server):
		return usage("the eval has no server %q; %s", server, strictyaml.Suggest(server, a.servers))
	case tool != "" && server == "":
		return usage("--tool needs a server, and the eval has several: name one with --server")
	}
	args := json.RawMessage(c.String("args"))
	var object map[string]json.RawMessage
	if json.Unmarshal(args, &object) != nil || object == nil {
		return usage(`--args must be a JSON object, such as {"path": "/data"}`)
	}
	var content []byte
	if tool != "" && !c.IsSet("args") {
		ctx, stop := interruptible(ctx, s.stderr)
		defer stop()
		if content, err = triedTask(ctx, s, a, name, server, tool); err != nil {
			return err
		}
	}
	if content == nil {
		if content, err = scaffold.NewTask(name, server, tool, args); err != nil {
			return err
		}
	}
	return addTask(s, a, name, content)
}

// taskFile returns the path of the file for a new task, relative to the eval, and the globs of the eval's tasks.
func (a *evalEdit) taskFile(name string) (file string, globs []string) {
	dir := "tasks"
	a.doc.DecodeAt(&globs, "tasks")
	if len(globs) > 0 && !strings.ContainsAny(path.Dir(globs[0]), `*?[\`) {
		dir = path.Dir(globs[0])
	}
	return path.Join(dir, name+".yaml"), globs
}

// matchesOne reports whether a path matches one of the globs.
func matchesOne(globs []string, file string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { ok, _ := path.Match(glob, file); return ok })
}

// addTask writes the file of a new task, and adds the file to the eval if no glob of the eval matches it.
func addTask(s *state, a *evalEdit, name string, content []byte) error {
	file, globs := a.taskFile(name)
	if err := writeNew(s, a.relPath(file), content); err != nil {
		return err
	}
	if matchesOne(globs, file) {
		return nil
	}
	at := strictyaml.Path{"tasks"}
	edited, err := scaffold.Insert(a.path, a.data, at, "- "+file+"\n")
	if err != nil || a.doc.Has("tasks_from") || text.ShellWord(file) != file { // YAML might read the path differently
		fmt.Fprintf(s.stdout, "no glob under tasks of %s matches it: add %s there\n", a.path, file)
		return nil
	}
	return saveEval(s, a, at, edited)
}

func newServer(s *state, c *cli.Command) error {
	args, command := s.arguments(c)
	if len(args) != 2 && (len(args) != 1 || len(command) == 0) || len(args) == 2 && len(command) > 0 {
		return usage("new server takes a name, and a URL or a command after --; see waza new server --help")
	}
	name, err := newName(c, len(args)+len(command))
	if err != nil {
		return err
	}
	a, err := openEval(c)
	if err != nil {
		return err
	}
	if slices.Contains(a.servers, name) {
		return usage("the eval has a server %q already", name)
	}
	b := &newEval{state: s, dir: filepath.Dir(a.path), name: name, image: c.String("image")}
	if len(args) == 2 {
		err = b.setURL(args[1])
	} else {
		err = b.setCommand(".", command)
	}
	if err != nil {
		return err
	}
	for _, config := range b.servers {
		entry, err := scaffold.Server{Name: name, Config: config}.YAML("")
		if err != nil {
			return err
		}
		at := strictyaml.Path{"config", "mcp_servers"}
		edited, err := scaffold.Insert(a.path, a.data, at, entry)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		if err := saveEval(s, a, at, edited); err != nil {
			return err
		}
	}
	if b.dockerfile != nil {
		return writeNew(s, a.relPath("Dockerfile"), b.dockerfile)
	}
	return nil
}

func newGrader(s *state, c *cli.Command) error {
	name, err := newName(c, 1)
	if err != nil {
		return err
	}
	a, err := openEval(c)
	if err != nil {
		return err
	}
	content, err := scaffold.NewGrader(c.String("type"))
	if err != nil {
		return usage("--type: %w", err)
	}
	file := path.Join("graders", name+".yaml")
	ref, err := jsontext.Marshal(file)
	if err != nil {
		return err
	}
	at := strictyaml.Path{"graders"}
	edited, err := scaffold.Insert(a.path, a.data, at, "- ref: "+strings.Trim(string(ref), `"`)+"\n")
	if err != nil {
		return &exitError{exitUsage, err}
	}
	if err := writeNew(s, a.relPath(file), content); err != nil {
		return err
	}
	return saveEval(s, a, at, edited)
}
