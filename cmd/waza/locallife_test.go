package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// One Ctrl-C, or several: nothing is left, and what had ended is reported.
func TestFaults_InterruptedWithoutIsolation(t *testing.T) {
	t.Parallel()
	heard := make(chan os.Signal, 1) // so that what is started here does not ignore it, where this runs under nohup
	signal.Notify(heard, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(heard) })
	for _, test := range []struct {
		name    string
		signals []os.Signal
	}{
		{"once", []os.Signal{os.Interrupt}},
		{"twice", []os.Signal{os.Interrupt, os.Interrupt}},
		{"terminated", []os.Signal{syscall.SIGTERM}},
		{"hung up", []os.Signal{syscall.SIGHUP}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// A server that does not want to end: time for a second signal.
			stubborn := `command: sh, args: [-c, "trap '' TERM; inventory; while :; do sleep 300; done"]`
			p := newLocalProject(t, strings.ReplaceAll(longRun, "image: waza-examples/inventory", stubborn))
			c := p.startLocal()
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
			if left := p.left(); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if !p.record().Interrupted || p.results().Summary.Succeeded != 1 {
				t.Errorf("%+v, %+v", p.record(), p.results().Summary)
			}
		})
	}
}

// One Ctrl-C ends a command that makes several runs: none begins after it.
func TestFaults_InterruptedOfSeveralWithoutIsolation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		said string
	}{
		{"evals", nil, "waza: interrupted before eval 2 of 3 began\n"},
		{"agents", []string{"evals/a/eval.yaml", "--executor", "script,mock"}, "interrupted before it began"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newLocalProject(t, "")
			for _, name := range []string{"a", "b", "c"} {
				p.write("evals/"+name+"/eval.yaml", "name: "+p.name+"-"+name+"\nconfig: {trials_per_task: 1, executor: script}\ntasks: [task.yaml]\n")
				p.write("evals/"+name+"/task.yaml", `{id: x, inputs: {prompt: x}, script: [{sleep: 200s}]}`)
			}
			c := p.start(append([]string{"run"}, test.args...)...)
			runs := func(file ...string) []string {
				found, _ := filepath.Glob(p.path(append([]string{".waza", "runs", "*"}, file...)...))
				return found
			}
			c.await("an agent is at work", func() bool { return len(runs("trials", "x", "1", evidence.StdoutFile)) == 1 })
			c.signal(os.Interrupt)
			c.wait(exitInfra)
			said := c.stderr.String()
			if !strings.Contains(c.stdout.String()+said, test.said) || strings.Count(said, "cleaning up") != 1 {
				t.Errorf("got %s%s", c.stdout.String(), said)
			}
			if all := runs(); len(all) != 1 {
				t.Errorf("%d runs were begun: %q", len(all), all)
			}
		})
	}
}

// A run under nohup takes no notice of SIGHUP, and ends as ever.
func TestFaults_NoHangupWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script, mcp_servers: {stock: {command: inventory}}}
tasks: [task.yaml]
`)
	p.write("task.yaml", `{id: x, inputs: {prompt: x}, script: [{run: {command: [sh, -c, "until [ -e `+p.path("go")+` ]; do sleep 0.05; done"]}}, {say: done}]}`)
	c := p.startProgram("nohup", dockertest.Waza(t), "run", "eval.yaml", "--run-dir", "run")
	p.awaitAgents(c, "x")
	c.signal(syscall.SIGHUP)
	p.write("go", "")
	c.wait(exitOK)
}

// When the runner is killed, the programs that it started end with it. What these
// started, and directories, are left to gc, which needs no Docker for that.
func TestFaults_RunnerKilledWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  agent: {command: sh, args: [-c, "sleep 301 & setsid sleep 302 & echo up > up; wait"]}
  mcp_servers: {stock: {command: inventory}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`)
	c := p.startLocal()
	c.await("the agent has children", func() bool {
		up, _ := filepath.Glob(p.path("tmp", "*", "*", "x-1", "workspace", "up"))
		return len(up) == 1
	})
	live := p.start("gc").wait(exitInfra) // for want of an engine
	if said := live.stdout.String(); said != "nothing to remove on this machine; 1 live run\n" {
		t.Errorf("gc beside a live run says %q", said)
	}
	c.signal(syscall.SIGKILL)
	<-c.ended
	dockertest.Await(t, time.Minute, "what the runner started is gone", func() bool {
		all := strings.Join(p.processes(), "\n")
		return !strings.Contains(all, "sh -c") && !strings.Contains(all, "inventory")
	})
	if left := p.processes(); len(left) != 2 {
		t.Errorf("%q are left for gc: does this test test anything?", left)
	}
	gc := p.start("gc").wait(exitInfra)
	if said := gc.stdout.String(); !strings.Contains(said, "ended 2 programs and removed the directories of 1 dead run") {
		t.Errorf("gc says %q", said)
	}
	if said := p.start("gc", "--format", "json").wait(exitInfra).stdout.String(); !strings.HasPrefix(said, "{\n  \"machine\": {\n    \"runs\": [],\n    \"live\": [") || strings.Contains(said, "engine") {
		t.Errorf("gc --format json says %q", said)
	}
	if said := gc.stderr.String(); !strings.Contains(said, "cannot clean up the engine: no Docker engine answers") {
		t.Errorf("gc complains %q", said)
	}
}

