package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/cmd/waza/scaffold"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/frontmatter"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox/hint"
)

// initCommand is waza init.
func initCommand(s *state) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "Write an eval for an MCP server, and run it",
		ArgsUsage: "[DIR | FILE | mcp.json | URL | eval.yaml | -- COMMAND [ARGS]]",
		Description: "Starts the server in a container, tries some of its tools, and writes eval.yaml, a task in tasks/ " +
			"for each tool whose answer can be asserted, and .github/workflows/waza.yml. Then it runs the eval. Where no answer is sure to " +
			"be right, a task says CHANGE ME, and fails until you replace that.\n\n" +
			"The server is the source in DIR (default: the current directory) or the program in FILE, those of a " +
			"client's file such as mcp.json, a remote one, or what COMMAND starts: npx, uvx, docker run, a program " +
			"in DIR, or one in --image. Source needs a Dockerfile, package.json, go.mod, pyproject.toml or " +
			"requirements.txt; without one, init writes a Dockerfile for COMMAND. For a server that does not start, as it " +
			"needs a database, init writes an eval to be completed; init eval.yaml then adds its tasks.\n\n" +
			"On a terminal, init without arguments asks. No key is needed: executor script plays the tasks.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "Call the eval `NAME`, and the server if there is only one", DefaultText: "the server's"},
			&cli.StringFlag{Name: "dir", Usage: "Write the files to `DIR`", DefaultText: "that of the source, or the current directory"},
			&cli.StringFlag{Name: "executor", Value: "script", Usage: "Let agent `NAME` do the tasks; all except script and mock ask a model and need its key"},
			&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "Use `MODEL` for the agent"},
			&cli.StringFlag{Name: "image", Usage: "Run COMMAND in `IMAGE`"},
			&cli.BoolFlag{Name: "no-ci", Usage: "Write no workflow"},
			&cli.BoolFlag{Name: "no-run", Usage: "Write the files without running the eval"},
			&cli.BoolFlag{Name: "force", Usage: "Overwrite existing files"},
			&cli.StringSliceFlag{Name: "env", Usage: "Give the servers a variable, as `NAME=VALUE`; NAME alone refers to that of this machine, whose value is not written (repeatable)"},
			egressFlag(), offlineFlag(), allowWeakFlag("Continue", ""), allowEnvFlag(),
		},
		Before: reach,
		Action: func(ctx context.Context, c *cli.Command) error {
			b, err := readNewEval(s, c)
			if err != nil {
				return err
			}
			ctx, stop := interruptible(ctx, s.stderr)
			defer stop()
			return b.init(ctx)
		},
	}
}

// newEval is the eval that init writes.
type newEval struct {
	*state
	dir       string // directory to write to
	name      string
	executor  string
	model     string
	image     string
	completes string // the eval that tasks are added to; empty if a new one is written
	ci        bool
	run       bool
	force     bool
	allowWeak []string
	egress    []string

	detected   *foundFile // nil if the user named the server
	unnamed    bool       // the server is named after its directory
	servers    map[string]json.RawMessage
	dockerfile []byte // nil for none
	secrets    map[string]string
	lock       *images.Lock // versions of the servers' packages; nil for none
	untried    error        // why no server started, and what to do; nil if one started
}

// readNewEval reads the command line, and asks for what is missing on a terminal.
func readNewEval(s *state, c *cli.Command) (*newEval, error) {
	b := &newEval{
		state: s, dir: c.String("dir"), name: c.String("name"), executor: c.String("executor"), model: c.String("model"), image: c.String("image"),
		ci: !c.Bool("no-ci"), run: !c.Bool("no-run"), force: c.Bool("force"), allowWeak: c.StringSlice("allow-weak"), egress: c.StringSlice("egress"), secrets: map[string]string{},
	}
	args, command := s.arguments(c)
	if len(args) > 1 || len(args) == 1 && len(command) > 0 && !isDir(args[0]) {
		return nil, usage("init takes one directory, file or URL, or a command after --; see waza init --help")
	}
	target := "."
	if len(args) == 1 {
		target = args[0]
	}
	var err error
	switch ask := newAsker(s); {
	case ask != nil && len(args) == 0 && len(command) == 0:
		err = b.ask(ask, c)
	default:
		err = b.setTarget(target, command)
	}
	if err == nil {
		err = b.setEnv(c.StringSlice("env"))
	}
	if err != nil {
		return nil, err
	}
	for _, flag := range []string{"name", "dir", "executor", "model", "env", "egress"} {
		if b.completes != "" && c.IsSet(flag) {
			return nil, usage("--%s is for a new eval; write it into %s", flag, b.completes)
		}
	}
	if err := eval.CheckExecutor(b.executor); err != nil {
		return nil, usage("--executor: %w", err)
	}
	if b.detected != nil {
		b.detected.given = b.secrets
		b.state = withFound(s, c, *b.detected)
	}
	b.dir = files.Named(b.dir)
	return b, b.checkNew()
}

