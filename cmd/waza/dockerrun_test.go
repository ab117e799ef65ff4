package main

import (
	"encoding/base64"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// TestDockerRun checks that a server configured as docker run IMAGE runs as that image, with
// the usual walls, its arguments and its environment.
func TestDockerRun(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  mcp_servers:
    stock:
      command: docker
      args: [run, -i, --rm, --init, --name, stock, -m, 64m, waza-examples/inventory]
    everything:
      command: docker
      args: [run, --rm, -ie, TOKEN, --env=MODE=quick, -e, OWN, --tmpfs, /srv/data, --entrypoint, sh, waza-examples/npm-servers, -c, "touch /srv/data/x && exec mcp-server-everything stdio"]
      env: {OWN: of the eval}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: What is there?}
script:
  - call: {server: stock, tool: stock_report}
  - call: {server: everything, tool: get-env}
    as: env
  - say: "{{ env.json.MODE }}, {{ env.json.OWN }}, {{ len(env.json.TOKEN) }}"
graders:
  - {type: text, name: said, config: {contains_cs: ["quick, of the eval, 17"]}}
`, inventory, npmServers)
	p.env = append(p.env, "TOKEN=hunter2-of-docker")
	plan := p.start("run", "--isolate", "--dry-run", "eval.yaml").wait(exitOK).stdout.String()
	for _, want := range []string{
		`stock, command ["docker" "run" "-i" "--rm"`, "becomes the command of its image, environment []", "image waza-examples/inventory, cpus 1, memory 64MiB",
		`becomes command ["sh" "-c" "touch /srv/data/x && exec mcp-server-everything stdio"], environment ["MODE" "OWN" "TOKEN"]`, "writable /srv/data",
	} {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	p.run(exitOK)
	if run := p.runOf("x"); run.Outcome != evidence.ClassPass {
		t.Errorf("%s %+v", run.Outcome, run.Validations)
	}
	if record := p.record().Images[inventory]; !strings.HasPrefix(record.ID, "sha256:") {
		t.Errorf("run.json has %+v for %s", record, inventory)
	}
	if trial := p.read("run", "trials", "x", "1", "trial.json"); strings.Contains(trial, "hunter2") {
		t.Error("trial.json shows the token")
	}
}

// TestServerThatWantsRoot checks the hint for a server whose image requires root.
func TestServerThatWantsRoot(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: mock
  mcp_servers:
    rooted: {image: "debian:bookworm-slim", command: sh, args: [-c, "mkdir -p /var/lib/app && chown 33 /var/lib/app && exec setpriv --reuid 33 serve"]}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`)
	said := p.run(exitFailed).stdout.String()
	for _, want := range []string{`MCP server "rooted" exited with code`, "its image names no user, so it ran as a user without rights", "set user to the user it is made for"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
}

const registryPassword = "hunter2-of-the-registry"

// TestPrivateRegistry checks that a private image is pulled with the user's Docker login, that
// its digest is recorded, and that the login is not.
func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	p := newProject(t, "")
	registry := dockertest.ServeRegistry(t, runtime.GOARCH, "reader", registryPassword)
	engine := dockertest.Engine(t)
	t.Cleanup(func() { registry.Forget(t, engine) })
	p.write("eval.yaml", `
name: `+p.name+`
config:
  trials_per_task: 1
  executor: script
  isolation: {network: airtight, pull: always, agent: {image: "`+registry.Image+`"}}
tasks: [task.yaml]
`)
	p.write("task.yaml", `{id: x, inputs: {prompt: x}, script: [{say: done}]}`)
	auth := base64.StdEncoding.EncodeToString([]byte("reader:" + registryPassword))
	p.write("docker/config.json", `{"auths": {"`+registry.Host+`": {"auth": "`+auth+`"}}}`)

	p.env = append(p.env, "DOCKER_CONFIG="+p.path("nowhere"))
	c := p.run(exitInfra)
	if said := c.stderr.String(); !strings.Contains(said, "needs a login, as by docker login "+registry.Host) {
		t.Errorf("without a login: %s", said)
	}
	if said := p.run(exitInfra, "--pull", "never").stderr.String(); !strings.Contains(said, "its pull policy is never") {
		t.Errorf("--pull never: %s", said)
	}
	p.env = append(p.env, "DOCKER_CONFIG="+p.path("docker"))
	c = p.run(exitOK)
	record := p.record().Images[registry.Image]
	if diff := cmp.Diff([]string{registry.Pinned()}, record.Digests); diff != "" || record.ID == "" {
		t.Errorf("run.json (-want +got):\n%s", diff)
	}
	texts := map[string]string{"stdout": c.stdout.String(), "stderr": c.stderr.String()}
	err := filepath.WalkDir(p.path("run"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		texts[path] = string(data)
		return err
	})
	if err != nil || len(texts) < 8 {
		t.Fatalf("%d files, %v", len(texts), err)
	}
	for where, text := range texts {
		if strings.Contains(text, registryPassword) || strings.Contains(text, auth) {
			t.Errorf("%s shows the login", where)
		}
	}
}
