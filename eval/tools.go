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

// giveTools gives the tools image to what the eval gives none: with isolation.image: tools
// to the agent and to servers, and in any case to servers that upstream starts on the
// host by one of the usual programs, with the files of their directory beside the eval.
func giveTools(doc *strictyaml.Document, e *Eval) {
	iso := &e.Config.Isolation
	if e.Local {
		return
	}
	if iso.Image == "tools" {
		iso.ServerImage = cmp.Or(iso.ServerImage, images.Tools)
		if _, builtin := adapter.Builtin(e.Config.Executor); !builtin { // which has its own
			iso.Agent.Image = cmp.Or(iso.Agent.Image, images.Tools)
		}
	}
	giveHooksTools(doc, e)
	for _, name := range slices.Sorted(maps.Keys(e.Config.MCPServers)) {
		s := e.Config.MCPServers[name]
		if s == nil || s.URL != "" || s.Image != "" || iso.ServerImage != "" && iso.ServerImage != images.Tools || !slices.Contains(toolPrograms(), s.Command) {
			continue
		}
		s.Image = images.Tools
		bringServer(doc, e.Dir(), name, s)
	}
}

// giveHooksTools gives hooks the tools image where the agent's is waza's own, which holds no
// shell, and says what else they need that an image of waza's for an agent lacks.
func giveHooksTools(doc *strictyaml.Document, e *Eval) {
	iso := &e.Config.Isolation
	hooks := slices.DeleteFunc(e.Hooks.all(), func(h placedHook) bool { return h.Host })
	if len(hooks) == 0 || iso.Agent.Image != "" {
		return
	}
	own, builtin := adapter.Builtin(e.Config.Executor)
	if !builtin {
		if e.Config.Executor != "command" { // which has none of its own
			iso.Agent.Image = images.Tools
		}
		return
	}
	for _, hook := range hooks {
		if called := lackedPrograms.FindStringSubmatch(hook.Command); called != nil {
			doc.Warnf(hook.at, "%s calls %s, which the image of %s lacks; name one that has both in config.isolation.agent.image", hook.at, called[1], own.Title)
		}
	}
}

// lackedPrograms finds the call of a usual program that images of agents' packages do not
// have.
var lackedPrograms = regexp.MustCompile(`(?:^|[;&|(\n])\s*(git|python3?|curl|jq|make|rg)(?:\s|$)`)

// bringServer has the files of a server's directory, or those that its arguments name, put
// into its container. They are beside the eval, in dir.
func bringServer(doc *strictyaml.Document, dir, name string, s *mcpconfig.Server) {
	home := path.Join("/srv", name)
	brought := map[string]string{}
	if cwd := cmp.Or(s.Cwd, s.WorkingDir); cwd != "" {
		if !isInside(path.Clean(cwd)) {
			return // checked with the server
		}
		names, err := filesBelow(filepath.Join(dir, cwd), func(_ string, entry fs.DirEntry) bool { return !entry.IsDir() && !entry.Type().IsRegular() })
		if err != nil {
			at := strictyaml.Path{"config", "mcp_servers", name, "cwd"}
			doc.Problemf(at, "%s: directory %q beside the eval cannot be put into the server's container: %v", at, cwd, err)
			return
		}
		for _, file := range names {
			brought[path.Join(home, file)] = path.Join(filepath.ToSlash(cwd), file)
		}
		s.WorkingDir, s.Cwd = "", home
	} else {
		for _, arg := range s.Args {
			if rel := strings.TrimPrefix(arg, "./"); isInside(rel) {
				if info, err := os.Stat(filepath.Join(dir, rel)); err == nil && info.Mode().IsRegular() {
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
