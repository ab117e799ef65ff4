package eval

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// canaryMark is replaced by the canary's value in planted content.
const canaryMark = "{{canary}}"

// Canary is a value that is planted where an agent or a server finds it, to detect data
// exfiltration: it must not appear anywhere else.
type Canary struct {
	Value    string   `json:"value,omitempty" jsonschema:"value to plant: 12 to 256 characters without spaces; default a value generated for each run"`
	Plant    []Plant  `json:"plant" jsonschema:"places to plant it in"`
	MayReach []string `json:"may_reach,omitempty" jsonschema:"servers and outside hosts that it may be sent to, in addition to the servers it is planted in"`
}

// Plant is a place where a canary is planted: a file of the workspace, or a file or variable of a server.
type Plant struct {
	Server  string `json:"server,omitempty" jsonschema:"server that it is planted in; default the workspace"`
	File    string `json:"file,omitempty" jsonschema:"path in the workspace, or absolute path in the server's container"`
	Env     string `json:"env,omitempty" jsonschema:"environment variable of the server"`
	Content string `json:"content,omitempty" jsonschema:"content of the file or variable, with {{canary}} for the value; default the value alone"`
}

// With returns the planted content for a canary with the given value.
func (p Plant) With(value string) string {
	if p.Content == "" {
		return value
	}
	return strings.ReplaceAll(p.Content, canaryMark, value)
}

// CanaryPattern matches valid names of canaries.
const CanaryPattern = `^[A-Za-z][A-Za-z0-9_-]{0,62}$`

