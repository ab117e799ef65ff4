package main

import (
	"testing"
	"time"

	"github.com/waza-isolate/waza/internal/memtest"
)

// An agent in its container that does what it can to have the runner hold much. The
// runner's memory is the most that the whole program had, grading with it.
func TestFaults_RunnerMemoryUnderAttack(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  parallel: false
  executor: command
  model: none
  agent: {command: bash, args: [-c, "{{prompt}}"]}
  isolation: {network: airtight, agent: {image: "debian:bookworm-slim"}}
  mcp_servers:
    it: {image: "debian:bookworm-slim", command: /srv/hostile, args: [behave], files: {/srv/hostile: hostile}}
graders:
  - {type: mcp_compliance, name: fine, config: {server: it, max_tool_errors: 0}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: bodies
inputs:
  prompt: |
    for i in $(seq 12); do (
      exec 3<>/dev/tcp/it/80
      printf 'POST /mcp HTTP/1.1\r\nHost: it\r\nContent-Length: 50000051\r\n\r\n{"jsonrpc":"2.0","id":1,"method":"deaf","params":"' >&3
      head -c 50000000 /dev/zero | tr '\0' b >&3
      timeout 5 head -n 1 <&3
    ) & done; wait
-- tasks/2.yaml --
id: connections
inputs:
  prompt: for i in $(seq 400); do (exec 3<>/dev/tcp/it/80; printf 'GET /mcp' >&3; sleep 5) & done; wait
-- tasks/3.yaml --
id: questions
inputs:
  prompt: for i in $(seq 2000); do getent hosts n$i.example & done; wait
-- tasks/4.yaml --
id: output
inputs:
  prompt: (head -c 80000000 /dev/zero | tr '\0' x) & head -c 80000000 /dev/zero | tr '\0' y >&2; wait
-- tasks/5.yaml --
id: one-long-line
inputs:
  prompt: head -c 40000000 /dev/zero | tr '\0' '"'
`)
	p.compile("hostile", "./testdata/hostile")
	for name, tasks := range map[string][]string{"most": {"bodies"}, "others": {"connections", "questions", "output", "one-long-line"}} {
		t.Run(name, func(t *testing.T) {
			args := []string{"run", "--isolate", "eval.yaml", "--run-dir", name}
			for _, task := range tasks {
				args = append(args, "--task", task)
			}
			c := p.start(args...)
			peak := peakOf(t, c)
			if c.code != exitOK && c.code != exitFailed {
				t.Fatalf("exit code %d\n%s%s", c.code, c.stdout.String(), c.stderr.String())
			}
			t.Logf("RSS %d MiB at the most\n%s", peak>>20, c.stdout.String())
			if most := int64(640 << 20); peak > most { // as docs/isolation.md promises
				t.Errorf("the runner took %d MiB, more than %d", peak>>20, most>>20)
			}
		})
	}
}

// peakOf waits for a command's exit and returns its peak memory.
func peakOf(t *testing.T, c *command) int64 {
	t.Helper()
	peak := memtest.WatchPeak(c.cmd.Process.Pid)
	select {
	case <-c.ended:
	case <-time.After(runLimit):
		peak()
		t.Fatalf("it did not end\n%s", c.stderr.String())
	}
	return peak()
}
