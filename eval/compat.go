package eval

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/mcpconfig"
)

// This file provides compatibility with evals of upstream waza: programs that upstream runs on the host get
// an image and their files, older and shorter keys are converted, and keys without effect cause a warning.

// translate replaces older names of keys by the current ones, and warns about keys that have no effect here.
func translate(doc *strictyaml.Document, e *Eval) {
	c := &e.Config
	if doc.Has("config", "workers") && doc.Has("config", "max_workers") {
		doc.Problemf(strictyaml.Path{"config", "max_workers"}, "config.max_workers is the older name of config.workers; give one of them")
	}
	c.Workers = cmp.Or(c.Workers, c.MaxWorkers)
	if e.Adversarial != nil {
		doc.Warnf(strictyaml.Path{"adversarial"}, "adversarial has no effect, since its packs are run by a command that only upstream has; to test an agent against prompt injection, give a task an attack")
	}
	if c.GroupBy != "" && c.GroupBy != GroupByModel {
		doc.Warnf(strictyaml.Path{"config", "group_by"}, "config.group_by: %q groups nothing; results are grouped by model", c.GroupBy)
	}
}

// toolPrograms returns the commands of host servers that the tools image can run.
func toolPrograms() []string { return []string{"node", "python", "python3", "bash", "sh"} }

// giveTools sets the tools image where the eval sets no image. With isolation.image: tools, it does so for
// the agent and the servers. In any case it does so for servers that upstream starts on the host with a
// common interpreter; these also get the files in their directory next to the eval.
func giveTools(doc *strictyaml.Document, e *Eval) {
	iso := &e.Config.Isolation
	if e.Local {
		return
	}
	if iso.Image == "tools" {
		iso.ServerImage = cmp.Or(iso.ServerImage, images.Tools)
		if _, builtin := adapter.Builtin(e.Config.Executor); !builtin { // a built-in adapter has its own image
			iso.Agent.Image = cmp.Or(iso.Agent.Image, images.Tools)
		}
	}
	giveHooksTools(doc, e)
	for _, name := range slices.Sorted(maps.Keys(e.Config.MCPServers)) {
		s := e.Config.MCPServers[name]
		if s == nil || s.URL != "" || s.Image != "" || s.Build != nil || iso.ServerImage != "" && iso.ServerImage != images.Tools || !slices.Contains(toolPrograms(), s.Command) {
			continue
		}
		s.Image = images.Tools
		bringServer(doc, e.Dir(), name, s)
	}
}

