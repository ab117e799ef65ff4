package main

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/images"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// What no current version asks for goes, but not under a run that is alive: that may be
// one of the version which asks for it.
func TestImages_PruneBesideARun(t *testing.T) {
	t.Parallel()
	p, engine, c := privateProject(t)
	old := []string{images.AgentRepository + ":old", images.Repository + ":old"}
	labelled(t, engine.Client(), old[0], "agent")
	labelled(t, engine.Client(), old[1], "server")
	const another = images.AgentRepository + ":somebodys"
	if _, err := engine.Client().ImageTag(t.Context(), client.ImageTagOptions{Source: inventory, Target: another}); err != nil {
		t.Fatal(err)
	}
	if said := p.start("images", "prune").wait(exitInfra).stderr.String(); !strings.Contains(said, "1 live run may need these images") {
		t.Error(said)
	}
	listed := p.start("images", "list").wait(exitOK).stdout.String()
	for _, tag := range old {
		if !strings.Contains(listed, tag) {
			t.Errorf("%s is gone while a run is alive: %s", tag, listed)
		}
	}
	if count := strings.Count(listed, "not built"); count != len(adapter.Names()) {
		t.Errorf("%d agents are not built: %s", count, listed)
	}
	c.wait(exitOK)
	if said := p.start("images", "prune").wait(exitOK).stdout.String(); strings.Count(said, "removed ") != len(old) {
		t.Error(said)
	}
	if said := p.start("images", "prune").wait(exitOK).stdout.String(); said != "nothing to remove\n" {
		t.Error(said)
	}
	for _, ref := range []string{inventory, another} {
		if _, err := engine.Client().ImageInspect(t.Context(), ref); err != nil {
			t.Errorf("an image that is not waza's: %v", err)
		}
	}
	dockertest.NoObjects(t, engine.Client(), p.runID())
}

// labelled makes an empty image with waza's label of a kind.
func labelled(t *testing.T, engine *client.Client, ref, kind string) {
	t.Helper()
	empty := strings.NewReader(strings.Repeat("\x00", 1024)) // a tar without entries
	progress, err := engine.ImageImport(t.Context(), client.ImageImportSource{Source: empty, SourceName: "-"}, ref, client.ImageImportOptions{Changes: []string{"LABEL waza.image=" + kind}})
	if err == nil {
		_, err = io.Copy(io.Discard, progress)
		err = errors.Join(err, progress.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

const sources = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    node: {build: {context: ./node, args: {FLAVOUR: plain}}}
    go: {build: go}
    python: {build: {context: python}}
    docker: {build: {context: node, dockerfile: own/Dockerfile, target: last, args: {GREETING: hello}}}
tasks: [task.yaml]
-- node/own/Dockerfile --
FROM node:24-bookworm-slim AS first
ARG GREETING
COPY greeter.js /srv/
RUN sed -i "/ssh2/d; s/hello from/$GREETING by/" /srv/greeter.js && test ! -e .env
FROM node:24-bookworm-slim AS last
COPY --from=first /srv /srv
CMD ["node", "/srv/greeter.js"]
FROM nothing-of-this-name
-- task.yaml --
id: greet
inputs: {prompt: p}
script:
  - call: {server: node, tool: greet}
    as: node
  - call: {server: go, tool: greet}
    as: go
  - call: {server: python, tool: greet}
    as: python
  - call: {server: docker, tool: greet}
    as: docker
  - say: "{{ node.text }}, {{ go.text }}, {{ python.text }}, {{ docker.text }}"
expected: {output_contains: ["hello from Node.js, hello from Go, hello from Python, hello by Node.js"]}
`

// builds counts the builds that begin with a name of what is built, without the lines about their steps.
func builds(said, what string) int {
	all := regexp.MustCompile(`(?m)^building image for `+regexp.QuoteMeta(what)+`.*`).FindAllString(said, -1)
	return len(slices.DeleteFunc(all, func(line string) bool { return strings.Contains(line, ", after ") }))
}

// Servers are built from source, by a recipe or their own Dockerfile, once for each content.
func TestImages_Source(t *testing.T) {
	t.Parallel()
	p := newProject(t, sources, images.DefaultNPM, images.DefaultGo, images.DefaultPyPI)
	if err := os.CopyFS(p.dir, os.DirFS("testdata/source")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"node", "go", "python"} { // so that no other run has built the same
		p.write(dir+"/stamp", p.name)
	}
	p.write("node/package.json", strings.Replace(p.read("node/package.json"), "{", `{"description": "`+p.name+`", `, 1))
	t.Cleanup(func() {
		listed := p.start("images", "list").wait(exitOK).stdout.String()
		for _, line := range regexp.MustCompile(`(?m)^source .*`+p.dir).FindAllString(listed, -1) {
			dockertest.DropImage(t, strings.Fields(line)[1])
		}
	})
	const fetching = "the npm packages of the source in node"
	if said := p.run(exitOK).stderr.String(); builds(said, "the source in ") != 4 || builds(said, fetching) != 1 {
		t.Errorf("the first run: %s", said)
	}
	p.write("python/server.py", strings.Replace(p.read("python/server.py"), "Python", "a snake", 1))
	p.write("node/stamp", p.name+" again")
	if said := p.start("run", "--isolate", "eval.yaml", "--run-dir", "changed").wait(exitFailed).stderr.String(); builds(said, "the source in python") != 1 ||
		builds(said, "the source in node") != 2 || builds(said, "") != 3 {
		t.Errorf("the run with changes: %s", said)
	}
	listed := p.start("images", "list").wait(exitOK).stdout.String()
	for state, want := range map[string]int{"current": 5, "old": 3} {
		if found := regexp.MustCompile(`(?m)^source .* `+state+` .*`+p.dir).FindAllString(listed, -1); len(found) != want {
			t.Errorf("%d images are %s: %s", len(found), state, listed)
		}
	}
	p.write("node/package.json", `{"scripts": {"build": "echo a typo >&2; false"}}`)
	if said := p.start("run", "--isolate", "eval.yaml", "--run-dir", "broken").wait(exitInfra).stderr.String(); !strings.Contains(said, "the source in node cannot be built: step ") || !strings.Contains(said, ", returned a non-zero code: ") || !strings.Contains(said, "    a typo\n") {
		t.Errorf("a source that does not build: %s", said)
	}
}

func TestImages_OfNobody(t *testing.T) {
	t.Parallel()
	p := unpackProject(t, "")
	for args, want := range map[string]string{
		"images build claud": `no agent "claud" comes with waza; did you mean "claude"?`,
		"images prun":        `unknown command images "prun"; did you mean "prune"?`,
		"images list all":    "images list takes no arguments",
		"images list --bas":  "unknown flag --bas; did you mean --base?",

		"images build nope --base debian:bookworm-slim": `no agent "nope" comes with waza`,
	} {
		if said := p.start(strings.Fields(args)...).wait(exitUsage).stderr.String(); !strings.Contains(said, want) {
			t.Errorf("%s: %s", args, said)
		}
	}
	if said := p.start("images", "build", "--help").wait(exitOK).stdout.String(); !strings.Contains(said, "--base") {
		t.Errorf("help: %s", said)
	}
}
