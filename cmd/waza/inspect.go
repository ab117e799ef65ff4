package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/report/inspection"
	"github.com/waza-isolate/waza/runner"
)

const (
	defaultWatch    = 5 * time.Second
	defaultPatience = 30 * time.Second
)

// inspectCommand is waza inspect.
func inspectCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "Start MCP servers without an agent and report what they list and do",
		ArgsUsage: "[FILE | NAME | URL | -- COMMAND [ARGS]]",
		Description: "FILE is an eval, or a client's configuration such as mcp.json. NAME is a server in eval.yaml, " +
			"mcp.json or .mcp.json in the current directory. COMMAND starts a server as in a client: npx, " +
			"uvx, docker run, or a program in --image. Without any, the servers of the eval here are inspected.\n\n" +
			"Each server is started in its own container, asked for its lists, watched for a while, and " +
			"stopped. Tools, prompts and resources are used only with --call, --get and --read.",
		Flags: []cli.Flag{
			&cli.BoolWithInverseFlag{Name: "isolate", Value: true, Usage: "Run servers in containers; --no-isolate is for remote ones alone"},
			&cli.StringSliceFlag{Name: "server", Usage: "Inspect only the server called `NAME` (repeatable)"},
			&cli.StringFlag{Name: "image", Usage: "Run COMMAND, and the servers of a client's file that name no image, in `IMAGE`"},
			egressFlag(),
			&cli.DurationFlag{Name: "for", Value: defaultWatch, Usage: "Watch each server for `TIME` after it has answered", Action: mustBePositive("for")},
			&cli.DurationFlag{Name: "patience", Value: defaultPatience, Usage: "Wait up to `TIME` for each list and each --call, --get or --read", Action: mustBePositive("patience")},
			&cli.StringFlag{Name: "call", Usage: "Call `TOOL`"},
			&cli.StringFlag{Name: "get", Usage: "Get `PROMPT`"},
			&cli.StringFlag{Name: "args", Usage: "Arguments for --call or --get, as a `JSON` object"},
			&cli.StringFlag{Name: "read", Usage: "Read the resource at `URI`"},
			&cli.StringFlag{Name: "out", Usage: "Write evidence to the new directory `DIR` (default: .waza/inspections/<time>-<name>-<random>)"},
			pullFlag(""), offlineFlag(), allowWeakFlag("Inspect", ""), allowEnvFlag(),
			&cli.BoolFlag{Name: "pin", Usage: "Record in waza.lock what each server lists, so that later runs report changes"},
			&cli.BoolFlag{Name: "full", Usage: "Print full descriptions and schemas"},
			formatFlag(formatDefault, formatJSON, formatSARIF),
		},
		Before: reach,
		Action: func(ctx context.Context, c *cli.Command) error {
			q, err := newInspection(s, c)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(ctx, s.stderr)
			defer stop()
			report, err := runner.Inspect(ctx, q)
			if report.Ended.IsZero() {
				return withExitCode(err)
			}
			return printReport(s, c, report, err, q.Dir)
		},
	}
}

// newInspection returns the inspection that the command line asks for.
func newInspection(s *state, c *cli.Command) (runner.Inspection, error) {
	exercises, err := readExercises(c)
	if err != nil {
		return runner.Inspection{}, err
	}
	t, err := findTarget(s, c)
	if err != nil {
		return runner.Inspection{}, err
	}
	if t.found {
		name := "waza inspect %s"
		if len(t.names) == 1 {
			name += " --server " + text.ShellWord(t.names[0])
		}
		s = withFound(s, c, foundFile{asks: true, name: name})
	}
	if c.IsSet("image") && isYAML(t.source) {
		return runner.Inspection{}, usage("--image is for servers that name no image, and those of %s have theirs in it: leave it out", text.Inert(t.source))
	}
	if err := t.eval.Allow(c.StringSlice("egress")); err != nil {
		return runner.Inspection{}, usage("%w", err)
	}
	q := runner.Inspection{
		ID: runner.NewID("inspect " + t.names[0]), Eval: t.eval, Servers: t.names, Source: t.source, Dir: c.String("out"),
		Isolated: c.Bool("isolate"), Pull: c.String("pull"), Pin: c.Bool("pin"), Watch: c.Duration("for"), Patience: c.Duration("patience"),
		Exercises: exercises, AllowWeak: c.StringSlice("allow-weak"), Host: s.host(normal, formatDefault, false),
	}
	for _, secret := range t.secrets {
		q.Host.Secrets.Add(secret)
	}
	if q.Dir == "" {
		q.Dir = filepath.Join(".waza", "inspections", q.ID)
	} else {
		q.Dir = runner.NamedDir(q.Dir)
	}
	if len(exercises) > 0 && len(t.names) > 1 {
		return q, usage("--%s is for one server; choose it with --server: %s", exercises[0].What, strings.Join(t.names, ", "))
	}
	ok, err := runner.IsNewOrEmpty(q.Dir)
	switch {
	case err != nil:
		return q, usage("--out: %w", err)
	case !ok:
		return q, usage("--out: %s is not empty; name a new directory", q.Dir)
	}
	return q, nil
}

