package main

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// offlineEval needs everything that can be fetched. HOST is a registry and an index.
const offlineEval = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: mock
  mcp_servers:
    pulled:
      image: HOST/team/pulled:1
      services: {db: {image: "HOST/team/db:1", ports: [1], ready: {health: true}}}
    digest: {image: "HOST/team/digest@sha256:1e1a7d7d1c9e57ea12d0ca0e6ae7b9d1a83b1c7d2a1a2f1d5b9a0e3a4c5d6e7f"}
    always: {image: "HOST/team/always:1", pull: always}
    npm: {command: npx, args: [-y, no-such-package]}
    pypi: {command: uvx, args: [no-such-package]}
    source: {build: source}
graders: [{type: program, name: checks, config: {command: "true", image: "HOST/team/grader:1"}}]
tasks: [task.yaml]
-- task.yaml --
id: t
inputs:
  prompt: p
  repos: [{source: "https://git.example/team/repo.git", dest: repo}]
-- mcp.json --
{"mcpServers": {"pulled": {"command": "docker", "args": ["run", "-i", "HOST/team/client:1"]}, "npm": {"command": "npx", "args": ["no-such-package"]}}}
-- source/Dockerfile --
FROM HOST/team/base:1
`

// TestOffline holds that a command with --offline names all that is missing, and reaches for none of it.
func TestOffline(t *testing.T) {
	t.Parallel()
	registry, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	go func() {
		for {
			c, err := registry.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = c.Close()
		}
	}()
	defer func() { _ = registry.Close() }()
	host := registry.Addr().String()
	p := newProject(t, strings.ReplaceAll(offlineEval, "HOST", host))
	for _, name := range []string{"NPM_CONFIG_REGISTRY", "PIP_INDEX_URL", "GOPROXY"} {
		p.env = append(p.env, name+"=http://"+host+"/")
	}
	images := []string{"image " + host + "/team/pulled:1: ", host + "/team/db:1: ", host + "/team/digest@sha256:", "/team/always:1, whose pull policy is always: ", "npm:no-such-package for server", "pypi:no-such-package for server", "the image for the source in source, which is not built: ", host + "/team/grader:1: "}
	for command, want := range map[string][]string{
		"run --isolate eval.yaml":               append(images, "the repository https://git.example/team/repo.git of task t: clone it", "waza images build eval.yaml"),
		"images save images.tar eval.yaml":      append(images, "waza images build eval.yaml"),
		"inspect eval.yaml":                     images[:len(images)-1],
		"inspect mcp.json":                      {host + "/team/client:1: ", "npm:no-such-package for server"},
		"inspect --image " + host + "/x:1 -- y": {"image " + host + "/x:1: run the command once without --offline"},
		"init --dir new -- npx x":               {"npm:x for server"},
		"init --dir new source":                 {"the image for the source in source, which is not built: "},
	} {
		name, rest, _ := strings.Cut(command, " ")
		if sub, more, _ := strings.Cut(rest, " "); name == "images" {
			name, rest = name+" "+sub, more
		}
		said := p.start(strings.Fields(name + " --offline " + rest)...).wait(exitUsage).stderr.String()
		for _, one := range append(want, "waza: --offline fetches nothing, and this is missing:\n") {
			if !strings.Contains(said, one) {
				t.Errorf("waza %s does not say %q:\n%s", command, one, said)
			}
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d connections were made", n)
	}
	for _, name := range []string{".waza", "waza.lock", "new/eval.yaml", "images.tar"} {
		if p.exists(name) {
			t.Errorf("%s was written", name)
		}
	}
	if said := p.start("run", "--isolate", "--offline", "--pull", "always").wait(exitUsage).stderr.String(); !strings.Contains(said, "give one of them") {
		t.Errorf("with both it says\n%s", said)
	}
}