// setTarget sets b's servers from a target or a command.
func (b *newEval) setTarget(target string, command []string) error {
	switch {
	case strings.HasPrefix(target, "http://") || strings.HasPrefix(target, "https://"):
		return b.setURL(target)
	case len(command) > 0:
		return b.setCommand(target, command)
	case isFile(target) && scaffold.CommandOf(target) != nil:
		return b.setCommand(".", scaffold.CommandOf(target))
	case b.image != "":
		return usage("--image is for a command that starts the server, and there is none; write it after --, as in waza init --image IMAGE -- COMMAND")
	case isFile(target) && scaffold.IsProgram(target):
		return usage("%[1]s is TypeScript; name the program that runs it, as in waza init -- tsx %[1]s", text.Inert(target))
	case isFile(target) && filepath.Base(target) == frontmatter.SkillFile:
		return skillAlone(target)
	case isFile(target) && isYAML(target):
		return b.setEval(target)
	case isFile(target):
		return b.setClients(target)
	case !isDir(target):
		return usage("%s is not a directory, a file or a URL that begins with http:// or https://; to name a command, write it after --, as in waza init -- npx -y PACKAGE", text.Inert(target))
	}
	found := scaffold.Detect(os.DirFS(target))
	if skill := filepath.Join(target, frontmatter.SkillFile); len(found) == 0 && isFile(skill) {
		return skillAlone(skill)
	}
	if len(found) == 0 {
		return usage("%s has nothing that looks like an MCP server; say what it is: waza init -- COMMAND, as in waza init -- npx -y PACKAGE or waza init -- node server.js; waza init URL; or waza init mcp.json", target)
	}
	b.printStatus("the eval is about " + found[0].What)
	return b.setDetected(target, found[0])
}

// skillAlone returns the error for a skill given to init as a target.
func skillAlone(file string) error {
	return usage("%s is a skill and no MCP server, which init writes evals for; write an eval that names its directory under config.skill_directories, and add tasks with waza new task NAME", text.Inert(file))
}

func (b *newEval) setDetected(dir string, found scaffold.Found) error {
	if found.Clients != "" {
		file := filepath.Join(dir, found.Clients)
		b.detected = &foundFile{file: file, asks: true, name: "waza init %s"}
		return b.setClients(file)
	}
	b.detected = &foundFile{file: "the source in " + dir}
	return b.setSource(dir, found.Command)
}

// setEval sets b's servers to those of an eval without tasks, to which tasks will be added.
func (b *newEval) setEval(file string) error {
	a, err := readEval(file)
	if err != nil {
		return err
	}
	if a.doc.DecodeAt(&b.servers, "config", "mcp_servers"); len(b.servers) == 0 {
		return usage("%s has no servers under config.mcp_servers", text.Inert(file))
	}
	if name, globs := a.taskFile("new"); name != "tasks/new.yaml" || !matchesOne(globs, name) {
		return usage("%s has no glob such as tasks/*.yaml under tasks, by which it gets what init writes; add tasks with waza new task", text.Inert(file))
	}
	a.doc.DecodeAt(&b.name, "name")
	b.completes, b.dir, b.ci = file, filepath.Dir(file), false
	return nil
}

// setURL sets b's server to the one at a URL.
func (b *newEval) setURL(address string) error {
	name, server, err := serverOfURL(address, b.image)
	if err != nil {
		return err
	}
	return b.setServer(name, server)
}

