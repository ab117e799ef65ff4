package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner"
)

// smallDisk mounts a disk of the given size at the run directory.
func (p *project) smallDisk(size string) {
	p.t.Helper()
	dockertest.RequireRoot(p.t, "a disk of the test's own")
	if err := os.Mkdir(p.path("run"), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "waza-test", p.path("run")).CombinedOutput(); err != nil {
		p.t.Fatalf("mount: %v: %s", err, out)
	}
	p.t.Cleanup(func() {
		if out, err := exec.Command("umount", p.path("run")).CombinedOutput(); err != nil {
			p.t.Errorf("umount: %v: %s", err, out)
		}
	})
}

// fillDisk fills the disk of the run directory, until the returned file is removed.
func (p *project) fillDisk() (filler string) {
	p.t.Helper()
	filler = p.path("run", "filler")
	file, err := os.Create(filler)
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; _, err = file.Write(make([]byte, size)) {
		}
		if !errors.Is(err, syscall.ENOSPC) {
			p.t.Fatal(err)
		}
	}
	return filler
}

// wholeJSON checks that all JSON documents of the run are complete, and that no partial ones
// are left.
func (p *project) wholeJSON() {
	p.t.Helper()
	err := filepath.WalkDir(p.path("run"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if strings.HasPrefix(entry.Name(), ".") {
			p.t.Errorf("%s is left", path)
		}
		if filepath.Ext(path) != ".json" {
			return nil
		}
		data, err := os.ReadFile(path)
		if !json.Valid(data) {
			p.t.Errorf("%s holds no JSON: %q", path, data)
		}
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

const fullDisk = "the disk is full: write "

// A trial whose agent leaves more than a small disk holds is infra with a record, unless the agent is over
// a limit of its own. The trials before and after it are not touched.
func TestFaults_DiskTooSmallForATrial(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  parallel: false
  executor: command
  agent: {command: sh, args: [-c], prompt: argument}
  isolation: {network: airtight, agent: {image: "debian:bookworm-slim"}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: workspace, inputs: {prompt: "head -c 60000000 /dev/zero > big"}}
-- tasks/2.yaml --
{id: between, inputs: {prompt: "echo fine"}, expected: {output_contains: [fine]}}
-- tasks/3.yaml --
{id: output, inputs: {prompt: "head -c 60000000 /dev/zero"}}
-- tasks/4.yaml --
{id: after, inputs: {prompt: "echo fine"}, expected: {output_contains: [fine]}}
`)
	p.smallDisk("40m")
	p.run(exitInfra)
	p.wholeJSON()
	for _, task := range []string{"between", "after"} {
		if run := p.runOf(task); run.Outcome != evidence.ClassPass {
			t.Errorf("%s: %s, %s", task, run.Outcome, run.Message)
		}
	}
	if run := p.runOf("workspace"); run.Outcome != evidence.ClassInfra || run.Reason != evidence.ReasonRunner || !strings.Contains(run.Message, fullDisk) {
		t.Errorf("outcome %s, %s: %q", run.Outcome, run.Reason, run.Message)
	}
	// This is too large on any disk.
	if run := p.runOf("output"); run.Outcome != evidence.ClassAgentError || run.Reason != evidence.ReasonOutput || !strings.Contains(run.Message, fullDisk) {
		t.Errorf("outcome %s, %s: %q", run.Outcome, run.Reason, run.Message)
	}
	dockertest.NoObjects(t, dockertest.Engine(t), p.runID())
}

// The disk fills up while an agent is at work, with its calls not recorded any more:
// what had ended is intact, and is graded again once there is room.
func TestFaults_DiskFillsUp(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, parallel: false, executor: script, mcp_servers: {stock: {image: waza-examples/inventory}}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: quick, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
-- tasks/2.yaml --
{id: slow, inputs: {prompt: x}, script: [{loop: {times: 50, steps: [{call: {server: stock, tool: stock_report}}, {sleep: 100ms}]}}]}
-- tasks/3.yaml --
{id: late, inputs: {prompt: x}, script: [{say: done}]}
`, inventory)
	p.smallDisk("40m")
	c := p.startRun()
	p.awaitAgents(c, "slow")
	filler := p.fillDisk()
	c.wait(exitInfra)
	if said := c.stdout.String() + c.stderr.String(); !strings.Contains(said, fullDisk+filepath.Join("run", "trials", "slow", "1", evidence.FramesOf("stock"))) {
		t.Errorf("it says:\n%s", said)
	}
	p.wholeJSON()
	dockertest.NoObjects(t, dockertest.Engine(t), p.runID())
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	p.start("grade", "run").wait(exitInfra)
	p.wholeJSON()
	if run := p.runOf("quick"); run.Outcome != evidence.ClassPass {
		t.Errorf("what had ended: %s, %s", run.Outcome, run.Message)
	}
	if run := p.runOf("slow"); run.Outcome != evidence.ClassInfra || run.Reason != evidence.ReasonRunner {
		t.Errorf("what was at work: %s, %s: %s", run.Outcome, run.Reason, run.Message)
	}
}

// A trial whose agent fills the disk with what it says to a server is infra with a record, and the run has
// its reports.
func TestFaults_AgentFillsTheEvidence(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: script
  isolation: {network: airtight, agent: {image: "debian:bookworm-slim"}}
  mcp_servers: {stock: {image: waza-examples/inventory}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: fills
inputs: {prompt: x}
script:
  - run: {command: [sh, -c, "head -c 1048576 /dev/zero | tr '\\0' x > big"]}
  - read: {path: big}
    as: big
  - loop:
      times: 20
      steps:
        - call: {server: stock, tool: find_item, arguments: {sku: "{{ big.text }}{{ big.text }}{{ big.text }}{{ big.text }}"}, expect: any, tell: false}
  - say: done
graders: [{type: text, name: said, config: {contains: [done]}}]
-- tasks/2.yaml --
{id: honest, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
`, inventory)
	p.smallDisk("40m")
	p.run(exitInfra)
	p.wholeJSON()
	run := p.runOf("fills")
	if run.Outcome != evidence.ClassInfra || run.Reason != evidence.ReasonRunner || !strings.Contains(run.Message, fullDisk) {
		t.Errorf("outcome %s, %s: %s", run.Outcome, run.Reason, run.Message)
	}
	if run := p.runOf("honest"); run.Outcome != evidence.ClassPass {
		t.Errorf("the other trial: %s, %s: %s", run.Outcome, run.Reason, run.Message)
	}
	for _, name := range []string{runner.ReportFile, runner.JUnitFile} {
		if !p.exists("run", name) {
			t.Errorf("there is no %s", name)
		}
	}
}

// A disk that is full to begin with stops the run before anything stands.
func TestFaults_DiskFullToBeginWith(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, executor: script}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{say: done}]}
`)
	p.smallDisk("4m")
	p.fillDisk()
	c := p.start("run", "--isolate", "eval.yaml", "--run-dir", filepath.Join("run", "new")).wait(exitUsage)
	if !strings.Contains(c.stderr.String(), "the disk of the run directory has 0.0 MiB free, and a trial needs 16 MiB: free some") {
		t.Errorf("stderr: %s", c.stderr.String())
	}
	if p.exists("run", "new") {
		t.Error("something was begun")
	}
}
