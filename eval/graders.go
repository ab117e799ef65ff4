package eval

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// graders collects graders. Their names must be unique, since verdicts are keyed by name.
type graders struct {
	doc     *strictyaml.Document
	eval    *Eval
	update  bool              // the run writes snapshots
	seen    map[string]string // owner by name, for messages
	specs   []evidence.GraderSpec
	servers []serverName
}

// newGraders returns an empty collection for graders of a document.
func (l *loader) newGraders(doc *strictyaml.Document) *graders {
	return &graders{doc: doc, eval: l.eval, update: l.opts.UpdateSnapshots, seen: map[string]string{}}
}

// serverName is a server's name in a grader's config, with its position.
type serverName struct {
	name, grader string
	at           strictyaml.Path
}

// checkServers checks that servers named by graders are declared by the eval or a task. A server that the
// task removes counts as declared, since a grader of the whole eval may name it.
func (g *graders) checkServers(declared []string) {
	for _, s := range g.servers {
		if !slices.Contains(declared, s.name) && !hidesServers(g.eval) {
			g.doc.Problemf(s.at, "grader %q names %s", s.grader, notDeclared(s.name, declared))
		}
	}
}

// hidesServers reports whether the eval's servers cannot be read, which is reported elsewhere.
func hidesServers(e *Eval) bool { return e.doc.Reported("config", "mcp_servers") }

// notDeclared completes a message about the name of a server that is not declared.
func notDeclared(name string, declared []string) string {
	hint := "no server is"
	if len(declared) > 0 {
		hint = strictyaml.Suggest(name, declared)
	}
	return fmt.Sprintf("the MCP server %q, which is not declared; %s", name, hint)
}

// add checks and adds the graders of the list at base. owner completes the message about a duplicate name.
func (g *graders) add(list []Grader, base strictyaml.Path, owner string) {
	for i, one := range list {
		at := base.With(i)
		one.Name = cmp.Or(one.Name, nameless(one.Type, owner, base, i))
		g.moveIntoConfig(one, at)
		files := g.checkConfig(&one, at)
		one = g.withAssertions(one, at)
		g.spec(one, at.With("name"), owner, files)
	}
}

// nameless returns the default name of a grader, derived from its type and its position in the list at base:
// text-2, task-text-2 in a task, and attack-text-2 in an attack.
func nameless(kind, owner string, base strictyaml.Path, i int) string {
	name := fmt.Sprintf("%s-%d", kind, i+1)
	switch {
	case base[0] == "attack":
		return "attack-" + name
	case owner != "":
		return "task-" + name
	}
	return name
}

// spec adds a checked grader with the files that its config names. named is the path of its name.
func (g *graders) spec(one Grader, named strictyaml.Path, owner string, files map[string][]byte) {
	if whose, taken := g.seen[one.Name]; taken && one.Name != "" {
		g.doc.Problemf(named, "grader name %q is already taken%s; choose another", one.Name, whose)
	}
	g.seen[one.Name] = owner
	weight := one.Weight
	if weight <= 0 {
		weight = 1
	}
	spec := evidence.GraderSpec{Name: one.Name, Type: one.Type, Weight: weight, Config: one.Config, Files: files, From: g.from(one)}
	g.specs = append(g.specs, spec)
	for _, ask := range grading.Asks([]evidence.GraderSpec{spec}) {
		if file, ok := ask.What.(evidence.FileAsk); ok && g.eval.Local && !g.eval.Plays(cassette.Servers) {
			g.eval.needContainer(g.doc, named[:len(named)-1], fmt.Sprintf("grader %q: files of server %q are in its container", one.Name, file.Server), "")
		}
	}
}

// from returns the file that contains a grader.
func (g *graders) from(one Grader) string {
	if source, err := g.eval.roots().inside(one.Ref); one.Ref != "" && err == nil {
		return filepath.Join(source.Dir, source.Path)
	}
	return g.doc.File()
}

// checkConfig checks a grader's config, without its unknown keys, and reads the files that it
// names.
func (g *graders) checkConfig(one *Grader, at strictyaml.Path) map[string][]byte {
	config, known := grading.NewConfig(one.Type)
	if !known {
		g.unknown(one.Type, at.With("type"))
		return nil
	}
	at = at.With("config")
	fits := g.doc.DecodeAt(config, at...)
	if g.doc.Has(at...) {
		g.doc.DecodeAt(&one.Config, at...) // as decoded
	}
	if program, ok := config.(*grading.ProgramConfig); ok && fits {
		g.bring(program, one)
		g.eval.checkBuild(g.doc, at.With("build"), fmt.Sprintf("grader %q", one.Name), program.Build)
	}
	if judge, ok := config.(grading.Validated); ok && fits {
		if err := judge.Validate(); err != nil {
			g.wrong(at, err)
			return nil
		}
	}
	if fits {
		g.checkAsked(one.Name, config, at)
	}
	if about, ok := config.(grading.Served); ok && fits {
		for _, name := range about.Servers() {
			g.servers = append(g.servers, serverName{name, one.Name, at.With("server")})
		}
	}
	if about, ok := config.(grading.Planted); ok && fits {
		g.checkPlanted(one.Name, about.Planted(), at)
	}
	if names, ok := config.(grading.Filed); ok && fits {
		return g.files(names, at)
	}
	return nil
}

// wrong reports errors in the config at a path. Each line is reported at the value with whose key it begins,
// if there is one.
func (g *graders) wrong(at strictyaml.Path, err error) {
	var rest []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if value := g.doc.Named(at, line); len(value) > len(at) {
			g.doc.Problemf(value, "%s: %s", at, line)
		} else if line != "" {
			rest = append(rest, line)
		}
	}
	if len(rest) > 0 {
		g.doc.Problemf(at, "%s: %s", at, strings.Join(rest, "; "))
	}
}

// checkPlanted checks that the canaries which a grader names are planted.
func (g *graders) checkPlanted(grader string, names []string, at strictyaml.Path) {
	known := slices.Sorted(maps.Keys(g.eval.Config.Canaries))
	if len(known) == 0 {
		g.doc.Problemf(at, "grader %q looks for canaries, and the eval has none; add config.canaries", grader)
		return
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			g.doc.Problemf(at, "grader %q is about a canary %q, which is not in config.canaries; %s", grader, name, strictyaml.Suggest(name, known))
		}
	}
}

func (g *graders) unknown(name string, at strictyaml.Path) {
	if name != "" { // an empty name is reported as missing
		g.doc.Problemf(at, "unknown grader type %q; %s", name, strictyaml.Suggest(name, grading.Types()))
	}
}

// files reads the files named by the config at a path of the document.
func (g *graders) files(config grading.Filed, at strictyaml.Path) map[string][]byte {
	files := map[string][]byte{}
	read := g.eval.roots().read
	if diff, ok := config.(*grading.DiffConfig); ok {
		if g.update {
			read = g.eval.readSnapshot
		} else if diff.UpdateSnapshots {
			g.doc.Warnf(at.With("update_snapshots"), "%s.update_snapshots has no effect: waza run --update-snapshots writes snapshots, which no eval can ask for", at)
		}
	}
	for _, name := range config.Files() {
		content, err := read(name)
		if err != nil {
			g.doc.Problemf(at, "%s: file %q %v", at, name, err)
			return nil
		}
		files[name] = content
	}
	if err := config.Hold(files); err != nil {
		g.doc.Problemf(at, "%s: %s", at, flat(err))
	}
	return files
}
