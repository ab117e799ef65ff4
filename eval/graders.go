package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

// graders collects graders whose names must differ, since verdicts are keyed by
// name.
type graders struct {
	doc     *strictyaml.Document
	eval    *Eval
	update  bool              // snapshots are written by the run
	seen    map[string]string // name → whose it is, for the message
	specs   []evidence.GraderSpec
	servers []serverName
}

// serverName is a server that a grader is about, and where it says so.
type serverName struct {
	name, grader string
	at           strictyaml.Path
}

// checkServers holds that graders are about servers that there are: of the eval,
// or of a task. One that a task removed counts, since a grader of the whole eval
// may be about it.
func (g *graders) checkServers(declared []string) {
	declared = slices.Compact(slices.Sorted(slices.Values(declared))) // a task's may be the eval's
	for _, s := range g.servers {
		if !slices.Contains(declared, s.name) {
			hint := "no server is"
			if len(declared) > 0 {
				hint = strictyaml.Suggest(s.name, declared)
			}
			g.doc.Problemf(s.at, "grader %q is about an MCP server %q, which is not declared; %s", s.grader, s.name, hint)
		}
	}
}

// add checks list, which stands at base of the document, and adds it. owner says
// whose graders they are.
func (g *graders) add(list []Grader, base strictyaml.Path, owner string) {
	for i, one := range list {
		at := base.With(i)
		one.Name = cmp.Or(one.Name, nameless(one.Type, owner, base, i))
		one = g.beside(one, at)
		files := g.checkConfig(&one, at)
		one = g.withAssertions(one, at)
		g.spec(one, at.With("name"), owner, files)
	}
}

// nameless is the name of a grader that has none: its type and its place in the list that
// stands at base, such as text-2, task-text-2 in a task, and attack-text-2 in its attack.
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

// beside has what stands beside a prompt grader's config in it, and says what has no
// effect, as in waza.
func (g *graders) beside(one Grader, at strictyaml.Path) Grader {
	for _, key := range []struct{ name, value, config string }{{"model", one.Model, "model"}, {"rubric", one.Rubric, "prompt"}, {"script", one.Script, ""}} {
		switch at := at.With(key.name); {
		case key.value == "":
		case one.Type != "prompt" || key.config == "":
			g.doc.Warnf(at, "%s has no effect on a grader of type %s", at, one.Type)
		case !g.doc.Add(key.value, at[:len(at)-1].With("config"), key.config):
			g.doc.Problemf(at, "%s stands in config too, as %s; give it once", at, key.config)
		}
	}
	return one
}

// withAssertions has the assertions that stand beside a code grader's config in it.
func (g *graders) withAssertions(one Grader, at strictyaml.Path) Grader {
	if one.Assertions == nil {
		return one
	}
	at = at.With("assertions")
	var config map[string]json.RawMessage
	switch {
	case one.Type != "code":
		g.doc.Problemf(at, "%s are of a code grader; this one is of type %s", at, one.Type)
		return one
	case len(one.Config) > 0 && json.Unmarshal(one.Config, &config) != nil:
		return one // reported with the config
	case config["assertions"] != nil:
		g.doc.Problemf(at, "%s stand in config too; give them once", at)
		return one
	}
	if err := (&grading.CodeConfig{Assertions: one.Assertions}).Validate(); err != nil {
		g.doc.Problemf(at, "%s: %s", at, flat(err))
	}
	if config == nil {
		config = map[string]json.RawMessage{}
	}
	var err error
	if config["assertions"], err = json.Marshal(one.Assertions); err == nil {
		one.Config, err = json.Marshal(config)
	}
	if err != nil {
		g.doc.Problemf(at, "%s: %v", at, err)
	}
	return one
}

// spec adds one grader, checked, whose name stands at the path named, with the files
// that its config names.
func (g *graders) spec(one Grader, named strictyaml.Path, owner string, files map[string][]byte) {
	if whose, taken := g.seen[one.Name]; taken && one.Name != "" {
		g.doc.Problemf(named, "grader name %q is taken already%s; verdicts are told apart by name", one.Name, whose)
	}
	g.seen[one.Name] = owner
	weight := one.Weight
	if weight <= 0 {
		weight = 1
	}
	g.specs = append(g.specs, evidence.GraderSpec{Name: one.Name, Type: one.Type, Weight: weight, Config: one.Config, Files: files})
}

// checkConfig checks a grader's config and reads the files that it names.
// What of the config nothing knows is taken out of it.
func (g *graders) checkConfig(one *Grader, at strictyaml.Path) map[string][]byte {
	config, known := grading.NewConfig(one.Type)
	if !known {
		g.unknown(one.Type, at.With("type"))
		return nil
	}
	at = at.With("config")
	fits := g.doc.DecodeAt(config, at...)
	if g.doc.Has(at...) {
		g.doc.DecodeAt(&one.Config, at...) // as it was understood
	}
	if program, ok := config.(*grading.ProgramConfig); ok && fits {
		g.bring(program, one)
	}
	if judge, ok := config.(interface{ Validate() error }); ok && fits {
		if err := judge.Validate(); err != nil {
			g.doc.Problemf(at, "%s: %s", at, flat(err))
			return nil
		}
	}
	if fits {
		g.checkAsked(one.Name, config, at)
	}
	if about, ok := config.(interface{ Servers() []string }); ok && fits {
		for _, name := range about.Servers() {
			g.servers = append(g.servers, serverName{name, one.Name, at})
		}
	}
	if about, ok := config.(interface{ Planted() []string }); ok && fits {
		g.checkPlanted(one.Name, about.Planted(), at)
	}
	if names, ok := config.(filed); ok && fits {
		return g.files(names, at)
	}
	return nil
}

