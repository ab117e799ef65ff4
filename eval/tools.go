package eval

import (
	"cmp"
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