// giveHooksTools gives hooks the tools image if the agent would otherwise run in waza's own image, which has
// no shell. It warns about programs that hooks call and the agent's image lacks.
func giveHooksTools(doc *strictyaml.Document, e *Eval) {
	iso := &e.Config.Isolation
	hooks := slices.DeleteFunc(e.Hooks.all(), func(h placedHook) bool { return h.Host })
	if len(hooks) == 0 || iso.Agent.Image != "" {
		return
	}
	own, builtin := adapter.Builtin(e.Config.Executor)
	if !builtin {
		if e.Config.Executor != evidence.ExecutorCommand { // other executors have no image of their own
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

// lackedPrograms matches the call of a common program that the images of agents' packages lack.
var lackedPrograms = regexp.MustCompile(`(?:^|[;&|(\n])\s*(git|python3?|curl|jq|make|rg)(?:\s|$)`)

// bringServer adds to a server's container the files in its working directory, or those named in its
// arguments. They are in dir, next to the eval.
func bringServer(doc *strictyaml.Document, dir, name string, s *mcpconfig.Server) {
	home := path.Join("/srv", name)
	brought := map[string]string{}
	if cwd := s.Cwd; cwd != "" {
		if !files.IsInside(path.Clean(cwd)) {
			return // checked with the server
		}
		names, err := filesBelow(filepath.Join(dir, cwd), func(_ string, entry fs.DirEntry) bool { return entry.Type() == fs.ModeSymlink })
		if err != nil {
			at := strictyaml.Path{"config", "mcp_servers", name, "cwd"}
			doc.Problemf(at, "%s: directory %q of the eval's directory cannot be copied into the server's container: %v", at, cwd, err)
			return
		}
		for _, file := range names {
			brought[path.Join(home, file)] = path.Join(filepath.ToSlash(cwd), file)
		}
		s.Cwd = home
	} else {
		for _, arg := range s.Args {
			if rel := strings.TrimPrefix(arg, "./"); files.IsInside(rel) {
				if info, err := os.Stat(filepath.Join(dir, rel)); err == nil && !info.IsDir() {
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

// moveIntoConfig moves keys that upstream puts next to a prompt grader's config into the config, and warns
// about those that have no effect.
func (g *graders) moveIntoConfig(one Grader, at strictyaml.Path) {
	rubric := "prompt"
	if grading.IsRubric(one.Rubric) {
		rubric = "rubric"
	}
	for _, key := range []struct{ name, value, config string }{{"model", one.Model, "model"}, {"rubric", one.Rubric, rubric}, {"script", one.Script, ""}} {
		switch at := at.With(key.name); {
		case key.value == "":
		case one.Type != "prompt" || key.config == "":
			g.doc.Warnf(at, "%s has no effect on a grader of type %s", at, one.Type)
		case !g.doc.Add(key.value, at[:len(at)-1].With("config"), key.config):
			g.doc.Problemf(at, "%s is also given in config, as %s; remove one of them", at, key.config)
		}
	}
}

// withAssertions moves assertions next to a code grader's config into the config.
func (g *graders) withAssertions(one Grader, at strictyaml.Path) Grader {
	if one.Assertions == nil {
		return one
	}
	at = at.With("assertions")
	var config map[string]json.RawMessage
	switch {
	case one.Type != "code":
		g.doc.Problemf(at, "%s are only for code graders; this grader is of type %s", at, one.Type)
		return one
	case len(one.Config) > 0 && json.Unmarshal(one.Config, &config) != nil:
		return one // reported with the config
	case config["assertions"] != nil:
		g.doc.Problemf(at, "%s are also given in config; remove one of them", at)
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

// bring adds files that a program's arguments name to the program's files. Upstream runs scripts next to the
// eval in the directory where waza was started.
func (g *graders) bring(program *grading.ProgramConfig, one *Grader) {
	words := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`;|&()<>$=", r) }
	for _, arg := range append([]string{program.Command}, program.Args...) {
		for _, name := range append([]string{arg}, strings.FieldsFunc(arg, words)...) {
			name = strings.TrimPrefix(name, "./")
			if !strings.ContainsAny(name, "/.") || !files.IsInside(name) || program.Files[name] != "" {
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

// Names of the graders that the key expected adds. Names that begin with _ are upstream's.
const (
	expectedContains    = "_output_contains"
	expectedNotContains = "_output_not_contains"
	expectedContainsAny = "_output_contains_any"

	expectedBehavior  = "expected:behavior"
	expectedOutcomes  = "expected:outcomes"
	expectedTime      = "expected:max_response_time_ms"
	expectedToolCalls = "expected:tool_calls"
	expectedTrigger   = "expected:should_trigger"
)

// expected adds the graders for a task's key expected: one for each key in it.
func (g *graders) expected(e Expected) {
	at := strictyaml.Path{"expected"}
	b := e.Behavior
	behavior := grading.BehaviorConfig{
		RequiredTools: b.RequiredTools, ForbiddenTools: b.ForbiddenTools,
		MaxTokens: b.MaxTokens, MaxToolCalls: b.MaxToolCalls, MaxIterations: b.MaxIterations, MaxDurationMS: b.MaxResponseTimeMS,
	}
	tools := g.outcomes(e.Outcomes)
	for _, one := range []struct {
		asks       bool
		name, kind string
		config     any
	}{
		{len(e.OutputContains) > 0, expectedContains, "text", grading.TextConfig{Contains: e.OutputContains}},
		{len(e.OutputNotContains) > 0, expectedNotContains, "text", grading.TextConfig{NotContains: e.OutputNotContains}},
		{len(e.OutputContainsAny) > 0, expectedContainsAny, "text", grading.TextConfig{ContainsAny: e.OutputContainsAny}},
		{behavior.Validate() == nil, expectedBehavior, "behavior", behavior},
		{len(tools) > 0, expectedOutcomes, "behavior", grading.BehaviorConfig{RequiredTools: tools}},
		{e.MaxResponseTimeMS > 0, expectedTime, "behavior", grading.BehaviorConfig{MaxDurationMS: e.MaxResponseTimeMS}},
	} {
		if one.asks {
			g.short(Grader{Name: one.name, Type: one.kind}, one.config, at)
		}
	}
	if len(e.ToolCalls) > 2 { // an empty mapping is {}
		one := Grader{Name: expectedToolCalls, Type: "tool_calls", Config: e.ToolCalls}
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

// outcomes returns the tools in expected.outcomes. task_completed needs no grader, since every trial that
// passes fulfils it. As in upstream waza, other types are not checked.
func (g *graders) outcomes(all []Outcome) (tools []string) {
	for i, one := range all {
		at := strictyaml.Path{"expected", "outcomes", i}
		var tool string
		switch {
		case one.Type == "" || one.Type == "task_completed": // a missing type is reported elsewhere
		case one.Type != "tool_called":
			g.doc.Warnf(at, "%s: nothing checks an outcome of type %q, here or in waza; a grader can", at, one.Type)
		case one.ToolName != "":
			tools = append(tools, one.ToolName)
		case json.Unmarshal(one.Value, &tool) != nil || tool == "":
			g.doc.Warnf(at, "%s: nothing checks tool_called without the name of the tool as its value, here or in waza", at)
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
