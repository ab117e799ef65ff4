package plan

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/gitrepo"
)

// Gift is data of this machine that trials give to a host or a program, because an eval or a
// client's file says so.
type Gift struct {
	To string // the host or program; may contain values of variables
	// Variables are the environment variables of waza that it gets, sorted.
	Variables []string
	// Others describes what else it gets: files, and output of commands.
	Others []string
	// Build is set if the receiver is a build, which also gets the settings for registries and
	// proxies.
	Build bool
	// Remote is set if the receiver is a remote server, which gets at least a connection.
	Remote bool
}

// Gifts returns what trials give away. It leaves out the usual API key of a model provider at the
// provider's own address, since the eval chooses neither.
func Gifts(e *eval.Eval, trials []*Trial) []Gift {
	var g gifts
	isOutside := remembered(func(path string) bool { return eval.IsOutside(e, path) })
	leadsTo := remembered(func(source string) string { return gitrepo.Outside(source, isOutside) })
	for _, t := range trials {
		for _, s := range t.Servers {
			if s.Mock == nil || s.Live {
				g.server(e, s)
			}
		}
		for _, container := range t.GraderContainers {
			if container.Source != nil {
				g.build(e, fmt.Sprintf("grader %q", container.Grader), container.Source, container.build, container.build)
			}
		}
		if t.Models != nil {
			for _, p := range t.Models.Providers {
				if !p.Played || p.Live {
					g.model(p)
				}
			}
		}
		if j := t.Judge; j != nil && !isUsual(j.BaseURL, j.APIKeyEnv) {
			g.add(Gift{To: hostOf(j.BaseURL), Variables: []string{j.APIKeyEnv}})
		}
		if k := t.Kubernetes; k != nil && k.Context != "" {
			g.add(Gift{To: fmt.Sprintf("the cluster of context %q", k.Context), Others: []string{"your login"}})
		}
		for _, dir := range outside(t, isOutside) {
			g.add(Gift{To: "task " + t.Task, Others: []string{"the files of " + dir}})
		}
		for _, r := range t.Repos {
			if r.IsRemote() {
				continue
			}
			if place := leadsTo(r.Source); place != "" {
				g.add(Gift{To: "the agent of task " + t.Task, Others: []string{"the repository " + leading(r.Source, strings.TrimSuffix(place, "/.git"))}})
			}
		}
	}
	for _, file := range e.TextFiles {
		if isOutside(file) {
			g.add(Gift{To: "the eval's models", Others: []string{"the file " + file}})
		}
	}
	return g
}

// remembered returns a function that calls f once for each path. f reads the disk, and trials of
// one eval share most of their files.
func remembered[T any](f func(path string) T) func(path string) T {
	known := map[string]T{}
	return func(path string) T {
		value, ok := known[path]
		if !ok {
			value = f(path)
			known[path] = value
		}
		return value
	}
}

// outside returns the directories outside of the eval's directory that hold files of a trial.
// Fixtures and skills may be links, or lie beside the eval's directory.
func outside(t *Trial, isOutside func(path string) bool) (dirs []string) {
	for _, f := range t.GivenFiles() {
		if f.Source == nil || !isOutside(f.Source.Dir) {
			continue
		}
		dir := f.Source.Dir
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// gifts has one gift for each receiver.
type gifts []Gift

func (all *gifts) add(g Gift) {
	g.Variables = slices.DeleteFunc(g.Variables, func(name string) bool { return name == "" })
	at := slices.IndexFunc(*all, func(other Gift) bool { return other.To == g.To })
	if at < 0 {
		*all, at = append(*all, Gift{To: g.To}), len(*all)
	}
	union := func(a, b []string) []string { return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b)))) }
	to := &(*all)[at]
	to.Variables, to.Others = union(to.Variables, g.Variables), union(to.Others, g.Others)
	to.Build, to.Remote = to.Build || g.Build, to.Remote || g.Remote
}

