package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/internal/runtest"
	"github.com/waza-isolate/waza/runner"
)

// engineSocket is the engine's socket in docker-compose.yml.
const engineSocket = "/var/run/docker.sock"

// runnerImage builds the image of docker-compose.yml from the executable under test,
// and removes it when the test ends.
func runnerImage(t *testing.T) (tag string) {
	t.Helper()
	dockertest.Tool(t, "docker-compose")
	dockertest.Require(t)
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyFile(t, filepath.Join(repository, "Dockerfile"), filepath.Join(dir, "Dockerfile"), 0o644)
	copyFile(t, dockertest.Waza(t), filepath.Join(dir, "bin", "waza"), 0o755)
	copyFile(t, os.DevNull, filepath.Join(dir, "bin", "ca-certificates.crt"), 0o644)
	tag = fmt.Sprintf("waza-runner-test:%d-%d", os.Getpid(), time.Now().UnixNano())
	docker(t, "build", "--quiet", "--target", "local", "--tag", tag, dir)
	t.Cleanup(func() { docker(t, "image", "rm", "--force", tag) })
	return tag
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	content, err := os.ReadFile(from)
	err = errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, mode))
	if err != nil {
		t.Fatal(err)
	}
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(dockertest.Tool(t, "docker"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", args[0], err, out)
	}
	return strings.TrimSpace(string(out))
}

// composed is a project that runs waza with docker-compose.yml.
type composed struct {
	*project
	file string
	uid  uint32 // whose evidence it is
}

