package main

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/pypitest"
)

const npxServers = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    memory: {command: npx, args: [-y, "@modelcontextprotocol/server-memory"], env: {MEMORY_FILE_PATH: /tmp/memory.jsonl}}
    thinking: {command: npx, args: [-y, "@modelcontextprotocol/server-sequential-thinking@2026.7.4"]}
tasks: [task.yaml]
-- task.yaml --
id: think
inputs: {prompt: p}
script:
  - call: {server: memory, tool: create_entities, arguments: {entities: [{name: ada, entityType: person, observations: [wrote the first program]}]}}
  - call: {server: memory, tool: read_graph}
    as: graph
  - call: {server: thinking, tool: sequentialthinking, arguments: {thought: one, nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1}}
  - say: "{{ graph.text }}"
expected: {output_contains: [wrote the first program]}
`

// Servers as their documentation has them run offline, from images of their packages,
// and what they were resolved to is the same whenever it is asked for.
func TestImages_NPXServers(t *testing.T) {
	t.Parallel()
	p := newProject(t, npxServers, images.DefaultNPM)
	if said := p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitOK).stdout.String(); !strings.Contains(said, "npm:@modelcontextprotocol/server-memory, not resolved yet") {
		t.Errorf("the plan before: %s", said)
	}
	if p.exists("waza.lock") {
		t.Error("--dry-run wrote a lock")
	}
	p.start("lock", "eval.yaml").wait(exitOK)
	lock := p.read("waza.lock")
	p.run(exitOK)
	built := serverImages(t, p)
	if len(built) != 2 {
		t.Fatalf("run.json has the images %q", built)
	}
	plan := p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitOK).stdout.String()
	for tag := range built {
		if !strings.Contains(plan, "image "+tag) {
			t.Errorf("the plan does not name %s: %s", tag, plan)
		}
	}
	p.start("lock", "--update", "eval.yaml").wait(exitOK)
	if diff := cmp.Diff(lock, p.read("waza.lock")); diff != "" {
		t.Errorf("resolved anew: %s", diff)
	}
	if strings.Contains(lock, "://") {
		t.Error("the lock names a registry")
	}
}

// serverImages is the images of packages in run.json, as the engine has them now.
func serverImages(t *testing.T, p *project) map[string]string {
	t.Helper()
	found := map[string]string{}
	for ref, image := range p.record().Images {
		if !strings.HasPrefix(ref, images.Repository+":") {
			continue
		}
		found[ref] = dockertest.ImageID(t, ref)
		if found[ref] != image.ID {
			t.Errorf("run.json has %s as %s, the engine as %s", ref, image.ID, found[ref])
		}
	}
	return found
}

const uvxServer = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    greeter: {command: uvx, args: ["NAME@1.0"]}
tasks: [task.yaml]
-- task.yaml --
id: greet
inputs: {prompt: p}
script:
  - call: {server: greeter, tool: greet}
    as: greeting
  - call: {server: greeter, tool: dial, arguments: {host: HOST, port: PORT}}
    as: reached
  - say: "{{ greeting.text }} / {{ reached.text }}"
expected: {output_contains: ["hello from NAME / refused"], output_not_contains: [connected]}
`

// A server from a Python index, with a package it needs, is installed from there once
// and cannot reach it when it runs.
func TestImages_UVXServer(t *testing.T) {
	t.Parallel()
	p := newProject(t, uvxServer, images.DefaultPyPI)
	index := pypitest.Serve(t, dockertest.Gateway(t), pypitest.Server(p.name, "hello from "+p.name)...)
	host, port, _ := net.SplitHostPort(index.Addr)
	p.write("task.yaml", strings.NewReplacer("HOST", host, "PORT", port).Replace(p.read("task.yaml")))
	p.write("ca.pem", string(index.CA))
	p.env = append(p.env, "UV_DEFAULT_INDEX="+index.URL, "SSL_CERT_FILE="+p.path("ca.pem"), "PIP_CERT=", "NODE_EXTRA_CA_CERTS=",
		"HTTPS_PROXY=http://proxy.invalid:9", "NO_PROXY="+host)
	said := p.run(exitOK).stderr.String()
	for tag := range serverImages(t, p) {
		t.Cleanup(func() { dockertest.DropImage(t, tag) })
	}
	if !strings.Contains(said, "building image for pypi:"+p.name+"@1.0") || strings.Contains(said, pypitest.Password) {
		t.Errorf("the run said %q", said)
	}
	lock := p.read("waza.lock")
	if !strings.Contains(lock, p.name+"-words") || strings.Contains(lock, host) || strings.Contains(lock, pypitest.Password) {
		t.Errorf("the lock: %s", lock)
	}
	hits := index.Hits.Load()
	if said := p.start("run", "--isolate", "eval.yaml", "--run-dir", "again").wait(exitOK).stderr.String(); strings.Contains(said, "building") || strings.Contains(said, "resolved") {
		t.Errorf("the second run said %q", said)
	}
	if now := index.Hits.Load(); hits == 0 || now != hits {
		t.Errorf("the index was asked %d times by the first run, and %d by the second", hits, now-hits)
	}
}

// What is wrong with a lock or a package is said in one sentence.
func TestPackageMistakes(t *testing.T) {
	t.Parallel()
	p := newProject(t, npxServers)
	for name, tc := range map[string]struct{ lock, want string }{
		"no JSON":      {"{", "is not a valid lock file"},
		"unknown key":  {`{"version": 1, "packages": [], "odd": 1}`, `unknown field "odd"`},
		"other format": {`{"version": 7, "packages": []}`, "has version 7"},
		"half":         {`{"version": 1, "packages": [{"ecosystem": "npm", "request": ["a"], "version": "1.0.0"}]}`, "incomplete"},
	} {
		p.write("waza.lock", tc.lock)
		for _, args := range [][]string{{"run", "--isolate", "eval.yaml"}, {"run", "--isolate", "--dry-run", "eval.yaml"}, {"lock", "eval.yaml"}} {
			said := p.start(args...).wait(exitUsage).stderr.String()
			if !strings.Contains(said, "waza.lock") || !strings.Contains(said, tc.want) || strings.Count(said, "\n") != 1 {
				t.Errorf("%s, waza %s: %q", name, args, said)
			}
		}
	}
	p.start("lock").wait(exitUsage)
	p.start("lock", "--odd", "eval.yaml").wait(exitUsage)
}
