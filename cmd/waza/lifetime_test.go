package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

const countingEval = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: TRIALS
  executor: script
  mcp_server_lifetime: LIFETIME
  mcp_servers:
    it: {image: "debian:bookworm-slim", command: /srv/hostile, args: [count], files: {/srv/hostile: hostile}}
tasks: [task.yaml]
-- task.yaml --
id: count
inputs: {prompt: x}
script:
  - call: {server: it, tool: poke}
    as: first
  - sleep: PAUSE
  - call: {server: it, tool: poke, expect: any}
    as: second
  - say: "{{ first.text }} {{ second.outcome }}"
`

func countingProject(t *testing.T, lifetime string, trials int, pause string) *project {
	t.Helper()
	p := newProject(t, strings.NewReplacer("LIFETIME", lifetime, "TRIALS", fmt.Sprint(trials), "PAUSE", pause).Replace(countingEval), "debian:bookworm-slim")
	p.compile("hostile", "./testdata/hostile")
	return p
}

// A server that lives for one trial remembers nothing of another; one that lives
// for the run does, and the guarantees say so.
func TestServerLifetime(t *testing.T) {
	t.Parallel()
	for lifetime, want := range map[string][]string{"per_task": {"1 ok", "1 ok", "1 ok"}, "per_benchmark": {"1 ok", "3 ok", "5 ok"}} {
		t.Run(lifetime, func(t *testing.T) {
			t.Parallel()
			p := countingProject(t, lifetime, 3, "10ms")
			p.run(exitOK)
			for i, run := range p.results().Tasks[0].Runs {
				if run.FinalOutput != want[i] {
					t.Errorf("trial %d: %q, want %q", i+1, run.FinalOutput, want[i])
				}
			}
			missing := strings.Contains(strings.Join(p.record().Guarantees.Missing, "\n"), `server "it" lives for the whole run`)
			if missing != (lifetime == "per_benchmark") {
				t.Errorf("guarantees %+v", p.record().Guarantees)
			}
			calls, err := p.trialOf("count", 2).Calls()
			if err != nil || len(calls) != 2 {
				t.Errorf("the second trial has %d calls, %v", len(calls), err)
			}
		})
	}
}

// When somebody ends a server of the run, the trial at work is told of and run again,
// and finds a server anew.
func TestFaults_SharedServerIsKilled(t *testing.T) {
	t.Parallel()
	p := countingProject(t, "per_benchmark", 2, "3s")
	c := p.start("run", "--isolate", "--run-dir", "run", "eval.yaml")
	dockertest.Await(t, 3*time.Minute, "the first call", func() bool {
		return p.exists("run", "trials", "count", "1", "frames.jsonl") && strings.Contains(p.read("run", "trials", "count", "1", "frames.jsonl"), `\"text\":\"1\"`)
	})
	dockertest.Kill(t, dockertest.Engine(t), p.runID(), "server")
	c.wait(exitOK)
	outputs := []string{"1 ok", "3 ok"}
	for i, run := range p.results().Tasks[0].Runs {
		if run.FinalOutput != outputs[i] {
			t.Errorf("trial %d: %q, want %q", i+1, run.FinalOutput, outputs[i])
		}
		record, err := p.trialOf("count", i+1).Trial()
		if err != nil || len(record.Shared) != 1 || record.Shared[0].Instance != 2 || record.Shared[0].Died != "" {
			t.Errorf("trial %d: shared servers %+v, %v", i+1, record.Shared, err)
		}
	}
	first := p.results().Tasks[0].Runs[0]
	if len(first.Earlier) != 1 || first.Earlier[0].Reason != evidence.ReasonKilled {
		t.Errorf("before the attempt that counts: %+v", first.Earlier)
	}
	lost := evidence.Dir(filepath.Join(string(p.trialOf("count", 1)), evidence.AttemptsDir, "1"))
	record, err := lost.Trial()
	if err != nil || len(record.Shared) != 1 || record.Shared[0].Instance != 1 || record.Shared[0].Died == "" {
		t.Errorf("its shared servers: %+v, %v", record.Shared, err)
	}
	if said := c.stdout.String(); !strings.Contains(said, "while these trials were at work: count/1\n") {
		t.Errorf("stdout: %s", said)
	}
	events, err := lost.Events()
	if err != nil || !containsKind(events, "shared_server") || !containsKind(events, "container_exit") {
		t.Errorf("events %v, %v", events, err)
	}
}

func containsKind(events []evidence.Event, kind string) bool {
	for _, e := range events {
		if e.Kind == kind {
			return true
		}
	}
	return false
}
