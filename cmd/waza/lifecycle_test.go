package main

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox/process"
)

// longRun is an eval with one short trial and others that take long.
const longRun = `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, isolation: {network: airtight}, parallel: true, workers: 2, executor: script, mcp_servers: {stock: {image: waza-examples/inventory}}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: quick, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
-- tasks/2.yaml --
{id: slow-1, inputs: {prompt: x}, script: [{sleep: 200s}]}
-- tasks/3.yaml --
{id: slow-2, inputs: {prompt: x}, script: [{loop: {times: 1000, steps: [{call: {server: stock, tool: stock_report}}, {sleep: 200ms}]}}]}
`

func (p *project) startRun(args ...string) *command {
	p.t.Helper()
	return p.start(append([]string{"run", "--isolate", "eval.yaml", "--run-dir", "run"}, args...)...)
}

// await waits until a file of the run directory exists.
func (p *project) await(c *command, elem ...string) {
	p.t.Helper()
	file := append([]string{"run"}, elem...)
	c.await(p.path(file...)+" is there", func() bool { return p.exists(file...) })
}

// await waits for a condition, and fails if waza ends before.
func (c *command) await(what string, done func() bool) {
	c.t.Helper()
	dockertest.Await(c.t, 3*time.Minute, what, func() bool {
		ended := process.IsClosed(c.ended)
		if done() { // it may have ended since, on a machine that is slow to look
			return true
		}
		if ended {
			c.t.Fatalf("waza ended with code %d before this was so: %s\n%s%s", c.code, what, c.stdout.String(), c.stderr.String())
		}
		return false
	})
}

func (p *project) awaitAgents(c *command, tasks ...string) {
	p.t.Helper()
	for _, task := range tasks {
		p.await(c, "trials", task, "1", evidence.StdoutFile)
	}
}

// When the runner is killed, every container ends with it; what was created and
// never started, and networks and volumes, are left to gc.
func TestFaults_RunnerKilledWithTrialsInFlight(t *testing.T) {
	t.Parallel()
	p := newProject(t, strings.ReplaceAll(longRun, "network: airtight", "network: bridge"), inventory)
	engine := dockertest.Engine(t)
	c := p.startRun()
	p.awaitAgents(c, "slow-1", "slow-2")
	run := p.runID()
	if n := len(dockertest.Containers(t, engine, run)); n < 2*2 {
		t.Fatalf("%d containers stand with 2 trials in flight", n)
	}
	c.signal(syscall.SIGKILL)
	dockertest.AwaitNoContainers(t, engine, run)
	if left := dockertest.Objects(t, engine, run); len(left) == 0 {
		t.Error("nothing is left for gc: does this test test anything?")
	}
	p.start("gc").wait(exitOK)
	dockertest.NoObjects(t, engine, run)
	if !strings.Contains(p.read("run", "trials", "quick", "1", evidence.VerdictsFile), `"pass"`) {
		t.Error("the trial that had ended is lost")
	}
}

// One Ctrl-C, or several, in the midst of agents at work: nothing is left, and
// what had ended is kept and reported.
func TestFaults_InterruptedAgents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		signals []os.Signal
	}{
		{"once", []os.Signal{os.Interrupt}},
		{"twice", []os.Signal{os.Interrupt, os.Interrupt}},
		{"terminated", []os.Signal{syscall.SIGTERM}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, longRun, inventory)
			c := p.startRun()
			p.awaitAgents(c, "slow-1", "slow-2")
			p.await(c, "trials", "quick", "1", evidence.VerdictsFile)
			for i, s := range test.signals {
				if i > 0 {
					c.await("the first signal was heard", func() bool {
						return strings.Contains(c.stderr.String(), "interrupted")
					})
				}
				c.signal(s)
			}
			c.wait(exitInfra)
			dockertest.NoObjects(t, dockertest.Engine(t), p.runID())
			if !p.record().Interrupted {
				t.Error("run.json does not say that the run was interrupted")
			}
			if s := p.results().Summary; s.Succeeded != 1 {
				t.Errorf("summary %+v", s)
			}
			if !strings.Contains(c.stdout.String(), "INCOMPLETE (interrupted): 2 of 3 trials have no outcome") {
				t.Errorf("stdout: %s", c.stdout.String())
			}
			p.start("grade", "run").wait(exitInfra) // two trials have no outcome still
		})
	}
}

