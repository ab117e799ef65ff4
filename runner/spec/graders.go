package spec

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/runner/evidence"
)

// graders collects graders whose names must differ, since verdicts are keyed by
// name.
type graders struct {
	doc     *strictyaml.Document
	dir     string            // of the eval, which files that configs name are relative to
	seen    map[string]string // name → whose it is, for the message
	config  Config            // the eval's
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
		at := append(slices.Clone(base), i)
		one = g.withAssertions(one, at)
		files := g.checkConfig(one, at)
		g.spec(one, append(slices.Clone(at), "name"), owner, files)
	}
}

// withAssertions has the assertions that stand beside a code grader's config in it.
func (g *graders) withAssertions(one Grader, at strictyaml.Path) Grader {
	if one.Assertions == nil {
		return one
	}
	at = append(slices.Clone(at), "assertions")
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
func (g *graders) checkConfig(one Grader, at strictyaml.Path) map[string][]byte {
	config, known := grading.NewConfig(one.Type)
	if !known {
		g.unknown(one.Type, append(slices.Clone(at), "type"))
		return nil
	}
	at = append(slices.Clone(at), "config")
	fits := g.doc.DecodeAt(config, at...)
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

// checkPlanted holds that a grader is about canaries that there are.
func (g *graders) checkPlanted(grader string, names []string, at strictyaml.Path) {
	known := slices.Sorted(maps.Keys(g.config.Canaries))
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
	switch {
	case name == "": // reported as missing
	case slices.Contains(grading.Unsupported(), name):
		g.doc.NotSupported(at, "grader "+name)
	default:
		g.doc.Problemf(at, "unknown grader type %q; %s", name, strictyaml.Suggest(name, grading.Types()))
	}
}

// Names of the graders that expected stands for.
const (
	ExpectedOutput   = "expected:output"
	ExpectedBehavior = "expected:behavior"
)

// expected adds the graders that a task's expected is short for.
func (g *graders) expected(e Expected) {
	if len(e.OutputContains)+len(e.OutputNotContains) > 0 {
		g.short(Grader{Name: ExpectedOutput, Type: "text"}, map[string]any{
			"contains": e.OutputContains, "not_contains": e.OutputNotContains,
		}, strictyaml.Path{"expected"})
	}
	if e.Behavior != nil {
		at := strictyaml.Path{"expected", "behavior"}
		if e.Behavior.empty() {
			g.doc.Problemf(at, "expected.behavior says nothing; give it max_tokens, max_tool_calls, required_tools or forbidden_tools")
			return
		}
		g.short(Grader{Name: ExpectedBehavior, Type: "behavior"}, e.Behavior, at)
	}
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

func (b Behavior) empty() bool {
	return b.MaxTokens == nil && b.MaxToolCalls == nil && len(b.RequiredTools)+len(b.ForbiddenTools) == 0
}