// serverOfURL returns the server at a URL and a name for it, which may be empty. It returns an error if
// image, the value of --image, is not empty.
func serverOfURL(address, image string) (name string, server mcpconfig.Server, err error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "":
		return "", mcpconfig.Server{}, usage("%s is not the URL of a server", text.Inert(address))
	case image != "":
		return "", mcpconfig.Server{}, usage("--image is for a program that waza starts, and a server at a URL is running already: leave it out")
	}
	server.URL = address
	if mcpconfig.IsEventsURL(address) {
		server.Type = mcpconfig.SSE
	}
	if _, err := netip.ParseAddr(u.Hostname()); err != nil { // an IP address is no name
		name = u.Hostname()
	}
	return name, server, nil
}

// setCommand sets b's server to one that a command starts: a package launcher such as npx, source in dir, or
// a program in b.image.
func (b *newEval) setCommand(dir string, command []string) error {
	server := mcpconfig.Server{Command: command[0], Args: command[1:], Image: b.image}
	_, isPackage, err := mcpconfig.ReadPackage("server", server)
	switch {
	case err != nil:
		return usage("%w", err)
	case b.image == "" && isPackage && slices.ContainsFunc(server.Args, func(arg string) bool { return scaffold.IsProgram(arg) && isFile(filepath.Join(dir, arg)) }):
		return usage("%s starts a package, which runs without the files here; name the program that runs them, as in waza init -- node server.js or waza init -- tsx index.ts", text.Inert(strings.Join(command, " ")))
	case b.image == "" && !isPackage && command[0] == "npm":
		return usage("%s runs a script of package.json; name the program that it starts, as in waza init -- node server.js, or leave out the command", text.Inert(strings.Join(command, " ")))
	case b.image != "", isPackage || slices.Contains(mcpconfig.Launchers(), path.Base(command[0])):
	case scaffold.IsSource(os.DirFS(dir), command):
		return b.setSource(dir, command)
	default:
		for _, arg := range command {
			if scaffold.CommandOf(arg) != nil && !isFile(filepath.Join(dir, arg)) {
				return usage("there is no %s in %s; correct its path, or name an image that has it with --image", text.Inert(arg), text.Inert(dir))
			}
		}
		return usage("%s is not a package, a docker run command or a file here; name an image that contains it with --image", text.Inert(strings.Join(command, " ")))
	}
	return b.setServer(nameOfCommand(command), server)
}

// setSource sets b's server to one that is built from the source in dir.
func (b *newEval) setSource(dir string, command []string) error {
	if b.dir == "" {
		b.dir = dir
	}
	from, err := b.builtFrom(dir)
	if err != nil {
		return err
	}
	if manifests := images.Manifests(os.DirFS(dir)); len(manifests) == 1 && manifests[0].Recipe == images.ByNode && !isFile(filepath.Join(dir, "Dockerfile")) {
		var wrong error
		if len(command) == 0 {
			wrong = images.CheckStart(os.DirFS(dir))
		}
		if wrong == nil && from.Project == "." {
			wrong = images.CheckBuild(os.DirFS(dir))
		}
		if wrong != nil {
			return usage("%s: %w", text.Inert(dir), wrong)
		}
	}
	config, dockerfile, err := scaffold.OfSource(os.DirFS(dir), from, command, nil)
	if err != nil {
		return usage("%s: %w", dir, err)
	}
	if b.dockerfile = dockerfile; dockerfile != nil && from.Context != "." {
		return usage("%s has no Dockerfile, and one can only be written next to the eval; omit --dir", dir)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return usage("%w", err)
	}
	b.unnamed = b.name == ""
	return b.setServer(filepath.Base(abs), config)
}

