package match

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// assertion is a case of mcpchecker. What it says of resources and prompts is said
// here as of tools, of a server that the kind is part of.
type assertion struct {
	Assertion string
	Calls     []struct{ Kind, Name, Server string }
	Config    json.RawMessage
	Passed    bool
	Source    string
}

type asserted struct {
	Type, Server, Tool, Name, URI, Prompt  string
	ToolPattern, URIPattern, PromptPattern string
}

func (a asserted) target(kind string) (Target, error) {
	if a.Type != "" {
		kind = a.Type
	}
	name := a.Tool + a.Name + a.URI + a.Prompt
	pattern := a.ToolPattern + a.URIPattern + a.PromptPattern
	switch {
	case pattern != "": // its expressions are not anchored
		name = "/.*(?:" + pattern + ").*/"
	case name == "":
		name = "/.*/"
	}
	tool, err := CompileTool(name)
	return Target{Server: kind + " " + a.Server, Tool: tool}, err
}

func (a assertion) verdict(t *testing.T) (bool, error) {
	var config []asserted
	if err := json.Unmarshal(a.Config, &config); err != nil {
		t.Fatal(err)
	}
	kind := "tool"
	for _, other := range []string{"resource", "prompt"} {
		if strings.HasPrefix(a.Assertion, other) {
			kind = other
		}
	}
	var targets []Target
	for _, entry := range config {
		target, err := entry.target(kind)
		if err != nil {
			return false, err
		}
		targets = append(targets, target)
	}
	var calls []Call
	for _, call := range a.Calls {
		calls = append(calls, Call{Server: call.Kind + " " + call.Server, Tool: call.Name, OK: true})
	}
	switch a.Assertion {
	case "requireAny":
		return holds(Match(Superset, []Expected{Once(targets...)}, calls)), nil
	case "toolsNotUsed", "resourcesNotRead", "promptsNotUsed":
		return !slices.ContainsFunc(calls, func(call Call) bool {
			return slices.ContainsFunc(targets, func(t Target) bool { return t.Names(call.Server, call.Tool) })
		}), nil
	}
	mode := Superset
	if a.Assertion == "callOrder" {
		mode = InOrder
	}
	var expected []Expected
	for _, target := range targets {
		expected = append(expected, Once(target))
	}
	return holds(Match(mode, expected, calls)), nil
}

func TestAssertionsOfMCPChecker(t *testing.T) {
	counts := map[string]int{}
	for i, a := range readCases[assertion](t, shared(t, "mcpchecker_unit.jsonl")) {
		if a.Assertion == "noDuplicateCalls" {
			counts["not of this package: captured calls say what they repeat"]++
			continue
		}
		got, err := a.verdict(t)
		switch {
		case err != nil:
			counts["refused"]++
			t.Logf("row %d: %s: an expression that does not compile is refused, and not taken for one that nothing matches: %v", i+1, a.Source, err)
		case got != a.Passed:
			t.Errorf("row %d: %s: %v, want %v", i+1, a.Source, got, a.Passed)
		default:
			counts["agree"]++
		}
	}
	t.Log(counts)
	want := map[string]int{"agree": 61, "refused": 1, "not of this package: captured calls say what they repeat": 8}
	if !maps.Equal(counts, want) {
		t.Errorf("%v, want %v", counts, want)
	}
}
