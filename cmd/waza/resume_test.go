package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/runner"
)

// localKilledRun is killedRun without isolation; its server is a program of the test.
const localKilledRun = `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 2
  parallel: true
  workers: 2
  executor: script
  mcp_servers: {stock: {command: inventory}}
graders:
  - {type: text, name: done, config: {contains: [done]}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
id: quick
inputs: {prompt: x, files: [{path: fixture.txt}]}
script: [{call: {server: stock, tool: stock_report}, as: report}, {write: {path: out.txt, content: "{{ report.text }}"}}, {say: done}]
-- tasks/2.yaml --
id: slow
inputs: {prompt: x}
script: [{call: {server: stock, tool: stock_report}}, {sleep: 3s}, {say: done}]
-- fixtures/fixture.txt --
as it was
-- mcp.json --
{"mcpServers": {"stock": {"command": "inventory", "args": []}}}
`

// TestFaults_ResumeWithoutIsolation checks that a killed run is completed without --isolate,
// also with shared servers, and that the leftovers of the killed run are removed first.
func TestFaults_ResumeWithoutIsolation(t *testing.T) {
	t.Parallel()
	undisturbed := newLocalProject(t, localKilledRun)
	undisturbed.startLocal().wait(exitOK)
	want := tell(t, undisturbed)
	for _, point := range []killPoint{
		{name: "run.json written", file: written("run.json")},
		{name: "before.tar written", file: written("trials", "*", "*", evidence.BeforeFile)},
		{name: "first trial done", file: written("trials", "quick", "*", evidence.VerdictsFile)},
		{name: "agent at work", file: filled("trials", "slow", "*", evidence.FramesDir, "*")},
	} {
		t.Run(point.name, func(t *testing.T) {
			p := newLocalProject(t, localKilledRun)
			view := runView{p.path("run"), time.Now()}
			c := p.startLocal()
			for !point.file(view) && !isDone(c.ended) {
				time.Sleep(time.Millisecond)
			}
			c.signal(syscall.SIGKILL)
			<-c.ended
			if c.code != -1 {
				t.Fatalf("the run never came to that: it exited with %d\n%s", c.code, c.stderr.String())
			}
			p.start("run", "--resume", "run", "--workers", "1").wait(exitOK)
			p.same(t, want)
		})
	}
}

// interrupt interrupts the project's run while the tasks slow are at work.
func (p *project) interrupt(c *command) {
	p.t.Helper()
	c.await("a trial is done and another at work", func() bool {
		v := runView{dir: p.path("run")}
		return len(v.fresh("trials", "quick", "1", evidence.VerdictsFile)) > 0 && filled("trials", "slow", "*", evidence.FramesDir, "*")(v)
	})
	c.signal(os.Interrupt)
	c.wait(exitInfra)
}

// TestResumeInterrupted checks that an interrupted run prints how to complete it, and can be
// completed. Completed trials are unchanged; others are set aside, sealed and not counted.
func TestResumeInterrupted(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, localKilledRun)
	c := p.startLocal()
	p.interrupt(c)
	if said := c.stdout.String(); !strings.Contains(said, "\nto complete it: waza run --resume run\n") {
		t.Errorf("stdout: %s", said)
	}
	if !strings.Contains(p.read("run", runner.JUnitFile), "<skipped ") || !strings.Contains(p.read("run", runner.ReportFile), "The run was interrupted: ") {
		t.Error("the reports do not say that trials have no outcome")
	}
	kept := p.read("run", "trials", "quick", "1", evidence.TrialFile)
	resumed := p.start("run", "--resume", "run", "eval.yaml").wait(exitOK)
	if p.read("run", "trials", "quick", "1", evidence.TrialFile) != kept {
		t.Error("a trial that had ended was run again")
	}
	record := p.record()
	if len(record.Resumed) != 1 || record.Interrupted || len(p.aside("interrupted")) == 0 {
		t.Errorf("resumed %v, interrupted %t, set aside %q", record.Resumed, record.Interrupted, p.aside("interrupted"))
	}
	if left := undigested(t, p); len(left) > 0 {
		t.Errorf("without a digest: %q", left)
	}
	if said := resumed.stdout.String(); strings.Contains(said, "--resume") {
		t.Errorf("stdout of a complete run: %s", said)
	}
	page := p.read("run", runner.ReportFile)
	if strings.Contains(p.read("run", runner.JUnitFile), "<skipped ") || strings.Contains(page, "The run was interrupted: ") {
		t.Error("the reports of a run that is complete say that it is not")
	}
	results := p.read("run", "results.json")
	again := p.start("run", "--resume", "run", "--format", "json").wait(exitOK)
	if diff := cmp.Diff(results, again.stdout.String()); diff != "" || !strings.Contains(again.stderr.String(), "run is complete: no trial is left to run") {
		t.Errorf("a complete run says %q and (-results.json +stdout):\n%s", again.stderr.String(), diff)
	}
	if diff := cmp.Diff(results, p.start("report", "run", "--format", "json").wait(exitOK).stdout.String()); diff != "" {
		t.Errorf("report --format json (-results.json +stdout):\n%s", diff)
	}
	p.start("grade", "run").wait(exitOK)
	if diff := cmp.Diff(results, p.read("run", "results.json")); diff != "" {
		t.Errorf("graded again:\n%s", diff)
	}
	if p.read("run", runner.ReportFile) != page {
		t.Error("graded again, the page is another")
	}
}