func (all *gifts) server(e *eval.Eval, s Server) {
	config := s.Config
	if s.Becomes != nil { // where -e VAR is a variable of env
		config = *s.Becomes
	}
	g := Gift{To: programOf(s.Name, config), Remote: s.Remote}
	if s.Remote {
		g.To = hostOf(s.Expanded.URL) // which is what a default of a variable makes of it
		if s.Expanded.Proxy != "" {
			g.To += " through the proxy " + hostOf(s.Expanded.Proxy)
		}
	}
	variables, _ := mcpconfig.Variables(s.Name, config) // valid: checked when the eval was read
	for _, v := range variables {
		g.Variables = append(g.Variables, v.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(config.Secrets)) {
		if secret := config.Secrets[name]; secret.Env != "" {
			g.Variables = append(g.Variables, secret.Env)
		} else {
			g.Others = append(g.Others, secret.String())
		}
	}
	all.add(g)
	if s.Source != nil || s.Build != nil {
		all.build(e, fmt.Sprintf("server %q", s.Name), s.Source, config.Build, s.Expanded.Build)
	}
	for _, service := range s.Services {
		if service.Source != nil {
			all.build(e, fmt.Sprintf("service %q of server %q", service.Name, s.Name), service.Source, service.declared.Build, service.Expanded.Build)
		}
	}
}

// build adds the build of an image from a package or, if it is not nil, a source. declared is the
// build as in the eval, and expanded has values of variables.
func (all *gifts) build(e *eval.Eval, of string, source *images.Source, declared, expanded *mcpconfig.Build) {
	build := Gift{To: "the build of " + of, Build: true}
	if source != nil && eval.IsOutside(e, e.BuildDir(*expanded)) {
		named, place := e.BuildDir(*declared), ""
		if named == e.BuildDir(*expanded) { // the path uses no variables
			place, _ = filepath.EvalSymlinks(named)
		}
		build.Others = []string{"the files of " + leading(named, place)}
	}
	all.add(build)
}

// leading describes a path and the place that it leads to, which may be empty if unknown.
func leading(path, place string) string {
	if abs, err := filepath.Abs(path); place == "" || err == nil && abs == place {
		return path
	}
	return path + " (which leads to " + place + ")"
}

func (all *gifts) model(p Provider) {
	if p.Script != "" {
		return
	}
	g := Gift{To: hostOf(p.BaseURL), Variables: slices.Clone(p.Access.variables)}
	if !isUsual(p.BaseURL, p.APIKeyEnv) {
		g.Variables = append(g.Variables, p.APIKeyEnv)
	}
	all.add(g)
}

// isUsual reports whether a variable is the usual one for the API key of the model provider at an
// address.
func isUsual(address, variable string) bool {
	return slices.ContainsFunc(eval.ModelKinds(), func(kind string) bool {
		own, usual := eval.ModelDefaults(kind)
		return address != "" && variable == usual && (address == own || address == eval.ChatDefault(kind))
	})
}

// hostOf returns the host of a URL in the form that DNS looks up: non-ASCII letters, which may
// imitate another name, are encoded as punycode.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil { // already checked
		return address
	}
	if host, err := httpguts.PunycodeHostPort(u.Host); err == nil {
		return host
	}
	return u.Host
}

// most characters of a command, and hosts, that the description of a program has.
const (
	maxCommand = 80
	maxHosts   = 5
)

// programOf describes the program of a server, and where it may send what it gets.
func programOf(name string, config mcpconfig.Server) string {
	program := fmt.Sprintf("server %q", name)
	words := slices.DeleteFunc(slices.Concat([]string{config.Image, config.Command}, config.Args), func(word string) bool { return word == "" })
	if len(words) > 0 {
		program += " (" + text.Line(strings.Join(words, " "), maxCommand) + ")"
	}
	var hosts []string
	for _, entry := range config.Egress {
		hosts = append(hosts, entry.Host)
	}
	if len(hosts) > 0 {
		program += ", which may reach " + strings.Join(text.Few(hosts, maxHosts), ", ")
	}
	return program
}