// maxBrought is how many files a program is given that it does not list.
const maxBrought = 50

// bring has the files that a program's arguments name taken along, as scripts beside the
// eval are that upstream runs where it was started.
func (g *graders) bring(program *grading.ProgramConfig, one *Grader) {
	words := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`;|&()<>$=", r) }
	for _, arg := range append([]string{program.Command}, program.Args...) {
		for _, name := range append([]string{arg}, strings.FieldsFunc(arg, words)...) {
			name = strings.TrimPrefix(name, "./")
			if len(program.Files) >= maxBrought || len(name) > 200 || !strings.ContainsAny(name, "/.") || !isInside(name) || program.Files[name] != "" {
				continue
			}
			if _, err := g.eval.roots().find(name); err != nil {
				continue
			}
			if program.Files == nil {
				program.Files = map[string]string{}
			}
			program.Files[name] = name
		}
	}
	if len(program.Files) > 0 {
		if data, err := json.Marshal(program); err == nil {
			one.Config = data
		}
	}
}

// checkPlanted holds that a grader is about canaries that there are.
func (g *graders) checkPlanted(grader string, names []string, at strictyaml.Path) {
	known := slices.Sorted(maps.Keys(g.eval.Config.Canaries))
	if len(known) == 0 {
		g.doc.Problemf(at, "grader %q is about canaries, and the eval plants none; add config.canaries", grader)
		return
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			g.doc.Problemf(at, "grader %q is about a canary %q, which is not planted; %s", grader, name, strictyaml.Suggest(name, known))
		}
	}
}

func (g *graders) unknown(name string, at strictyaml.Path) {
	if name != "" { // else reported as missing
		g.doc.Problemf(at, "unknown grader type %q; %s", name, strictyaml.Suggest(name, grading.Types()))
	}
}

// Names of the graders that expected stands for.
const (
	ExpectedOutput   = "expected:output"
	ExpectedBehavior = "expected:behavior"

	ExpectedToolCalls = "expected:tool_calls"
	ExpectedTrigger   = "expected:should_trigger"
)

// expected adds the graders that a task's expected is short for.
func (g *graders) expected(e Expected) {
	at := strictyaml.Path{"expected"}
	if len(e.OutputContains)+len(e.OutputNotContains)+len(e.OutputContainsAny) > 0 {
		g.short(Grader{Name: ExpectedOutput, Type: "text"}, grading.TextConfig{
			Contains: e.OutputContains, NotContains: e.OutputNotContains, ContainsAny: e.OutputContainsAny,
		}, at)
	}
	behavior := grading.BehaviorConfig{MaxDurationMS: e.MaxResponseTimeMS}
	if b := e.Behavior; b != nil {
		behavior.MaxIterations, behavior.RequiredTools, behavior.ForbiddenTools = b.MaxIterations, b.RequiredTools, b.ForbiddenTools
		for _, limit := range []struct{ from, to *int }{{b.MaxTokens, &behavior.MaxTokens}, {b.MaxToolCalls, &behavior.MaxToolCalls}} {
			if limit.from != nil {
				*limit.to = *limit.from
			}
		}
		if b.MaxResponseTimeMS > 0 && (behavior.MaxDurationMS == 0 || b.MaxResponseTimeMS < behavior.MaxDurationMS) {
			behavior.MaxDurationMS = b.MaxResponseTimeMS
		}
	}
	behavior.RequiredTools = append(behavior.RequiredTools, g.outcomes(e.Outcomes)...)
	if behavior.Validate() == nil { // it asks for something
		g.short(Grader{Name: ExpectedBehavior, Type: "behavior"}, behavior, at)
	}
	if len(e.ToolCalls) > 2 { // not {}
		one := Grader{Name: ExpectedToolCalls, Type: "tool_calls", Config: e.ToolCalls}
		at := append(at, "tool_calls")
		config := new(grading.ToolCallsConfig)
		if g.doc.DecodeAt(config, at...) {
			if err := config.Validate(); err != nil {
				g.doc.Problemf(at, "%s: %s", at, flat(err))
			}
			g.doc.DecodeAt(&one.Config, at...)
			g.spec(one, at, " by expected", nil)
		}
	}
}

// outcomes are the tools that expected.outcomes asks for. That the task was completed is
// what every trial that passes is; other types are asked for by nothing, as in waza.
func (g *graders) outcomes(all []Outcome) (tools []string) {
	for i, one := range all {
		at := strictyaml.Path{"expected", "outcomes", i}
		var tool string
		switch {
		case one.Type == "" || one.Type == "task_completed": // the first is reported as missing
		case one.Type != "tool_called":
			g.doc.Warnf(at, "%s: nothing checks an outcome of type %q, here or in waza; a grader can", at, one.Type)
		case json.Unmarshal(one.Value, &tool) != nil || tool == "":
			g.doc.Problemf(at, "%s: tool_called needs the name of the tool as its value", at)
		default:
			tools = append(tools, tool)
		}
	}
	return tools
}

func (g *graders) short(one Grader, config any, at strictyaml.Path) {
	data, err := json.Marshal(config)
	if err != nil {
		g.doc.Problemf(at, "%s: %v", at, err)
		return
	}
	one.Config = data
	g.spec(one, at, " by expected", nil)
}

// filed is a grader's config that names files.
type filed interface {
	Files() []string // slash-separated, relative to the eval
	Hold(map[string][]byte) error
}

// files reads what a config, which stands at a path of the document, names.
func (g *graders) files(config filed, at strictyaml.Path) map[string][]byte {
	files := map[string][]byte{}
	read := func(name string) ([]byte, error) { return g.eval.roots().read(name, MaxGraderFile) }
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