// TestResumeRerun checks that a rerun that was killed is completed with the trials that it keeps,
// and becomes the run that a single one would have been.
func TestResumeRerun(t *testing.T) {
	t.Parallel()
	undisturbed := newLocalProject(t, localKilledRun)
	undisturbed.startLocal().wait(exitOK)
	p := newLocalProject(t, localKilledRun)
	p.start("run", "eval.yaml", "--run-dir", "first").wait(exitOK)
	c := p.start("rerun", "first", "--task", "slow", "--run-dir", "run")
	c.await("the agent is at work", func() bool {
		return filled("trials", "slow", "*", evidence.FramesDir, "*")(runView{dir: p.path("run")})
	})
	c.signal(syscall.SIGKILL)
	<-c.ended
	if !p.exists("run", "trials", "quick", "2", evidence.VerdictsFile) || c.code != -1 {
		t.Fatalf("exit code %d, and nothing is kept\n%s", c.code, c.stderr.String())
	}
	if err := os.CopyFS(p.path("lacking"), os.DirFS(p.path("run"))); err != nil {
		t.Fatal(err)
	}
	p.start("run", "--resume", "run").wait(exitOK)
	p.same(t, tell(t, undisturbed))

	if err := os.RemoveAll(p.path("lacking", "trials", "quick", "2")); err != nil {
		t.Fatal(err)
	}
	said := p.start("run", "--resume", "lacking").wait(exitUsage).stderr.String()
	if !strings.Contains(said, "trial quick/2, which was kept from the run ") || !strings.Contains(said, "start a new run") {
		t.Errorf("without a trial that was kept, it says %q", said)
	}
}

// TestResumeRefuses checks that a run is not resumed if something has changed since it started.
func TestResumeRefuses(t *testing.T) {
	t.Parallel()
	p := newLocalProject(t, localKilledRun)
	c := p.startLocal("--mcp", "mcp.json")
	p.interrupt(c)
	begun := p.read("run", "run.json")
	tests := []struct {
		name, file, old, new string
		args                 []string
		want                 string
	}{
		{name: "the eval", file: "eval.yaml", old: "workers: 2", new: "workers: 3", want: "waza: eval.yaml has changed since the run started: start a new run\n"},
		{name: "a task", file: "tasks/2.yaml", old: "3s", new: "4s", want: "waza: tasks/2.yaml has changed since the run started: start a new run\n"},
		{name: "a fixture", file: "fixtures/fixture.txt", old: "was", new: "is", want: "waza: fixtures/fixture.txt has changed since the run started: start a new run\n"},
		{name: "the file of --mcp", file: "mcp.json", old: "[]", new: "[ ]", want: "waza: mcp.json has changed since the run started: start a new run\n"},
		{name: "waza", file: "run/run.json", old: `"build": "`, new: `"build": "f00`, want: "resume it with that one, or start a new run\n"},
		{name: "trials", args: []string{"--trials", "3"}, want: "waza: --trials cannot be given with --resume: a run is resumed with its own options; leave it out, or start a new run\n"},
		{name: "tasks", args: []string{"--task", "slow"}, want: "waza: --task cannot be given with --resume: a run is resumed with its own options; leave it out, or start a new run\n"},
		{name: "timeout", args: []string{"--timeout", "3s"}, want: "waza: --timeout cannot be given with --resume: a run is resumed with its own options; leave it out, or start a new run\n"},
		{name: "run directory", args: []string{"--run-dir", "other"}, want: "waza: --run-dir cannot be given with --resume: a run is resumed with its own options; leave it out, or start a new run\n"},
		{name: "isolation", args: []string{"--isolate"}, want: "waza: --isolate cannot be changed with --resume: a run is resumed with its own options\n"},
		{name: "as many as the machine bears", args: []string{"--workers", "auto"}, want: "waza: --workers auto needs --isolate: without it trials may disturb each other\n"},
		{name: "sandboxes ahead", args: []string{"--prepare", "2"}, want: "waza: --prepare is about containers: it needs --isolate\n"},
		{name: "two evals", args: []string{"eval.yaml", "eval.yaml"}, want: "waza: run --resume takes no eval file, or the one that the run started with; see waza run --help\n"},
		{name: "another eval", args: []string{"tasks/1.yaml"}, want: "waza: tasks/1.yaml has changed since the run started: start a new run\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.file != "" {
				was := p.read(test.file)
				defer p.write(test.file, was)
				if !strings.Contains(was, test.old) {
					t.Fatalf("%s has no %q", test.file, test.old)
				}
				p.write(test.file, strings.Replace(was, test.old, test.new, 1))
			}
			refused := p.start(append([]string{"run", "--resume", "run"}, test.args...)...).wait(exitUsage)
			if said := refused.stderr.String(); !strings.HasSuffix(said, test.want) || strings.Count(said, "\n") != 1 {
				t.Errorf("stderr %q, want %q", said, test.want)
			}
		})
	}
	if refused := p.start("run", "--resume", "tasks").wait(exitUsage); refused.stderr.String() != "waza: --resume: tasks is not a run directory: it has no run.json; runs are in .waza/runs, unless --run-dir named another place\n" {
		t.Errorf("stderr %q", refused.stderr.String())
	}
	if diff := cmp.Diff(begun, p.read("run", "run.json")); diff != "" {
		t.Errorf("a refusal changed run.json:\n%s", diff)
	}
	p.start("run", "--resume", "run").wait(exitOK)
}

