package archtest

import (
	"slices"
	"strings"
	"testing"
)

// floors are all packages of the module, from the ground up. A package imports packages of
// lower floors only, so what a floor is about is decided without those above it.
var floors = [][]string{
	// What tests take out.
	{"internal/defence"},
	// Helpers of the standard library's kind, and what only tests need.
	{
		"internal/archtest", "internal/bounded", "internal/dockertest",
		"internal/files", "internal/golden",
		"internal/heavytest", "internal/jsontext", "internal/judgetest", "internal/memtest",
		"internal/oteltest", "internal/proc", "internal/pypitest", "internal/retry",
		"internal/tree/treetest", "internal/upstreamtest", "internal/web",
		"test/bench/mcppeer", "test/compat", "test/conformance", "docs", "examples/mcp-eval/server", "examples/services/server", "test/frozen",
		"test/pages", "schemas",
	},
	// Helpers that use those.
	{"internal/browsertest", "internal/kubetest", "internal/offline", "internal/strictyaml", "internal/text", "internal/tree", "mcp/sse", "test/bench/peer"},
	// Single ideas: a configuration, a format, a matcher, one kind of observation.
	{
		"agents/input", "evidence/changes", "evidence/secret", "internal/frontmatter", "internal/schema", "internal/template", "internal/termtest", "internal/yamltext",
		"mcp/catalog", "mcp/jsonrpc", "mcp/mirror", "mcpconfig", "model/dialect", "sandbox/cmdmock", "sandbox/hint", "sandbox/kube", "sandbox/observe", "sandbox/probe",
		"sandbox/process",
	},
	// What a trial leaves, and process 1 of its containers.
	{"evidence", "grading/match", "images", "mcp/finding", "sandbox/guest", "test/attacks/part"},
	// How MCP servers are reached.
	{"evidence/cassette", "mcp/answer", "mcp/transport", "cmd/waza/scaffold"},
	// What goes over the wire, and what it adds up to.
	{
		"evidence/capture", "egress", "mcp/client", "mcp/proxy",
		"model/judge", "model/recorded", "sandbox", "test/attacks/hostileguest",
	},
	// Verdicts, numbers, transcripts.
	{"agents/transcript", "grading", "model/stub", "results"},
	// All of a trial, in the order in which a person reads it, and what is shown of a run.
	{"report/view"},
	// What is shown of servers.
	{"report/inspection"},
	// Agents and reports.
	{
		"agents/adapter", "agents/llm", "agents/script", "mcp/mock", "report", "report/export", "report/github", "report/junit",
		"report/terminal",
	},
	// The eval, which names graders, agents and mocks.
	{"agents", "eval"},
	{"model/gateway", "runner/gitrepo", "sandbox/guests", "sandbox/inside", "sandbox/local", "sandbox/sandboxtest", "sandbox/selftest"},
	// The backends, which know sandboxes and not what they are for.
	{"containers", "kubernetes"},
	{"results/record", "runner/plan"},
	{"runner/trial"},
	{"runner"},
	// What is attached to runs: the dashboard, progress on a terminal.
	{"internal/liveview", "internal/runtest", "report/serve", "test/attacks/hostile"},
	// Programs.
	{"agents/adapter/lock", "test/attacks", "test/bench", "cmd/waza", "cmd/waza-guest", "cmd/waza-guest/pack"},
}

// modulePackages are the packages of the module, without its path.
func modulePackages(t *testing.T) []pkg {
	all := list(t, module+"...")
	for i := range all {
		all[i].ImportPath = strings.TrimPrefix(all[i].ImportPath, module)
	}
	return all
}

func TestFloors(t *testing.T) {
	floor := map[string]int{}
	for n, names := range floors {
		for _, name := range names {
			if _, twice := floor[name]; twice {
				t.Errorf("%s has two floors", name)
			}
			floor[name] = n
		}
	}
	for _, p := range modulePackages(t) {
		n, known := floor[p.ImportPath]
		if !known {
			t.Errorf("%s has no floor: add it to floors", p.ImportPath)
			continue
		}
		delete(floor, p.ImportPath)
		for _, imported := range p.Imports {
			below, own := strings.CutPrefix(imported, module)
			if own && !slices.ContainsFunc(floors[:n], func(names []string) bool { return slices.Contains(names, below) }) {
				t.Errorf("%s, on floor %d, imports %s, which is on no lower floor", p.ImportPath, n, below)
			}
		}
	}
	for name := range floor {
		t.Errorf("%s has a floor and does not exist", name)
	}
}

// deletable are features that nothing else needs, so that each can be deleted with its
// command or flag: cmd/waza imports them, and whoever is listed here with a reason.
var deletable = map[string]map[string]string{
	"containers": {
		"agents/adapter/lock": "resolves the packages of agents in containers",
		"test/bench":          "measures it",
	},
	"agents/adapter": {
		"agents/adapter/lock": "writes its lock",
		"eval":                "not yet: an eval names its executor, and eval checks it",
		"runner/plan":         "not yet: the plan says how each executor is started",
	},
	"agents/script": {"agents": "lists it"},
	"mcp/mock": {
		"eval":           "not yet: a mock is part of the eval's types",
		"results/record": "records what it plays",
		"runner/trial":   "plays them",
		"runner/plan":    "not yet: a plan says which servers are mocks",
	},
	"model/judge":       {},
	"model/stub":        {},
	"internal/liveview": {},
	"report/export":     {},
	"report/github":     {},
	"report/inspection": {
		"report/export": "exports its findings", "runner": "not yet: the runner makes the inspection from the evidence",
		"runner/trial": "not yet: likewise",
	},
	"report/junit":      {"runner": "not yet: the runner writes every run's files"},
	"report/terminal":   {"internal/liveview": "paints outcomes alike"},
	"sandbox/local":     {},
	"cmd/waza/scaffold": {},
	"report/serve":      {},
}

func TestDeletable(t *testing.T) {
	found := map[string][]string{}
	for _, p := range modulePackages(t) {
		for _, imported := range p.Imports {
			name := strings.TrimPrefix(imported, module)
			if _, is := deletable[name]; is {
				found[name] = append(found[name], p.ImportPath)
			}
		}
	}
	for feature, exceptions := range deletable {
		for _, importer := range found[feature] {
			if _, excepted := exceptions[importer]; !excepted && importer != "cmd/waza" {
				t.Errorf("%s imports %s, which is to be deletable", importer, feature)
			}
		}
		for importer := range exceptions {
			if !slices.Contains(found[feature], importer) {
				t.Errorf("%s imports %s no longer: delete the exception", importer, feature)
			}
		}
	}
}