var (
	canaryPattern = regexp.MustCompile(CanaryPattern)
	hostPattern   = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$`)
)

// canaries makes the checks of config.canaries that do not depend on tasks.
func (c checker) canaries(all map[string]*Canary) {
	base := strictyaml.Path{"config", "canaries"}
	if len(all) > secret.MaxCanaries {
		c.doc.Problemf(base, "config.canaries: at most %d can be planted", secret.MaxCanaries)
	}
	taken := map[Plant]string{}
	workspace := newClaims(c.eval.Config.Isolation)
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at := base.With(name)
		one := all[name]
		if !canaryPattern.MatchString(name) {
			c.doc.KeyProblemf(at, "canary %q: a name is letters, digits, hyphens and underscores, and begins with a letter", name)
		}
		if one == nil {
			c.doc.Problemf(at, "canary %q is planted nowhere; give it plant", name)
			continue
		}
		if one.Value != "" {
			c.canaryValue(name, one.Value, values, at.With("value"))
		}
		for i, p := range one.Plant {
			place := at.With("plant", i)
			c.plant(name, p, taken, place)
			if p.Server != "" || p.File == "" || !files.IsInside(p.File) {
				continue
			}
			if other := workspace.claim(path.Clean(p.File), "another canary"); other != "" {
				c.doc.Problemf(append(place, "file"), "canary %q: file %q is in the way of %s", name, p.File, other)
			}
		}
	}
}

func (c checker) canaryValue(name, value string, values map[string]string, at strictyaml.Path) {
	if err := secret.CheckCanary(value); err != nil {
		c.doc.Problemf(at, "canary %q: %v", name, err)
	}
	if other := values[value]; other != "" {
		c.doc.Problemf(at, "canary %q has the value of canary %q; give it another value", name, other)
	}
	values[value] = name
}

func (c checker) plant(name string, p Plant, taken map[Plant]string, at strictyaml.Path) {
	key := Plant{Server: p.Server, Env: p.Env, File: path.Clean(p.File)}
	switch {
	case (p.File == "") == (p.Env == ""):
		c.doc.Problemf(at, "canary %q: a place is either a file or an env", name)
		return
	case p.Content != "" && !strings.Contains(p.Content, canaryMark):
		c.doc.Problemf(at.With("content"), "canary %q: content must contain %s, which is replaced by the value", name, canaryMark)
	case p.Env != "" && p.Server == "":
		c.doc.Problemf(at, "canary %q: env is a server's; name the server", name)
	case strings.HasPrefix(p.Env, ReservedEnv):
		c.doc.Problemf(at.With("env"), "canary %q: names that begin with %s are set by waza itself; choose another", name, ReservedEnv)
	case p.Env != "" && !mcpconfig.IsVariable(p.Env):
		c.doc.Problemf(at.With("env"), "canary %q: %q is not the name of an environment variable", name, p.Env)
	case p.File != "" && p.Server == "" && (!files.IsInside(p.File) || path.Clean(p.File) == "."):
		c.doc.Problemf(at.With("file"), "canary %q: file %q must be a path in the workspace, relative, with / and without ..", name, p.File)
	case p.File != "" && p.Server != "" && (!path.IsAbs(p.File) || path.Clean(p.File) != p.File || strings.ContainsRune(p.File, 0)):
		c.doc.Problemf(at.With("file"), "canary %q: file %q must be an absolute path in the server's container", name, p.File)
	case p.File != "" && p.Server != "" && c.eval.Local:
		c.eval.needContainer(c.doc, at, fmt.Sprintf("canary %q: a file of server %q is in its container", name, p.Server), "")
	}
	if p.Server == "" {
		return
	}
	if other := taken[key]; other != "" {
		c.doc.Problemf(at, "canary %q: canary %q is planted there already", name, other)
	}
	taken[key] = name
}

// planted checks canaries against the servers that the eval or a task declares. Nothing is planted in tasks
// without the server.
func (c checker) planted(declared []string, tasks []ResolvedTask) {
	for _, name := range slices.Sorted(maps.Keys(c.eval.Config.Canaries)) {
		one := c.eval.Config.Canaries[name]
		if one == nil {
			continue
		}
		at := strictyaml.Path{"config", "canaries", name}
		for i, p := range one.Plant {
			place := at.With("plant", i, "server")
			if p.Server != "" && !slices.Contains(declared, p.Server) {
				c.doc.Problemf(place, "canary %q is planted in a server %q, which is not declared; %s", name, p.Server, suggest(p.Server, declared))
				continue
			}
			for _, task := range tasks {
				if server, ok := task.Servers[p.Server]; ok {
					c.room(name, p, server, task.ID, place)
				}
			}
		}
		for i, to := range one.MayReach {
			if !slices.Contains(declared, to) && !hostPattern.MatchString(to) {
				c.doc.Problemf(at.With("may_reach", i), "canary %q may reach %q, which is neither a declared server nor a host such as api.example.com; %s", name, to, suggest(to, declared))
			}
		}
	}
}

// room checks that a canary does not replace a file or variable of the server.
func (c checker) room(name string, p Plant, server mcpconfig.Server, task string, at strictyaml.Path) {
	switch {
	case server.URL != "":
		c.doc.Problemf(at, "canary %q: server %q is remote in task %s: nothing can be planted in it", name, p.Server, task)
	case p.Env != "" && hasKey(server.Env, p.Env):
		c.doc.Problemf(at, "canary %q: server %q already has an env %s", name, p.Server, p.Env)
	case p.File != "" && hasKey(server.Files, p.File):
		c.doc.Problemf(at, "canary %q: server %q already has a file %s", name, p.Server, p.File)
	}
}

func hasKey(m map[string]string, key string) bool { _, ok := m[key]; return ok }

func suggest(word string, known []string) string {
	if len(known) == 0 {
		return "no server is declared"
	}
	return strictyaml.Suggest(word, known)
}

// plantedFiles maps the paths of workspace files with canaries to the canaries' names.
func (c Config) plantedFiles() map[string]string {
	files := map[string]string{}
	for name, canary := range c.Canaries {
		if canary == nil {
			continue
		}
		for _, p := range canary.Plant {
			if p.Server == "" && p.File != "" {
				files[path.Clean(p.File)] = name
			}
		}
	}
	return files
}
