package main

import (
	"os"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// One Ctrl-C ends all runs, and the table tells of each.
func TestFaults_SeveralAgentsInterrupted(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  agent: {command: sh, args: [-c, "echo up; exec sleep 300"]}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}}
`)
	c := p.start("run", "eval.yaml", "--executor", "mock,command", "--model", "one,two", "--run-dir", "runs")
	c.await("the third run's agent is at work", func() bool {
		return p.exists("runs", "3-command-one", "trials", "x", "1", evidence.StdoutFile)
	})
	c.signal(os.Interrupt)
	c.wait(exitInfra)
	said := c.stdout.String()
	for _, want := range []string{
		"1  mock     one       1/1",
		"2  mock     two       1/1",
		"3  command  one       0/0",
		"4  command  two       0/0",
		"run 4: interrupted before it began",
		"results in runs/3-command-one",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if left := p.left(); len(left) > 0 || p.exists("runs", "4-command-two") {
		t.Errorf("left: %q, of the run that did not begin %t", left, p.exists("runs", "4-command-two"))
	}
	if strings.Count(c.stderr.String(), "interrupted: stopping agents") != 1 {
		t.Error(c.stderr.String())
	}
}

func TestWorse(t *testing.T) {
	order := []int{exitOK, exitFailed, exitInfra, exitUsage}
	for i, a := range order {
		for k, b := range order {
			if got := worse(a, b); got != order[max(i, k)] {
				t.Errorf("of %d and %d, %d", a, b, got)
			}
		}
	}
}
