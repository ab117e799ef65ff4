package main

import (
	"os"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner"
)

// A run on a cluster is resumed, and run again, by the executable that has the client library.
func TestClusterRunGoesOnThere(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{say: a}]}
`)
	p.startLocal().wait(exitOK)
	record, err := runner.ReadRecord(p.path("run"))
	if err != nil {
		t.Fatal(err)
	}
	record.On = eval.OnKubernetes
	if err := record.Write(p.path("run")); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(dockertest.Waza(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.path("waza"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	waza := p.path("waza")
	p.env = append(p.env, "PATH=/usr/bin:/bin")
	commands := [][]string{{"run", "--resume", "run"}, {"run", "--on", "kubernetes", "--resume", "run"}, {"rerun", "run"}}
	for _, args := range commands {
		c := p.startProgram(waza, args...).wait(exitUsage)
		if said := c.stderr.String(); !strings.HasPrefix(said, "waza: --on kubernetes needs waza-kubernetes next to the waza executable or in PATH") {
			t.Errorf("waza %q says %q", args, said)
		}
	}
	if c := p.startProgram(waza, "run", "--on", "docker", "--resume", "run").wait(exitUsage); !strings.Contains(c.stderr.String(), "--on cannot be changed with --resume") {
		t.Errorf("--on docker: %s", c.stderr.String())
	}
	script := "#!/bin/sh\n[ \"$1\" != version ] || exec " + waza + " version\necho \"handed over: $*\"\n"
	if err := os.WriteFile(p.path(clusterExecutable), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		if out := p.startProgram(waza, args...).wait(exitOK).stdout.String(); out != "handed over: "+strings.Join(args, " ")+"\n" {
			t.Errorf("waza %q prints %q", args, out)
		}
	}
}
