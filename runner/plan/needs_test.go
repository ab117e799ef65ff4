package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
)

// TestNeeds holds that everything that a trial's sandbox is made of is named once, whoever needs it.
func TestNeeds(t *testing.T) {
	t.Parallel()
	of := func(image, pull string) sandbox.Container { return sandbox.Container{Image: image, Pull: pull} }
	npx := &images.Image{Package: mcpconfig.Package{Ecosystem: mcpconfig.NPM, Wanted: []mcpconfig.Requirement{{Text: "tool", Name: "tool"}}}}
	locked := *npx
	locked.Entry = &images.Entry{Version: "1.2.3"}
	contained := &Trial{
		Task: "t", Network: "bridge",
		Agent: Agent{Container: of("agent:1", "")},
		Servers: []Server{
			{Name: "pulled", Container: of("one:1", ""), Services: []Service{{Name: "db", Container: of("db:1", "")}}},
			{Name: "again", Container: of("one:1", mcpconfig.PullMissing)},
			{Name: "always", Container: of("two:1", mcpconfig.PullAlways)},
			{Name: "never", Container: of("three:1", mcpconfig.PullNever)},
			{Name: "npx", Build: npx},
			{Name: "locked", Build: &locked, Container: of("waza-server:1", mcpconfig.PullAlways)},
			{Name: "remote", Remote: true},
		},
		GraderContainers: []GraderContainer{{Container: of("grader:1", "")}},
		Repos:            []Repo{{Repo: eval.Repo{Type: "clone", Source: "https://git.example/r"}}, {Repo: eval.Repo{Type: "worktree", Source: "."}}},
	}
	local := &Trial{
		Task: "u", Network: sandbox.NetworkNone,
		Agent: Agent{Container: of("agent:2", "")},
		Servers: []Server{
			{Name: "a", Config: mcpconfig.Server{Command: "/usr/bin/npx"}}, {Name: "b", Config: mcpconfig.Server{Command: "uv"}},
			{Name: "c", Config: mcpconfig.Server{Command: "docker"}}, {Name: "d", Config: mcpconfig.Server{Command: "own"}},
			{Name: "e", Remote: true, Config: mcpconfig.Server{URL: "https://npx.example/npx"}},
		},
	}
	const clone, isolate = "clone it, and name the directory as its source", "run with --isolate, which fetches it once"
	want := []Need{
		{What: `the versions of npm:tool for server "npx", which are not in waza.lock`},
		{What: "the image for npm:tool@1.2.3, which is not built", Image: "waza-server:1", Built: true},
		{What: "image agent:1", Image: "agent:1"},
		{What: "image one:1", Image: "one:1"},
		{What: "image db:1", Image: "db:1"},
		{What: "image two:1, whose pull policy is always", Instead: "set that to missing, and the one that the engine has is used"},
		{What: "image three:1", Image: "three:1", Instead: "its pull policy is never, so build it or load it"},
		{What: "image grader:1", Image: "grader:1"},
		{What: "the repository https://git.example/r of task t", Instead: clone},
		{What: `what npx starts as server "a"`, Instead: isolate},
		{What: `what uv starts as server "b"`, Instead: isolate},
		{What: `what docker starts as server "c"`, Instead: isolate},
	}
	if diff := cmp.Diff(want, Needs([]*Trial{contained, contained, local})); diff != "" {
		t.Error(diff)
	}
}