// newComposed returns a project that belongs to a user other than root, if the test can change
// owners.
func newComposed(t *testing.T, image, archive string) *composed {
	t.Helper()
	file, err := filepath.Abs("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	socket, err := os.Stat(engineSocket)
	if err != nil {
		t.Skipf("SKIPPED: docker-compose.yml is about an engine of this machine: %v", err)
	}
	p := newProject(t, archive, inventory)
	c := &composed{project: p, file: file, uid: uint32(os.Getuid())}
	if c.uid == 0 {
		c.uid = 4711
		err := filepath.WalkDir(p.dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Chown(path, int(c.uid), -1))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	p.env = append(p.env, "WAZA_IMAGE="+image, fmt.Sprintf("WAZA_USER=%d:%d", c.uid, socket.Sys().(*syscall.Stat_t).Gid))
	t.Cleanup(func() {
		networks := docker(t, "network", "ls", "--quiet", "--filter", "label="+c.label())
		if left := append(c.containers(), strings.Fields(networks)...); len(left) > 0 {
			t.Errorf("docker-compose left %q", left)
		}
	})
	return c
}

// compose starts docker-compose run.
func (c *composed) compose(args ...string) *command {
	c.t.Helper()
	return c.service("waza", args...)
}

// service starts docker-compose run of another service, with its ports.
func (c *composed) service(name string, args ...string) *command {
	c.t.Helper()
	all := append([]string{"--file", c.file, "--project-directory", c.dir, "--project-name", c.name, "run", "--rm", "-T", "--service-ports", name}, args...)
	return c.startProgram(dockertest.Tool(c.t, "docker-compose"), all...)
}

// containers lists the containers that docker-compose created for the project.
func (c *composed) containers() []string {
	c.t.Helper()
	return strings.Fields(docker(c.t, "ps", "--all", "--quiet", "--filter", "label="+c.label()))
}

// label returns the label of everything that docker-compose creates for the project.
func (c *composed) label() string { return "com.docker.compose.project=" + c.name }

func (c *composed) kill(signal string) {
	c.t.Helper()
	found := c.containers()
	if len(found) != 1 {
		c.t.Fatalf("the runner has containers %q", found)
	}
	docker(c.t, "kill", "--signal", signal, found[0])
}

// The runner in a container runs evals of the directory beside docker-compose.yml,
// leaves evidence there that is the user's own, and its exit code is docker-compose's.
// However it ends, it leaves nothing, and a gc on the host leaves it alone.
func TestImages_Compose(t *testing.T) {
	t.Parallel()
	image := runnerImage(t)
	t.Run("outcomes", func(t *testing.T) { testComposeOutcomes(t, image) })
	t.Run("serve", func(t *testing.T) { testComposeServe(t, image) })
}

func TestFaults_Compose(t *testing.T) {
	t.Parallel()
	image := runnerImage(t)
	t.Run("TERM", func(t *testing.T) { testComposeStopped(t, image) })
	t.Run("KILL", func(t *testing.T) { testComposeKilled(t, image) })
}

func testComposeOutcomes(t *testing.T, image string) {
	c := newComposed(t, image, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, mcp_servers: {stock: {image: waza-examples/inventory}}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
-- failing.yaml --
name: NAME
config: {trials_per_task: 1, executor: script}
graders: [{type: text, name: never, config: {contains: [nothing that anybody says]}}]
tasks: [silent.yaml]
-- silent.yaml --
{id: y, inputs: {prompt: x}, script: [{say: done}]}
`)
	c.compose("run", "--isolate", "--run-dir", "run", "eval.yaml").wait(exitOK)
	if calls := c.runOf("x").SessionDigest.MCPToolCalls; calls != 1 {
		t.Errorf("%d calls on record, want 1", calls)
	}
	info, err := os.Stat(c.path("run", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if uid := info.Sys().(*syscall.Stat_t).Uid; uid != c.uid {
		t.Errorf("results.json is user %d's, want %d's", uid, c.uid)
	}
	if c.exists(".waza", "cache") {
		t.Error("a certificate is kept in the project, which could bring one along")
	}
	c.compose("run", "--isolate", "--run-dir", "failed", "failing.yaml").wait(exitFailed)
	c.compose("run", "--isolate", "missing.yaml").wait(exitUsage)
	c.start("grade", "run").wait(exitOK) // what came out is whole for a runner outside
}

func testComposeStopped(t *testing.T, image string) {
	c := newComposed(t, image, longRun)
	run := c.compose("run", "--isolate", "eval.yaml", "--run-dir", "run")
	c.awaitAgents(run, "slow-1", "slow-2")
	c.kill("TERM")
	run.wait(exitInfra)
	if !c.record().Interrupted {
		t.Error("run.json does not say that the run was interrupted")
	}
	dockertest.NoObjects(t, dockertest.Engine(t), c.runID())
}

func testComposeKilled(t *testing.T, image string) {
	c := newComposed(t, image, longRun)
	run := c.compose("run", "--isolate", "eval.yaml", "--run-dir", "run")
	c.awaitAgents(run, "slow-1", "slow-2") // all that come: what is just being made does not end by itself
	engine, id := dockertest.Engine(t), c.runID()
	slow := func() (names []string) { // those of other trials come and go meanwhile
		for _, one := range dockertest.Containers(t, engine, id) {
			if strings.Contains(one.Names[0], "-slow-1-") || strings.Contains(one.Names[0], "-slow-2-") {
				names = append(names, one.Names[0])
			}
		}
		slices.Sort(names)
		return names
	}
	before := slow()
	c.start("gc").wait(exitOK)
	if after := slow(); len(before) == 0 || !slices.Equal(before, after) {
		t.Errorf("a gc on the host left %q of %q, containers of a live run", after, before)
	}
	c.kill("KILL")
	dockertest.AwaitNoContainers(t, engine, id)
	select {
	case <-run.ended:
	case <-time.After(runLimit):
		t.Fatal("docker-compose did not end with its container")
	}
	if slices.Contains([]int{exitOK, exitFailed}, run.code) {
		t.Errorf("exit code %d of a runner that was killed", run.code)
	}
	c.start("gc").wait(exitOK)
	dockertest.NoObjects(t, engine, id)
}

// The service that shows runs reads them, is reached from this machine alone and has no
// engine to ask.
func testComposeServe(t *testing.T, image string) {
	c := newComposed(t, image, "")
	made := runtest.New(t, c.path(".waza", "runs", "a"), "shop")
	made.Trial("buy", func(*runtest.Trial) {})
	made.End()
	c.env = append(c.env, "WAZA_SERVE_PORT="+quietPort(t))
	seen := newServed(t, c.service("serve"))
	if page := seen.page("/"); seen.run() != "a" || strings.Contains(page, "</svg>at work<") {
		t.Errorf("it lists %s", page)
	}
	held, err := runner.Hold(c.path(".waza", "runs", "a"))
	if err == nil {
		made.Record.Ended = time.Time{}
		err = made.Record.Write(made.Dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	if page := seen.page("/"); seen.run() != "a" || !strings.Contains(page, "</svg>at work<") {
		t.Errorf("of a run at work outside it lists %s", page)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	found := c.containers()
	if len(found) != 1 {
		t.Fatalf("it has containers %q", found)
	}
	reported := docker(t, "inspect", "--format", "{{range .Mounts}}{{.Destination}} {{.RW}};{{end}} {{range .NetworkSettings.Ports}}{{range .}}{{.HostIp}};{{end}}{{end}}", found[0])
	if reported != "/work false; 127.0.0.1;" {
		t.Errorf("its mounts and where it is published: %s", reported)
	}
	c.kill("TERM")
	seen.command.wait(exitOK)
}

// quietPort returns a port that nobody listens on, from a range that systems do not assign by
// themselves.
func quietPort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(20000 + rand.IntN(10000))
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no port is free")
	return ""
}
