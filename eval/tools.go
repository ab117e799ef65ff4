package eval

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// toolPrograms are those of the tools image that servers beside an eval are run with.
func toolPrograms() []string { return []string{"node", "python", "python3", "bash", "sh"} }

// maxServerFiles is how many files a server's directory may have.
const maxServerFiles = 2000

// giveTools gives the tools image to what the eval gives none: with isolation.image: tools
// to the agent and to servers, and in any case to servers that upstream starts on the
// host by one of the usual programs, with the files of their directory beside the eval.
func (l *loader) giveTools() {
	iso := &l.eval.Config.Isolation
	if l.eval.Local {
		return
	}
	if iso.Image == "tools" {
		iso.ServerImage = cmp.Or(iso.ServerImage, images.Tools)
		if _, builtin := adapter.Builtin(l.eval.Config.Executor); !builtin { // which has its own
			iso.Agent.Image = cmp.Or(iso.Agent.Image, images.Tools)
		}
	}
	l.giveHooksTools(iso)
	for _, name := range slices.Sorted(maps.Keys(l.eval.Config.MCPServers)) {
		s := l.eval.Config.MCPServers[name]
		if s == nil || s.URL != "" || s.Image != "" || iso.ServerImage != "" && iso.ServerImage != images.Tools || !slices.Contains(toolPrograms(), s.Command) {
			continue
		}
		s.Image = images.Tools
		l.bringServer(name, s)
	}
}

// giveHooksTools gives hooks the tools image where the agent's is waza's own, which holds no
// shell, and says what else they need that an image of waza's for an agent lacks.
func (l *loader) giveHooksTools(iso *Isolation) {
	hooks := slices.DeleteFunc(l.eval.Hooks.all(), func(h placedHook) bool { return h.Host })
	if len(hooks) == 0 || iso.Agent.Image != "" {
		return
	}
	own, builtin := adapter.Builtin(l.eval.Config.Executor)
	if !builtin {
		if l.eval.Config.Executor != "command" { // which has none of its own
			iso.Agent.Image = images.Tools
		}
		return
	}
	for _, hook := range hooks {
		if called := lackedPrograms.FindStringSubmatch(hook.Command); called != nil {
			l.doc.Warnf(hook.at, "%s calls %s, which the image of %s lacks; name one that has both in config.isolation.agent.image", hook.at, called[1], own.Title)
		}
	}
}

// lackedPrograms finds the call of a usual program that images of agents' packages do not
// have.
var lackedPrograms = regexp.MustCompile(`(?:^|[;&|(\n])\s*(git|python3?|curl|jq|make|rg)(?:\s|$)`)

// warnOfScripts says of the first skill with Python programs that the image of waza's for the
// agent lacks Python.
func (l *loader) warnOfScripts() {
	own, builtin := adapter.Builtin(l.eval.Config.Executor)
	if !builtin || l.eval.Local || l.eval.Config.Isolation.Agent.Image != "" {
		return
	}
	for _, skill := range slices.Concat(l.evalSkills, l.foundSkills) {
		for _, file := range skill.Files {
			if path.Ext(file.Path) == ".py" {
				l.doc.Warnf(strictyaml.Path{"config", "executor"}, "skill %s has %s, and the image of %s lacks Python; name one that has both in config.isolation.agent.image", skill.Name, file.Path, own.Title)
				return
			}
		}
	}
}

// bringServer has the files of a server's directory, or those that its arguments name, put
// into its container.
func (l *loader) bringServer(name string, s *mcpconfig.Server) {
	home := path.Join("/srv", name)
	brought := map[string]string{}
	if dir := cmp.Or(s.Cwd, s.WorkingDir); dir != "" {
		at := strictyaml.Path{"config", "mcp_servers", name, "cwd"}
		if path.IsAbs(dir) || !isInside(path.Clean(dir)) {
			return // checked with the server
		}
		err := filepath.WalkDir(filepath.Join(l.eval.Dir(), dir), func(file string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case !entry.Type().IsRegular():
				return nil
			case len(brought) == maxServerFiles:
				return fs.SkipAll
			}
			rel, err := filepath.Rel(l.eval.Dir(), file)
			inner, errInner := filepath.Rel(filepath.Join(l.eval.Dir(), dir), file)
			brought[path.Join(home, filepath.ToSlash(inner))] = filepath.ToSlash(rel)
			return cmp.Or(err, errInner)
		})
		if err != nil || len(brought) == maxServerFiles {
			l.doc.Problemf(at, "%s: directory %q beside the eval cannot be put into the server's container: it cannot be read, or has %d files or more", at, dir, maxServerFiles)
			return
		}
		s.WorkingDir, s.Cwd = "", home
	} else {
		for _, arg := range s.Args {
			if rel := strings.TrimPrefix(arg, "./"); isInside(rel) {
				if info, err := os.Stat(filepath.Join(l.eval.Dir(), rel)); err == nil && info.Mode().IsRegular() {
					brought[path.Join(home, rel)] = rel
				}
			}
		}
		if len(brought) > 0 {
			s.Cwd = home
		}
	}
	if len(brought) > 0 {
		maps.Copy(brought, s.Files)
		s.Files = brought
	}
}