// Programs that do not want to end, and those that they leave behind.
func TestFaults_StubbornWithoutIsolation(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, config string
		code         int
		class        evidence.Class
	}{
		{"a server that ignores SIGTERM and the end of stdin", `
  executor: script
  mcp_servers: {stock: {command: sh, args: [-c, "trap '' TERM; inventory; while :; do sleep 300; done"]}}`, exitOK, evidence.ClassPass},
		{"an agent that leaves children", `
  executor: command
  agent: {command: sh, args: [-c, "sleep 300 & setsid sleep 300 & echo done"]}`, exitOK, evidence.ClassPass},
		{"an agent that ignores its time limit", `
  executor: command
  agent: {command: sh, args: [-c, "trap '' TERM; sleep 300 & setsid sleep 300 & while :; do sleep 300; done"]}`, exitFailed, evidence.ClassTimeout},
		{"an agent that takes rights away in its workspace", `
  executor: command
  agent: {command: sh, args: [-c, "mkdir -p a/b; echo x > a/b/c; chmod 0 a/b a; ln -s /etc l; exit 0"]}`, exitOK, evidence.ClassPass},
		{"an agent that closes its workspace", `
  executor: command
  agent: {command: sh, args: [-c, "mkdir -p a/b; echo x > a/b/c; chmod 0 a/b a .; exit 0"]}`, exitFailed, evidence.ClassFail},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			script := ""
			if strings.Contains(test.config, "executor: script") {
				script = ", script: [{call: {server: stock, tool: stock_report}}, {say: done}]"
			}
			p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 3`+test.config+`
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}`+script+`}
`)
			p.startLocal().wait(test.code)
			if got := p.runOf("x"); got.Outcome != test.class {
				t.Errorf("%s: %s", got.Outcome, got.Message)
			}
		})
	}
}

// What a run without isolation says it does not hold is so: a program that leaves
// its group and drops its environment outlives it.
func TestEscapeWithoutIsolation(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  agent: {command: sh, args: [-c, "env -i setsid sleep 300 >/dev/null 2>&1 & echo $!; sleep 0.3"]}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`)
	p.startLocal().wait(exitOK)
	pid, err := strconv.Atoi(strings.TrimSpace(p.runOf("x").FinalOutput))
	if err != nil {
		t.Fatal(err)
	}
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if string(command) != "sleep\x00300\x00" {
		t.Fatalf("process %d is %q: what the guarantees say is missing is there", pid, command)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if said := strings.Join(p.record().Guarantees.Missing, "\n"); !strings.Contains(said, "drops WAZA_SANDBOX from its environment outlives the trial") {
		t.Errorf("guarantees miss %q", said)
	}
}

// Ctrl-C at any moment of a run's life leaves nothing; newLocalProject looks.
func TestFaults_InterruptedAnytimeWithoutIsolation(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 8, parallel: true, executor: script, mcp_servers: {stock: {command: inventory}}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
`)
			c := p.startLocal()
			after := rand.N(time.Second)
			select {
			case <-c.ended:
			case <-time.After(after):
				c.signal(os.Interrupt)
			}
			<-c.ended
			unheard := c.code == -1 && !p.exists("run")
			if c.code != exitOK && c.code != exitInfra && !unheard {
				t.Errorf("interrupted after %s: exit code %d\n%s%s", after, c.code, c.stdout.String(), c.stderr.String())
			}
		})
	}
}