// builtFrom returns what the image of the project in dir is built from: dir, or the workspace that the
// project belongs to. In that case it prints a message.
func (b *newEval) builtFrom(dir string) (scaffold.Built, error) {
	from := scaffold.Built{Project: "."}
	at, err := relative(b.dir, dir)
	if err != nil {
		return from, usage("%w", err)
	}
	from.Context = filepath.ToSlash(at)
	manifests := images.Manifests(os.DirFS(dir))
	if isFile(filepath.Join(dir, "Dockerfile")) {
		manifests = nil // the project itself says where its packages come from
	}
	for _, m := range manifests {
		w, err := images.FindWorkspace(dir, m.Recipe)
		if err != nil {
			return from, usage("%w", err)
		}
		project, err := relative(w.Root, withoutLinks(dir))
		if err != nil {
			return from, usage("%w", err)
		}
		if w.Needs == "" && project == "." {
			continue
		}
		root, errHere := relative(withoutLinks("."), w.Root)
		context, errDir := relative(withoutLinks(b.dir), w.Root)
		if err := errors.Join(errHere, errDir); err != nil {
			return from, usage("%w", err)
		}
		if w.Needs != "" || len(manifests) > 1 {
			return from, usage("%s in %s says where the packages of %s come from, and waza cannot install them from there; write a Dockerfile in %[2]s that does, then run waza init --dir %[4]s %[5]s", w.File, text.Inert(root), text.Inert(dir), text.ShellWord(cmp.Or(b.dir, ".")), text.ShellWord(root))
		}
		from = scaffold.Built{Context: filepath.ToSlash(context), Project: filepath.ToSlash(project)}
		b.printStatus(fmt.Sprintf("%s belongs to the workspace of %s in %s; the image is built from there", text.Inert(dir), w.File, text.Inert(root)))
	}
	return from, nil
}

// withoutLinks returns the absolute path of a directory with its links resolved.
func withoutLinks(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return files.Named(dir)
}

// setServer sets b's only server. Its name is b's or, if that is empty, derived from name.
func (b *newEval) setServer(name string, config any) error {
	host := serverName(cmp.Or(b.name, name))
	data, err := json.Marshal(config)
	b.servers = map[string]json.RawMessage{host: data}
	b.name = cmp.Or(b.name, host)
	return err
}

// setEnv sets variables of all servers. An entry is NAME=VALUE, or NAME for a reference to this machine's
// variable.
func (b *newEval) setEnv(entries []string) error {
	for _, entry := range entries {
		name, value, given := strings.Cut(entry, "=")
		if !mcpconfig.IsVariable(name) {
			return usage("--env takes NAME=VALUE, or NAME of a variable that is set here; not %s", text.Quote(entry, 64))
		}
		if !given {
			own, _ := b.lookup(name)
			if own == "" {
				return usage("--env: variable %s is not set here; set it, or write --env %[1]s=VALUE", name)
			}
			b.secrets[name], value = own, "${"+name+"}"
		}
		for server, data := range b.servers {
			config, env := map[string]any{}, map[string]any{}
			if err := json.Unmarshal(data, &config); err != nil {
				return err
			}
			if had, ok := config["env"].(map[string]any); ok {
				env = had
			}
			env[name], config["env"] = value, env
			var err error
			if b.servers[server], err = json.Marshal(config); err != nil {
				return err
			}
		}
	}
	return nil
}

// serverName returns a server's name, which must be valid as a host name, derived from name. If that is
// impossible it returns "server".
func serverName(name string) string {
	host := mcpconfig.HostName(strings.ToLower(name))
	if host == "" || len(host) > 40 || slices.Contains(mcpconfig.ReservedNames(), host) {
		return "server"
	}
	return host
}

