package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// A service that cannot be used makes its trial infra, says why, and keeps what it
// wrote but for secrets. Other trials do not notice.
func TestServicesThatFail(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  timeout_seconds: 20
  parallel: true
  workers: 2
  executor: mock
  mcp_servers:
    inventory:
      image: waza-examples/inventory
      services:
        db:
          image: debian:bookworm-slim
          command: sh
          args: [-c, "echo starting with $PASSWORD >&2; exec sleep 600"]
          env: {PASSWORD: "${SERVICE_PASSWORD}"}
          ports: [7000]
          ready: {exec: ["true"], timeout: 20}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: exits
inputs: {prompt: x}
mcp_servers: {inventory: {services: {db: {args: [-c, "echo no disk for $PASSWORD >&2; seq 2000 >&2; exit 3"], ready: {exec: ["false"]}}}}}
-- tasks/2.yaml --
id: slow
inputs: {prompt: x}
mcp_servers: {inventory: {services: {db: {ready: {exec: [sh, -c, "echo not yet; exit 2"], timeout: 2}}}}}
-- tasks/3.yaml --
id: unchecked
inputs: {prompt: x}
mcp_servers: {inventory: {services: {db: {ready: {health: true}}}}}
-- tasks/4.yaml --
id: without
inputs: {prompt: x}
mcp_servers: {inventory: {services: {db: null}}}
-- tasks/5.yaml --
id: works
inputs: {prompt: x}
`, inventory)
	const secret = "hunter2-of-the-service"
	p.env = append(p.env, "SERVICE_PASSWORD="+secret)
	start := time.Now()
	c := p.run(exitInfra, "--infra-retries", "0")
	if took := time.Since(start); took > 3*time.Minute {
		t.Errorf("it took %v", took)
	}
	for task, reasons := range map[string][]string{
		"exits":     {`service "db" of server "inventory" is not ready: it exited with code 3`, "its output:\nno disk for **********************"},
		"slow":      {`service "db" of server "inventory" is not ready: 2s have passed: its check exited with code 2: not yet`, "starting with **********************"},
		"unchecked": {"its image has no HEALTHCHECK; give it ready.exec"},
	} {
		trial := p.trialRecord(task)
		if trial.Class != evidence.ClassInfra {
			t.Errorf("%s is %s", task, trial.Class)
		}
		for _, reason := range reasons {
			if !strings.Contains(trial.Message, reason) {
				t.Errorf("%s: reason %q, want %q", task, trial.Message, reason)
			}
		}
	}
	for _, task := range []string{"works", "without"} {
		if trial := p.trialRecord(task); trial.Class != "" || trial.AgentStart.IsZero() {
			t.Errorf("%s: %s %s", task, trial.Class, trial.Message)
		}
	}
	if said := p.read("run", "trials", "works", "1", "servers", "inventory.db.stderr"); said != "starting with **********************\n" {
		t.Errorf("the service's stderr is %q", said)
	}
	if said := c.stdout.String() + c.stderr.String(); strings.Contains(said, secret) {
		t.Errorf("waza tells the secret: %s", said)
	}
	err := filepath.WalkDir(p.path("run"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), secret) {
			t.Errorf("the secret is in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestDatabaseOfDocs runs the eval of docs/mcp-servers.md that seeds a database and grades by a query.
func TestDatabaseOfDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/mcp-servers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## A database beside a server\n")
	p := newProject(t, "", "waza-examples/sql", "waza-examples/postgres")
	for _, block := range regexp.MustCompile("(?ms)^```yaml (\\S+)\n(.*?)^```$").FindAllStringSubmatch(section, 2) {
		p.write(block[1], strings.Replace(block[2], "name: tide", "name: "+p.name, 1))
	}
	p.run(exitOK)
	p.write("task.yaml", strings.Replace(p.read("task.yaml"), "VALUES (21, 3.75)", "VALUES (21, 3.5)", 1))
	p.start("run", "--isolate", "eval.yaml", "--run-dir", "red").wait(exitFailed)
}

// trialRecord returns the record of a task's first trial.
func (p *project) trialRecord(task string) evidence.Trial {
	p.t.Helper()
	record, err := p.trial(task).Trial()
	if err != nil {
		p.t.Fatal(err)
	}
	return record
}