// printReport prints the report of an inspection that was written to dir. err is from pinning
// servers.
func printReport(s *state, c *cli.Command, report inspection.Report, err error, dir string) error {
	var printed error
	switch formatOf(c) {
	case formatJSON:
		printed = copyTo(s.stdout, dir, inspection.File)
	case formatSARIF:
		document, err := report.SARIF()
		if err != nil {
			return withExitCode(err)
		}
		_, printed = s.stdout.Write(document)
	default:
		printed = inspection.Print(s.stdout, report, inspection.Options{Width: width(s.stdout), Full: c.Bool("full"), Dir: dir})
	}
	if err := errors.Join(printed, err); err != nil {
		return withExitCode(err)
	}
	if slices.ContainsFunc(report.Servers, func(s inspection.Server) bool { return s.Failed != "" }) {
		return exitWith(exitInfra)
	}
	return nil
}

func readExercises(c *cli.Command) (all []inspection.Exercise, err error) {
	taking := 0 // number of servers that take --args
	for _, what := range []string{inspection.Call, inspection.Get, inspection.Read} {
		if !c.IsSet(what) {
			continue
		}
		if c.String(what) == "" {
			return nil, usage("--%s needs a name", what)
		}
		all = append(all, inspection.Exercise{What: what, Name: c.String(what)})
		if what != inspection.Read {
			taking++
		}
	}
	if !c.IsSet("args") {
		return all, nil
	}
	if taking != 1 {
		return nil, usage("--args goes with one --call, or one --get")
	}
	arguments := json.RawMessage(c.String("args"))
	var object map[string]json.RawMessage
	if json.Unmarshal(arguments, &object) != nil || object == nil {
		return nil, usage(`--args must be a JSON object, such as {"path": "/data"}`)
	}
	all[0].Arguments = arguments
	return all, nil
}

// target holds the servers to inspect.
type target struct {
	eval    *eval.Eval // contains the servers
	names   []string   // names of the servers to inspect, sorted
	source  string     // where the servers are configured, for messages
	secrets []string
	found   bool // source is not named on the command line
}

// serverFiles returns the files in which a server is looked up by name.
func serverFiles() []string { return []string{"eval.yaml", "mcp.json", ".mcp.json"} }