// setClients sets b's servers from a client's configuration file. Secret values become references to
// variables.
func (b *newEval) setClients(file string) error {
	data, err := clientsFile(file)
	if err != nil {
		return err
	}
	client, err := b.readClient(file, data)
	if err != nil {
		return err
	}
	if err := checkNames(file, client); err != nil {
		return err
	}
	b.servers = map[string]json.RawMessage{}
	root := os.DirFS(".")
	for _, name := range slices.Sorted(maps.Keys(client.Servers)) {
		server := client.Servers[name]
		for key, value := range server.Env {
			server.Env[key] = b.variable(client.Secrets, key, value)
		}
		for key, value := range server.Headers {
			server.Headers[key] = b.variable(client.Secrets, strings.ToUpper(strings.ReplaceAll(name+"_"+key, "-", "_")), value)
		}
		command := append([]string{server.Command}, server.Args...)
		if server.Command != "" && server.Image == "" && scaffold.IsSource(root, command) {
			from, err := b.builtFrom(".")
			if err != nil {
				return err
			}
			var dockerfile []byte
			if b.servers[name], dockerfile, err = scaffold.OfSource(root, from, command, server.Env); err != nil {
				return usage("server %q of %s: %w", name, file, err)
			}
			if dockerfile != nil && b.dockerfile != nil && !bytes.Equal(dockerfile, b.dockerfile) {
				return usage("server %q of %s: another server of this directory needs another Dockerfile; write one, or move one of the servers into a directory of its own", name, file)
			}
			b.dockerfile = dockerfile
		} else if b.servers[name], err = json.Marshal(server); err != nil {
			return err
		}
	}
	if b.name == "" {
		b.name = "mcp-servers"
		if len(b.servers) == 1 {
			b.name = slices.Collect(maps.Keys(b.servers))[0]
		}
	}
	return nil
}

// checkNames rejects a client's file that starts a package with the same name as a package next to the file.
func checkNames(file string, client *mcpconfig.ClientFile) error {
	dir := filepath.Dir(file)
	if slices.Contains([]string{".vscode", ".cursor"}, filepath.Base(dir)) {
		dir = filepath.Dir(dir)
	}
	for _, name := range slices.Sorted(maps.Keys(client.Servers)) {
		server := *client.Servers[name]
		p, ok, err := mcpconfig.ReadPackage(name, server)
		if err != nil || !ok {
			continue // it will be checked with the eval
		}
		manifest, err := images.LocalPackage(dir, p)
		if err != nil {
			return usage("%w", err)
		}
		if manifest == "" {
			continue
		}
		start := "node server.js"
		if p.Ecosystem == mcpconfig.PyPI {
			start = "python3 server.py"
		}
		words := []string{text.ShellWord(server.Command)}
		for _, arg := range server.Args {
			words = append(words, text.ShellWord(arg))
		}
		at, err := relative(withoutLinks("."), manifest)
		if err != nil {
			return usage("%w", err)
		}
		return usage("server %q of %s would get %s from a registry, where a stranger may have taken the name, which %s has here; to use the source, name the command that starts it, as in waza init %s -- %s; to use the registry's, run waza init -- %s", name, file, text.Inert(p.Wanted[0].Text), text.Inert(at), text.ShellWord(filepath.Dir(at)), start, strings.Join(words, " "))
	}
	return nil
}

// variable returns a value as it is written to the eval: a reference to the variable name if it contains a
// secret, which is then kept in b.secrets. If the variable is already set to another value, another name is
// used.
func (b *newEval) variable(secrets []string, name, value string) string {
	holds := func(secret string) bool { return secret != "" && strings.Contains(value, secret) }
	if !slices.ContainsFunc(secrets, holds) || !mcpconfig.IsVariable(name) {
		return value
	}
	for {
		own, _ := b.lookup(name)
		if other, ok := b.secrets[name]; ok {
			own = other
		}
		if own == "" || own == value {
			break
		}
		name += "_2"
	}
	b.secrets[name] = value
	return "${" + name + "}"
}

// checkNew returns an error if one of the files to write exists.
func (b *newEval) checkNew() error {
	taken, err := filepath.Glob(filepath.Join(b.dir, "tasks", "*.yaml"))
	if err != nil {
		return err
	}
	if b.completes == "" {
		taken = slices.Insert(taken, 0, filepath.Join(b.dir, "eval.yaml"))
	}
	if b.dockerfile != nil {
		taken = append(taken, filepath.Join(b.dir, "Dockerfile"))
	}
	taken = slices.DeleteFunc(taken, func(name string) bool { _, err := os.Lstat(name); return err != nil })
	if len(taken) > 0 && !b.force {
		return usage("these files exist already: %s; write to another directory with --dir, overwrite them with --force, or add to the eval with waza new", strings.Join(text.Few(taken, 5), ", "))
	}
	return nil
}

// path returns the path of the eval's file.
func (b *newEval) path() string { return cmp.Or(b.completes, filepath.Join(b.dir, "eval.yaml")) }