// adapt finds the adapter of the eval's agent, where it has one.
func (l *loader) adapt(c Config) {
	if c.Executor != "command" {
		l.eval.Adapter, _ = adapter.Builtin(c.Executor)
		if l.eval.Adapter != nil && l.written == "command" {
			l.eval.Config.Isolation.Agent.Image = "" // it holds the command
		}
		return
	}
	if c.Agent == nil || c.Agent.Adapter == "" {
		return
	}
	at := strictyaml.Path{"config", "agent", "adapter"}
	l.aloneIn(*c.Agent)
	if !isInside(c.Agent.Adapter) {
		l.doc.Problemf(at, "%s must be the path of a file beside or below the eval, relative and without leading out", at)
		return
	}
	a, err := adapter.Load(filepath.Join(l.eval.Dir(), c.Agent.Adapter))
	var problems strictyaml.Errors
	switch {
	case errors.As(err, &problems):
		l.keep(err)
	case err != nil:
		l.doc.Problemf(at, "%v", unreadable(c.Agent.Adapter, err))
	}
	l.eval.Adapter = a
}

// aloneIn refuses what an adapter says already.
func (l *loader) aloneIn(a Agent) {
	for _, key := range []struct {
		name string
		set  bool
	}{
		{"command", a.Command != ""}, {"args", a.Args != nil}, {"continue", a.Continue != nil}, {"prompt", a.Prompt != ""},
		{"output", a.Output != ""}, {"skills", a.Skills != ""}, {"transcript", a.Transcript != nil},
	} {
		if key.set {
			at := strictyaml.Path{"config", "agent", key.name}
			l.doc.Problemf(at, "%s: the adapter says this already; give one of them", at)
		}
	}
}

// bringsImage reports whether the agent has an image without the eval's naming one. A
// broken adapter is reported as that alone.
func (l *loader) bringsImage(a *Agent) bool {
	if a == nil || a.Adapter == "" {
		return false
	}
	own := l.eval.Adapter
	return own == nil || own.Image != "" || len(own.NPM) > 0
}

// LLM is how the loop of executor llm goes.
type LLM struct {
	MaxTurns    int      `json:"max_turns,omitempty" min:"1" max:"10000" jsonschema:"answers of the model; default 50"`
	System      string   `json:"system,omitempty" jsonschema:"what the system prompt ends with"`
	Tools       []string `json:"tools,omitempty" jsonschema:"kinds of tools beside those that read skills: mcp, files and shell; default all that there can be"`
	Temperature *float64 `json:"temperature,omitempty" min:"0" max:"2" jsonschema:"how freely the model answers; the endpoint's own where left out"`
	MaxTokens   int      `json:"max_tokens,omitempty" min:"1" max:"10000000" jsonschema:"limit of each answer; the endpoint's own where left out"`
}

// toolKinds are what LLM.Tools may name.
func toolKinds() []string { return []string{"mcp", "files", "shell"} }

// checkLLM holds config.llm, and the model's provider, to what executor llm can do.
func (l *loader) checkLLM(c Config) {
	at := strictyaml.Path{"config", "llm"}
	if c.LLM != nil && l.written != "" && l.written != "llm" && c.Executor != "llm" {
		l.doc.Problemf(at, "config.llm is for executor llm; this eval's executor is %s", l.written)
	}
	if c.LLM == nil {
		return
	}
	for i, kind := range c.LLM.Tools {
		here := append(slices.Clone(at), "tools", i)
		if !slices.Contains(toolKinds(), kind) {
			l.doc.Problemf(here, "%s: unknown kind %q; %s", here, kind, strictyaml.Suggest(kind, toolKinds()))
		}
	}
}