// findTarget reads the servers that the command line names.
func findTarget(s *state, c *cli.Command) (target, error) {
	args, command := s.arguments(c)
	servers, image := c.StringSlice("server"), c.String("image")
	switch {
	case len(args) == 0 && len(command) > 0:
		return singleTarget(nameOfCommand(command), mcpconfig.Server{Command: command[0], Args: command[1:], Image: image}, servers)
	case len(args) == 0:
		file, err := evalNamed("")
		if err != nil {
			return target{}, err
		}
		t, err := fileTarget(s, file, servers, image)
		t.found = true
		return t, err
	case len(args) != 1 || len(command) > 0:
		return target{}, usage("inspect takes one file, name or URL, or a command after --; see waza inspect --help")
	case strings.HasPrefix(args[0], "http://") || strings.HasPrefix(args[0], "https://"):
		name, server, err := serverOfURL(args[0], image)
		if err != nil {
			return target{}, err
		}
		return singleTarget(name, server, servers)
	}
	name := args[0]
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return fileTarget(s, name, servers, image)
	}
	if mcpconfig.CheckName(name) != nil || strings.ContainsAny(name, `./\`) {
		return target{}, usage("%s is not a file, a server's name or a URL", text.Inert(name))
	}
	return namedTarget(s, name, servers, image)
}

// fileTarget returns the named servers of an eval or of a client's configuration file; without names, all of
// them. image is used for servers of a client's file that have none.
func fileTarget(s *state, file string, servers []string, image string) (target, error) {
	var t target
	var err error
	if isYAML(file) {
		t, err = evalTarget(file)
	} else {
		t, err = clientTarget(s, file, image)
	}
	if err != nil {
		return target{}, err
	}
	return t, t.selectServers(servers)
}

func evalTarget(file string) (target, error) {
	e, _, err := eval.Load(file, eval.Options{CheckScript: script.Check, CheckModelScript: checkModelScript})
	if err != nil {
		return target{}, &exitError{exitUsage, err}
	}
	return target{eval: e, source: file}, nil
}

func clientTarget(s *state, file, image string) (target, error) {
	data, err := clientsFile(file)
	if err != nil {
		return target{}, err
	}
	client, err := s.readClient(file, data)
	if err != nil {
		return target{}, err
	}
	e, err := eval.OfClient(client, image)
	if err != nil {
		return target{}, &exitError{exitUsage, err}
	}
	return target{eval: e, source: file, secrets: client.Secrets}, nil
}

// clientsFile reads a client's configuration file. It rejects other files, such as a program
// that was meant as a command.
func clientsFile(file string) ([]byte, error) {
	data, err := files.Read(file, strictyaml.MaxBytes)
	if err != nil {
		return nil, usage("%w", err)
	}
	if begins := bytes.TrimLeft(data, " \t\r\n\uFEFF"); len(begins) > 0 && !bytes.ContainsAny(begins[:1], "{[/") {
		return nil, usage("%s is not a client's configuration file with servers, which is JSON; to name a command, write it after --", text.Inert(file))
	}
	return data, nil
}

// namedTarget looks up a server by name in the files of the current directory.
func namedTarget(s *state, name string, servers []string, image string) (target, error) {
	var found []target
	var looked []string
	for _, file := range serverFiles() {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		t, err := fileTarget(s, file, nil, image)
		if err != nil {
			return target{}, err
		}
		looked = append(looked, file)
		if slices.Contains(t.names, name) {
			found = append(found, t)
		}
	}
	switch {
	case len(looked) == 0:
		return target{}, usage("there is no file %s, and no file to look up a server of that name in: %s", name, strings.Join(serverFiles(), ", "))
	case len(found) == 0:
		return target{}, usage("no server %q in %s", name, strings.Join(looked, ", "))
	case len(found) > 1:
		return target{}, usage("server %q is in %s and in %s; inspect one: waza inspect %s --server %s", name, found[0].source, found[1].source, found[0].source, name)
	case len(servers) > 0:
		return target{}, usage("--server chooses among the servers of a file, and %s is one already", name)
	}
	t := found[0]
	t.names, t.found = []string{name}, true
	return t, nil
}

// singleTarget returns the target for one server that is not configured in a file.
func singleTarget(name string, server mcpconfig.Server, servers []string) (target, error) {
	if len(servers) > 0 {
		return target{}, usage("--server chooses among the servers of a file")
	}
	data, err := json.Marshal(server)
	if err != nil {
		return target{}, withExitCode(err)
	}
	name = serverName(name)
	e, err := eval.OfServers("command line", map[string]json.RawMessage{name: data})
	if err != nil {
		return target{}, &exitError{exitUsage, err}
	}
	return target{eval: e, names: []string{name}, source: "the command line"}, nil
}

// nameOfCommand returns a short name for the thing that a command starts: its package, its image without
// registry, tag and digest, or its program.
func nameOfCommand(command []string) string {
	name, server := path.Base(command[0]), mcpconfig.Server{Command: command[0], Args: command[1:]}
	if p, ok, err := mcpconfig.ReadPackage("server", server); ok && err == nil {
		name = path.Base(p.Wanted[0].Name)
	} else if run, err := mcpconfig.FromDockerRun("server", server); err == nil && run.Image != "" {
		name, _, _ = strings.Cut(path.Base(run.Image), "@")
		name, _, _ = strings.Cut(name, ":")
	}
	return strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(name), "mcp-"), "server-")
}

// selectServers limits t to the servers with the given names. Without names it keeps all.
func (t *target) selectServers(names []string) error {
	all := slices.Sorted(maps.Keys(t.eval.Config.MCPServers))
	if len(all) == 0 {
		return usage("%s has no servers under config.mcp_servers; add one, or inspect a command with waza inspect -- COMMAND", t.source)
	}
	for _, name := range names {
		if !slices.Contains(all, name) {
			return usage("no server %q in %s; %s", name, t.source, strictyaml.Suggest(name, all))
		}
	}
	if t.names = all; len(names) > 0 {
		t.names = slices.Compact(slices.Sorted(slices.Values(names)))
	}
	return nil
}