// init inspects the servers, writes the files and runs the eval.
func (b *newEval) init(ctx context.Context) error {
	with, lookup := *b.state, b.lookup // a copy, so that secrets that became variables can be looked up
	with.lookup = func(name string) (string, bool) {
		if value, ok := b.secrets[name]; ok {
			return value, true
		}
		return lookup(name)
	}
	b.state = &with
	var written, added []string
	write := func(name string, content []byte) error {
		name = filepath.Join(b.dir, filepath.FromSlash(name))
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			added = append(added, name)
		}
		err := files.MakeDir(filepath.Dir(name))
		if err == nil {
			err = files.Write(name, content)
		}
		if err != nil {
			return usage("%s cannot be written: %w; write elsewhere with --dir", name, files.Cause(err))
		}
		written = append(written, name)
		return nil
	}
	servers, err := b.writeFiles(ctx, write)
	if err != nil {
		for _, name := range added {
			for at := name; at != b.dir && files.Remove(at) == nil; at = filepath.Dir(at) { // stops at a directory that is not empty
			}
		}
		return err
	}
	for _, name := range written {
		b.printStatus("wrote " + name)
	}
	for _, server := range servers {
		var config mcpconfig.Server
		if json.Unmarshal(server.Config, &config) == nil && b.ci && isNearby(config.URL) {
			b.printStatus(fmt.Sprintf("the workflow cannot reach server %q at %s from GitHub: start the server in a step of the workflow, or give it build or image in place of url", server.Name, text.Inert(config.URL)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.secrets)) {
		b.printStatus("the eval reads the variable " + name + " in place of the value in the client's file: set it before later runs")
	}
	if b.untried != nil {
		return b.untried
	}
	return b.firstRun(ctx)
}

// writeFiles writes the eval's files, after an inspection of its servers.
func (b *newEval) writeFiles(ctx context.Context, write func(string, []byte) error) ([]scaffold.Server, error) {
	if b.dockerfile != nil {
		if err := write("Dockerfile", b.dockerfile); err != nil {
			return nil, err
		}
	}
	if err := b.writeWorkflow(write); err != nil { // before the image is built, since the image may contain it
		return nil, err
	}
	servers, err := b.inspect(ctx)
	if err != nil {
		return nil, err
	}
	all, err := scaffold.Eval{Name: b.name, Skill: b.skill(), Executor: b.executor, Model: b.model, Servers: servers}.Files()
	if b.completes != "" && err == nil {
		all = all[1:]
	}
	if b.lock != nil && (b.completes == "" || !isFile(filepath.Join(b.dir, images.LockName))) { // the run need not resolve them again
		all = append(all, scaffold.File{Path: images.LockName, Content: b.lock.Bytes()})
	}
	for _, f := range all {
		if err == nil {
			err = write(f.Path, f.Content)
		}
	}
	return servers, err
}

// isNearby reports whether a URL leads to this machine or to its network.
func isNearby(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Hostname() != "" && eval.IsNearby(u.Hostname())
}

// writeWorkflow writes the GitHub workflow to the root of the repository, unless it exists.
func (b *newEval) writeWorkflow(write func(string, []byte) error) error {
	if !b.ci {
		return nil
	}
	root := repository(b.dir)
	at, err := relative(root, filepath.Join(b.dir, "eval.yaml"))
	if err != nil {
		return usage("%w", err)
	}
	name, err := relative(b.dir, filepath.Join(root, filepath.FromSlash(scaffold.WorkflowPath)))
	if err != nil {
		return usage("%w", err)
	}
	if exists := filepath.Join(b.dir, name); isFile(exists) && !b.force {
		said := exists + " exists already and is not changed"
		if data, err := files.Read(exists, strictyaml.MaxBytes); err == nil && !strings.Contains(string(data), filepath.ToSlash(at)) {
			said += "; it does not run this eval: add " + text.ShellWord(filepath.ToSlash(at)) + " to what it runs"
		}
		b.printStatus(said)
		return nil
	}
	workflow := workflowOf(filepath.ToSlash(at), b.version, commit())
	workflow.Branch = branchOf(root)
	content, err := workflow.File()
	if err != nil {
		return err
	}
	return write(name, content)
}

// branchOf returns the branch on which a repository's workflow runs: the default branch of its remote, or
// else the current branch, or else main.
func branchOf(root string) string {
	for _, name := range []string{"refs/remotes/origin/HEAD", "HEAD"} {
		data, err := files.Read(filepath.Join(root, ".git", filepath.FromSlash(name)), strictyaml.MaxBytes)
		ref, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "ref: refs/")
		ref = strings.TrimPrefix(strings.TrimPrefix(ref, "heads/"), "remotes/origin/")
		if err == nil && ok && branchName.MatchString(ref) {
			return ref
		}
	}
	return "main"
}

