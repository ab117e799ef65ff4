package plan_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/kube"
)

func TestGifts(t *testing.T) {
	t.Parallel()
	remote := func(name, url string, headers ...string) plan.Server {
		config := mcpconfig.Server{URL: url, Headers: map[string]string{}}
		for _, value := range headers {
			config.Headers[value] = "${" + value + "}"
		}
		return plan.Server{Name: name, Config: config, Expanded: mcpconfig.Server{URL: url}, Remote: true}
	}
	elsewhere, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(elsewhere, link); err != nil {
		t.Fatal(err)
	}
	fromLink := mcpconfig.Server{Build: &mcpconfig.Build{Context: link}}
	trial := plan.Trial{
		Task:   "t",
		Files:  []plan.File{{WorkspaceFile: eval.WorkspaceFile{Path: "k", Source: &eval.Source{Dir: "/etc", Path: "hostname"}}}, {WorkspaceFile: eval.WorkspaceFile{Path: "a", Source: &eval.Source{Dir: ".", Path: "a"}}}},
		Skills: []plan.Skill{{Name: "s", Files: []plan.File{{WorkspaceFile: eval.WorkspaceFile{Path: "SKILL.md", Source: &eval.Source{Dir: "../../..", Path: "SKILL.md"}}}}}},
		Servers: []plan.Server{
			remote("a", "https://h.example:8443/x", "B", "A"), remote("b", "https://h.example:8443/y", "C", "A"),
			{Name: "p", Config: mcpconfig.Server{
				Image: "i", Args: []string{"\x1b[2J"}, Egress: []mcpconfig.Egress{{Host: "${D}.example"}},
				Services: map[string]*mcpconfig.Service{"db": {Env: map[string]string{"X": "${E}"}}},
				Secrets:  map[string]mcpconfig.Secret{"S": {Env: "F"}, "T": {File: "key"}},
			}},
			{Name: "s", Config: fromLink, Expanded: fromLink, Source: &images.Source{}},
		},
		Repos: []plan.Repo{{Repo: eval.Repo{Type: "worktree", Source: elsewhere}}, {Repo: eval.Repo{Type: "worktree", Source: link}}},
		Models: &plan.Models{Providers: []plan.Provider{
			{BaseURL: "https://api.openai.com/v1", APIKeyEnv: "OPENAI_API_KEY"},
			{BaseURL: "https://api.anthropic.com", APIKeyEnv: "OPENAI_API_KEY"},
			{Script: "s.yaml", APIKeyEnv: "G"},
		}},
		Judge:      &evidence.Judge{BaseURL: "https://api.\u043epenai.com/v1", APIKeyEnv: "OPENAI_API_KEY"},
		Kubernetes: &kube.Settings{Context: "prod"},
	}
	want := []plan.Gift{
		{To: "h.example:8443", Variables: []string{"A", "B", "C"}, Remote: true},
		{To: `server "p" (i \u{1B}[2J), which may reach ${D}.example`, Variables: []string{"D", "E", "F"}, Others: []string{"the file key"}},
		{To: `server "s"`},
		{To: `the build of server "s"`, Others: []string{"the files of " + link + " (which leads to " + elsewhere + ")"}, Build: true},
		{To: "api.openai.com"},
		{To: "api.anthropic.com", Variables: []string{"OPENAI_API_KEY"}},
		{To: "api.xn--penai-iye.com", Variables: []string{"OPENAI_API_KEY"}},
		{To: `the cluster of context "prod"`, Others: []string{"your login"}},
		{To: "task t", Others: []string{"the files of ../../..", "the files of /etc"}},
		{To: "the agent of task t", Others: []string{"the repository " + elsewhere, "the repository " + link + " (which leads to " + elsewhere + ")"}},
	}
	if diff := cmp.Diff(want, plan.Gifts(&eval.Eval{}, []*plan.Trial{&trial, &trial})); diff != "" {
		t.Error(diff)
	}
}