// Variables whose values are in the plan must be as they were; no value of a
// variable is in run.json, nor a digest of one.
func TestFaults_ResumeWithOtherVariables(t *testing.T) {
	t.Parallel()
	p := newProject(t, strings.ReplaceAll(localKilledRun, "stock: {command: inventory}", `stock: {image: "waza-examples/${WHICH}", env: {TOKEN: "${TOKEN}"}}`), inventory)
	env := p.env
	p.env = append(slices.Clone(env), "WHICH=inventory", "TOKEN=hunter2-of-the-run")
	p.interrupt(p.startRun())
	p.env = append(slices.Clone(env), "WHICH=sql", "TOKEN=hunter2-of-the-run")
	refused := p.start("run", "--resume", "run").wait(exitUsage)
	if said := refused.stderr.String(); !strings.Contains(said, "the plan of the trials has changed since the run started") {
		t.Errorf("stderr %q", said)
	}
	p.env = append(slices.Clone(env), "WHICH=inventory", "TOKEN=another-that-nobody-sees")
	p.start("run", "--resume", "run").wait(exitOK)
	if record := p.read("run", "run.json"); strings.Contains(record, "hunter2") || strings.Contains(record, "another-that") {
		t.Error("run.json holds the value of a variable")
	}
}

// TestResumeOnce checks that a run in progress cannot be resumed, and that of two concurrent
// attempts to resume only one succeeds.
func TestResumeOnce(t *testing.T) {
	t.Parallel()
	p := newProject(t, strings.ReplaceAll(localKilledRun, "command: inventory", "image: waza-examples/inventory"), inventory)
	c := p.startRun()
	p.await(c, "trials", "quick", "1", evidence.TrialFile)
	if said := p.start("run", "--resume", "run").wait(exitUsage).stderr.String(); said != "waza: run: the run is still at work\n" {
		t.Errorf("stderr %q", said)
	}
	c.signal(syscall.SIGKILL)
	<-c.ended
	all := []*command{p.start("run", "--resume", "run"), p.start("run", "--resume", "run")}
	codes := map[int]int{}
	for _, one := range all {
		<-one.ended
		codes[one.code]++
		if one.code != exitOK && one.stderr.String() != "waza: run: the run is still at work\n" {
			t.Errorf("exit code %d: %s", one.code, one.stderr.String())
		}
	}
	if codes[exitOK] != 1 || codes[exitUsage] != 1 {
		t.Errorf("exit codes %v", codes)
	}
	dockertest.NoObjects(t, dockertest.Engine(t), p.runID())
}

// A server that lives for the run is begun anew in a resumed one. A trial that was
// infra is made again, and its first attempt is kept.
func TestFaults_ResumeSharedServerAndInfra(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config:
  trials_per_task: 2
  executor: script
  isolation: {network: airtight}
  mcp_server_lifetime: per_benchmark
  mcp_servers: {stock: {image: waza-examples/inventory}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
`, inventory)
	p.run(exitOK)
	trial := p.trialOf("x", 2)
	record, err := trial.Trial()
	if err != nil {
		t.Fatal(err)
	}
	record.Class, record.Reason, record.Message = evidence.ClassInfra, evidence.ReasonEngine, "as if the engine had gone"
	p.unend()
	if err := trial.WriteTrial(record); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.path("run", "trials", "x", "2", evidence.VerdictsFile)); err != nil {
		t.Fatal(err)
	}
	p.start("run", "--resume", "run").wait(exitOK)
	if record, err = trial.Trial(); err != nil || record.Attempt != 2 || record.Class != "" || len(record.Shared) != 1 {
		t.Errorf("%+v, %v", record, err)
	}
	if diff := cmp.Diff([]string{"trials/x/2/attempts/1"}, p.aside("attempts")); diff != "" {
		t.Error(diff)
	}
}

// unend makes the run look like one that was killed before its end.
func (p *project) unend() {
	p.t.Helper()
	record := p.record()
	record.Ended, record.Files = time.Time{}, nil
	if err := record.Write(p.path("run")); err != nil {
		p.t.Fatal(err)
	}
}
