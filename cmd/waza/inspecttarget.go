package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
)

// target is what is to be inspected.
type target struct {
	eval    *eval.Eval // which has the servers
	names   []string   // of those that are inspected, sorted
	source  string     // where they are configured, for people
	secrets []string
}

// nearby are the files in which a server is looked for by its name.
func nearby() []string { return []string{"eval.yaml", "mcp.json", ".mcp.json"} }

// findTarget reads the servers that the command line names.
func (s inspectCommand) findTarget(c *cli.Context, o inspectOptions) (target, error) {
	args, command := c.Args().Slice(), []string(nil)
	if at := slices.Index(s.args, "--"); at >= 0 {
		command = s.args[at+1:]
		args = args[:len(args)-len(command)]
	}
	switch {
	case len(args) == 0 && len(command) > 0:
		return s.commandTarget(command, o)
	case len(args) != 1 || len(command) > 0:
		return target{}, usage("inspect takes one file, name or URL, or a command behind --; see waza inspect --help")
	case strings.HasPrefix(args[0], "http://") || strings.HasPrefix(args[0], "https://"):
		return s.urlTarget(args[0], o)
	}
	name := args[0]
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		return s.fileTarget(name, o)
	}
	if mcpconfig.CheckName(name) != nil || strings.ContainsAny(name, `./\`) {
		return target{}, usage("%s is not a file, a server's name or a URL", text.Inert(name))
	}
	return s.namedTarget(name, o)
}

// fileTarget is an eval's servers, or those of a client's file.
func (s inspectCommand) fileTarget(file string, o inspectOptions) (target, error) {
	var t target
	var err error
	switch filepath.Ext(file) {
	case ".yaml", ".yml":
		t, err = s.evalTarget(file)
	default:
		t, err = s.clientTarget(file, o)
	}
	if err != nil {
		return target{}, err
	}
	return t, t.pick(o.servers)
}

func (s inspectCommand) evalTarget(file string) (target, error) {
	e, _, err := eval.Load(file, eval.Options{CheckScript: checkScript, CheckModelScript: checkModelScript})
	if err != nil {
		return target{}, &exitError{exitUsage, err}
	}
	return target{eval: e, source: file}, nil
}

func (s inspectCommand) clientTarget(file string, o inspectOptions) (target, error) {
	data, err := files.ReadNamed(file, strictyaml.MaxBytes)
	if err != nil {
		return target{}, usage("%w", err)
	}
	return s.clientData(file, data, o)
}

// clientData reads a client's file, or what is written as one.
func (s inspectCommand) clientData(name string, data []byte, o inspectOptions) (target, error) {
	client, err := mcpconfig.ReadClient(name, data)
	if err != nil {
		return target{}, &exitError{exitUsage, err}
	}
	for _, n := range client.Notes {
		fmt.Fprintf(s.stderr, "%s:%d:%d: note: %s\n", client.Name, n.Position.Line, n.Position.Column, text.Inert(n.Text))
	}
	e, err := eval.OfClient(client, o.image)
	if err != nil {
		return target{}, &exitError{exitUsage, err}
	}
	return target{eval: e, source: name, secrets: client.Secrets}, nil
}

// namedTarget looks for a server of that name in the files that are here.
func (s inspectCommand) namedTarget(name string, o inspectOptions) (target, error) {
	var found []target
	var looked []string
	for _, file := range nearby() {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		t, err := s.fileTarget(file, inspectOptions{image: o.image})
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
		return target{}, usage("there is no file %s, and neither of %s is here to have a server of that name", name, strings.Join(nearby(), ", "))
	case len(found) == 0:
		return target{}, usage("no server %q in %s", name, strings.Join(looked, ", "))
	case len(found) > 1:
		return target{}, usage("server %q is in %s and in %s; inspect one: waza inspect --isolate %s --server %s", name, found[0].source, found[1].source, found[0].source, name)
	case len(o.servers) > 0:
		return target{}, usage("--server chooses among the servers of a file, and %s is one already", name)
	}
	t := found[0]
	t.names = []string{name}
	return t, nil
}

// commandTarget is a server as a client's file would have it.
func (s inspectCommand) commandTarget(command []string, o inspectOptions) (target, error) {
	server := map[string]any{"command": command[0], "args": command[1:]}
	t, err := s.single(nameOfCommand(command), server, o)
	t.source = "the command line"
	return t, err
}

func (s inspectCommand) urlTarget(text string, o inspectOptions) (target, error) {
	name := "remote"
	if u, err := url.Parse(text); err == nil {
		name = u.Hostname()
	}
	t, err := s.single(name, map[string]any{"url": text}, o)
	t.source = "the command line"
	return t, err
}

// single is one server that is in no file. What it is called matters little: it has to be
// a host's name.
func (s inspectCommand) single(name string, server map[string]any, o inspectOptions) (target, error) {
	if len(o.servers) > 0 {
		return target{}, usage("--server chooses among the servers of a file")
	}
	if len(name) > 63 || slices.Contains(mcpconfig.ReservedNames(), name) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" {
		name = "server"
	}
	name = strings.Trim(strings.ReplaceAll(name, ".", "-"), "-")
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{name: server}})
	if err != nil {
		return target{}, infra(err)
	}
	t, err := s.clientData("command line", data, o)
	if err != nil {
		return target{}, err
	}
	return t, t.pick(nil)
}

// nameOfCommand is a short name for what a command starts: its package, or its program.
func nameOfCommand(command []string) string {
	name := path.Base(command[0])
	if p, ok, err := mcpconfig.ReadPackage("server", mcpconfig.Server{Command: command[0], Args: command[1:]}); ok && err == nil {
		name = path.Base(p.Wanted[0].Name)
	}
	return strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(name), "mcp-"), "server-")
}

// pick leaves the servers of those names, or all.
func (t *target) pick(names []string) error {
	all := slices.Sorted(maps.Keys(t.eval.Config.MCPServers))
	if len(all) == 0 {
		return usage("%s has no servers of its own under config.mcp_servers", t.source)
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