// branchName matches names of branches that GitHub's patterns match literally.
var branchName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]*$`)

// newestRelease is the release that workflows install if this build is not a release.
const newestRelease = "v0.1.0"

var isRelease = regexp.MustCompile(`^v\d+\.\d+\.\d+$`)

// workflowOf returns a workflow that installs this version of waza, or the newest release if this is not a
// release.
func workflowOf(eval, version, commit string) scaffold.Workflow {
	if !isRelease.MatchString(version) {
		version, commit = newestRelease, ""
	}
	return scaffold.Workflow{Eval: eval, Release: version, Commit: commit}
}

// repository returns the nearest parent directory that contains .git, or dir.
func repository(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	for at := abs; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, ".git")); err == nil {
			return at
		}
	}
	return dir
}

// relative returns the path of to relative to dir. An empty dir is the current directory.
func relative(dir, to string) (string, error) {
	dir, errDir := filepath.Abs(dir)
	to, errTo := filepath.Abs(to)
	rel, err := filepath.Rel(dir, to)
	return rel, errors.Join(errDir, errTo, err)
}

func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// skill returns the name of the skill in the eval's directory, or "".
func (b *newEval) skill() string {
	data, err := files.Read(filepath.Join(b.dir, frontmatter.SkillFile), strictyaml.MaxBytes)
	if err != nil {
		return ""
	}
	if data, err = files.Text(data); err != nil {
		return ""
	}
	skill, _, err := frontmatter.Read(string(data))
	if err != nil {
		return ""
	}
	return skill.Name
}

// inspect starts each server alone in a container and tries some of its tools. Servers that cannot be
// inspected are left out of the eval if others can. If none starts, a new eval has all of them as configured,
// with comments about what they may lack.
func (b *newEval) inspect(ctx context.Context) ([]scaffold.Server, error) {
	e, err := eval.OfServers(b.path(), b.servers)
	if err != nil {
		return nil, &exitError{exitUsage, err}
	}
	if err := e.Allow(b.egress); err != nil {
		return nil, usage("%w", err)
	}
	all, err := tryServers(ctx, b.state, "init "+b.name, e, "", func(q *runner.Inspection) {
		q.AllowWeak, q.Resolved = b.allowWeak, func(lock *images.Lock) { b.lock = lock }
		for _, value := range b.secrets {
			q.Host.Secrets.Add(value)
		}
	})
	if err != nil {
		return nil, err
	}
	var servers, untried []scaffold.Server
	var failed []error
	for _, found := range all {
		config := e.Config.MCPServers[found.Name]
		if found.failed != nil {
			failed = append(failed, found.failed)
			if found.Evidence != "" && !found.Remote {
				untried = append(untried, scaffold.Server{Name: found.Name, Config: b.servers[found.Name], Egress: config.Egress, Untried: true, Asked: hint.Variables(found.Failed)})
			}
			continue
		}
		tasks := scaffold.Choose(found.answers)
		name := b.serverName(found)
		b.printStatus(fmt.Sprintf("%s lists %s; %s written", name, text.Count(len(found.tools), "tool"), text.Count(len(tasks), "task")))
		b.printIdle(found.tools, tasks, reachesOut(config))
		b.printUnreached(found, tasks)
		servers = append(servers, scaffold.Server{Name: name, Config: b.servers[found.Name], Egress: config.Egress, Tasks: tasks})
	}
	if path := b.path(); len(servers) == 0 {
		if len(untried) < len(failed) || isFile(path) {
			return nil, failed[0]
		}
		b.untried = &exitError{exitInfra, fmt.Errorf("%w; the eval is written without having tried it: complete what %s has after CHANGE ME, then add its tasks with waza init %s", failed[0], path, text.ShellWord(path))}
		return untried, nil
	}
	without := "the eval is without "
	if b.completes != "" {
		without = "no tasks for "
	}
	for _, why := range failed {
		b.say(without + text.Indented(why.Error()))
	}
	if !slices.ContainsFunc(servers, func(s scaffold.Server) bool { return len(s.Tasks) > 0 }) {
		b.printStatus("the task starts only lists tools, and fails until you replace CHANGE ME in it")
	}
	return servers, nil
}

// serverName returns the name of a server in the eval. A server that is named only after its directory gets
// the name that it reports, which then is also the eval's name.
func (b *newEval) serverName(found tried) string {
	name := serverName(found.says)
	if !b.unnamed || name == "server" || strings.Trim(strings.ReplaceAll(name, "server", ""), "-") == "mcp" {
		return found.Name
	}
	if b.name == found.Name {
		b.name = name
	}
	return name
}

// printIdle prints which tools have no task and why, and which tasks the user has to complete.
func (b *newEval) printIdle(tools []catalog.Entry, tasks []scaffold.Task, reachesOut bool) {
	why := map[string][]string{} // tools by reason
	for _, tool := range tools {
		if !slices.ContainsFunc(tasks, func(t scaffold.Task) bool { return t.Tool == tool.Key }) {
			reason := cmp.Or(scaffold.Omitted(tool, reachesOut), "others of its kind have one")
			why[reason] = append(why[reason], text.Inert(tool.Key))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		b.printStatus(fmt.Sprintf("no task for %s: %s; add one with waza new task NAME --tool TOOL", strings.Join(text.Few(why[reason], mostIdle), ", "), reason))
	}
	for _, t := range tasks {
		if t.Unsure != "" {
			b.printStatus(fmt.Sprintf("the task for %s fails until you replace CHANGE ME in it: %s", t.Tool, t.Unsure))
		}
	}
}

// printUnreached prints which names a server looked up in vain, if it lists no tools or a call of a
// task failed.
func (b *newEval) printUnreached(found tried, tasks []scaffold.Task) {
	failed := len(found.tools) == 0 || slices.ContainsFunc(tasks, func(t scaffold.Task) bool { return t.Unsure != "" && t.Outcome.Failed() })
	if !failed || found.Did == nil {
		return
	}
	var names []string
	for _, asked := range found.Did.Names {
		if !asked.Answered {
			names = append(names, text.Inert(asked.Name))
		}
	}
	if len(names) > 0 {
		b.printStatus(fmt.Sprintf("server %q asked for %s, which it cannot reach; if a tool needs a host, run init again with --force --egress %s=HOST:PORT",
			found.Name, strings.Join(text.Few(names, mostIdle), ", "), found.Name))
	}
}

// mostIdle is the maximum number of tools without a task, or of names, that are printed.
const mostIdle = 8

// firstRun runs the eval, and prints what to do next.
func (b *newEval) firstRun(ctx context.Context) error {
	path := b.path()
	run := "waza run " + text.ShellWord(path)
	next := []string{"waza show latest", "waza new task NAME", run + " --executor claude"}
	if b.dir != "." {
		next[1] = "cd " + text.ShellWord(b.dir) + " && " + next[1]
	}
	does := []string{"read what was called and answered", "write a task of your own", "let an agent do the same tasks; it needs a key"}
	if b.executor != evidence.ExecutorScript {
		next[2], does[2] = run+" --trials 5", "run each task five times"
	}
	var failed error
	if b.run {
		args := []string{"waza", "run"}
		for _, attack := range b.allowWeak {
			args = append(args, "--allow-weak", attack)
		}
		failed = b.app().Run(ctx, append(args, "--", path))
	} else {
		next[0], does[0] = run, "run the eval"
	}
	fmt.Fprintf(b.stdout, "\nNext:\n")
	wide := 0
	for _, command := range next {
		wide = max(wide, len(command))
	}
	for i, command := range next {
		fmt.Fprintf(b.stdout, "  %-*s  # %s\n", wide, command, does[i])
	}
	return failed
}