// TestClosedStderr checks that a run whose progress nobody reads ends as any other, and cleans up.
func TestClosedStderr(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {executor: script}
tasks: [task.yaml]
-- task.yaml --
id: hello
inputs: {prompt: Say hello.}
script: [{say: hello}]
graders: [{type: text, name: answer, config: {contains: [hello]}}]
`)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	cmd := exec.CommandContext(t.Context(), p.waza, "run", "--isolate", "--trials", "3", "--run-dir", "run", "eval.yaml")
	cmd.Dir, cmd.Stderr = p.dir, write
	if out, err := cmd.Output(); err != nil || !p.exists("run", "results.json") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Ctrl-C before any agent is at work, and after.
func TestInterruptedPhases(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		archive string
		moment  func(*project, *command)
	}{
		{"probing", `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: mock, isolation: {network: airtight, server_image: "debian:bookworm-slim"}, mcp_servers: {hangs: {command: sleep, args: ["300"], startup_timeout: 300}}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`, func(p *project, c *command) { p.await(c, "trials", "x", "1", "servers", "hangs.stderr") }},
		{"collecting", `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  agent: {command: sh, args: [-c, "for i in $(seq 8); do head -c 50000000 /dev/zero > $i; done"]}
  isolation: {network: airtight, agent: {image: "debian:bookworm-slim"}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`, func(p *project, c *command) { p.await(c, "trials", "x", "1", evidence.WorkspaceFile) }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, test.archive)
			c := p.startRun()
			test.moment(p, c)
			c.signal(os.Interrupt)
			c.wait(exitInfra)
			dockertest.NoObjects(t, dockertest.Engine(t), p.runID())
			if !strings.Contains(c.stdout.String(), "INCOMPLETE (interrupted): 1 trial has no outcome") {
				t.Errorf("stdout: %s", c.stdout.String())
			}
		})
	}
}

// Ctrl-C at any moment of a run's life: from the first, and from when it has
// something on the engine.
func TestFaults_InterruptedAnytime(t *testing.T) {
	t.Parallel()
	engine := dockertest.Engine(t)
	for i := range 4 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 2, parallel: true, executor: script, mcp_servers: {stock: {image: waza-examples/inventory}}, isolation: {network: airtight, workspace: volume}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
`, inventory)
			c := p.startRun()
			after := rand.N(2 * time.Second)
			if i%2 == 0 {
				dockertest.Await(t, 3*time.Minute, "the run has something on the engine", func() bool {
					return len(dockertest.Runs(t, engine, p.name)) > 0
				})
			}
			select {
			case <-c.ended:
			case <-time.After(after):
				c.signal(os.Interrupt)
			}
			<-c.ended
			// Before waza listens for signals, one ends it, and there is nothing to
			// take away.
			unheard := c.code == -1 && !p.exists("run")
			if c.code != exitOK && c.code != exitInfra && !unheard {
				t.Errorf("interrupted after %s: exit code %d\n%s%s", after, c.code, c.stdout.String(), c.stderr.String())
			}
			if strings.Contains(c.stderr.String(), "interrupted") && c.code == exitOK && p.record().Interrupted {
				t.Error("an interrupted run exits with 0")
			}
			for _, run := range dockertest.Runs(t, engine, p.name) {
				t.Errorf("interrupted after %s, and left: %q\n%s", after, dockertest.Objects(t, engine, run), c.stderr.String())
			}
		})
	}
}

// A kept sandbox stands when its agent and all that the agent started are gone,
// can be entered, and goes with Ctrl-C, after which its verdict is reported.
func TestKeep(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 1
  executor: command
  agent: {command: sh, args: [-c, "trap '' TERM; echo done; setsid sleep 300 & sleep 300"]}
  isolation: {network: airtight, agent: {image: "debian:bookworm-slim"}}
  mcp_servers: {stock: {image: waza-examples/inventory}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`, inventory)
	engine := dockertest.Engine(t)
	c := p.startRun("--keep")
	c.await("the sandbox stands", func() bool {
		return strings.Contains(c.stderr.String(), "Press Ctrl-C to remove the sandbox.")
	})
	entrances := regexp.MustCompile(`docker exec -it (\S+) sh`).FindAllStringSubmatch(c.stderr.String(), -1)
	if len(entrances) < 2 {
		t.Fatalf("%q tell how to enter:\n%s", entrances, c.stderr.String())
	}
	for _, entrance := range entrances {
		top, err := engine.ContainerTop(t.Context(), entrance[1], client.ContainerTopOptions{})
		if err != nil {
			t.Errorf("%s: %v", entrance[1], err)
		} else if len(top.Processes) != 1 {
			t.Errorf("%s: beside process 1 there are %q", entrance[1], top.Processes)
		}
	}
	c.signal(os.Interrupt)
	c.wait(exitFailed)
	dockertest.NoObjects(t, engine, p.runID())
	if run := p.runOf("x"); run.Outcome != evidence.ClassTimeout {
		t.Errorf("outcome %s, %s", run.Outcome, run.Message)
	}
	if !strings.Contains(c.stdout.String(), "x/1 timeout") {
		t.Errorf("stdout: %s", c.stdout.String())
	}
}
