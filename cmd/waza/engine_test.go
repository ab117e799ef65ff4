package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// atWork is an eval with one short trial and others that take some seconds.
const atWork = `
-- eval.yaml --
name: NAME
config: {trials_per_task: 1, parallel: true, workers: 3, executor: script, mcp_servers: {stock: {image: waza-examples/inventory}}}
tasks: [tasks/*.yaml]
-- tasks/1.yaml --
{id: quick, inputs: {prompt: x}, script: [{call: {server: stock, tool: stock_report}}, {say: done}]}
-- tasks/2.yaml --
{id: slow-1, inputs: {prompt: x}, script: [{sleep: 15s}, {call: {server: stock, tool: stock_report}}, {say: done}]}
-- tasks/3.yaml --
{id: slow-2, inputs: {prompt: x}, script: [{loop: {times: 75, steps: [{call: {server: stock, tool: stock_report}}, {sleep: 200ms}]}}, {say: done}]}
`

// privateProject returns a project on its own engine, with running agents.
func privateProject(t *testing.T) (*project, *dockertest.Private, *command) {
	t.Helper()
	engine := dockertest.StartPrivate(t, []string{inventory})
	p := unpackProject(t, atWork)
	p.env = append(p.env, "DOCKER_HOST="+engine.Host())
	c := p.startRun()
	p.await(c, "trials", "quick", "1", evidence.VerdictsFile)
	p.awaitAgents(c, "slow-1", "slow-2")
	return p, engine, c
}

// rerun checks that trials were lost with the engine and retried.
func (p *project) rerun(lost evidence.Reason, tasks ...string) {
	p.t.Helper()
	if run := p.runOf("quick"); run.Outcome != evidence.ClassPass || run.Attempts != 1 {
		p.t.Errorf("what had ended before: %s after %d attempts", run.Outcome, run.Attempts)
	}
	for _, task := range tasks {
		run := p.runOf(task)
		if run.Outcome != evidence.ClassPass || run.Attempts != 2 || len(run.Earlier) != 1 {
			p.t.Errorf("%s: %s after %d attempts, %s; earlier %+v", task, run.Outcome, run.Attempts, run.Message, run.Earlier)
			continue
		}
		if first := run.Earlier[0]; first.Outcome != evidence.ClassInfra || first.Reason != lost {
			p.t.Errorf("%s, first attempt: %+v", task, first)
		}
	}
}

// TestFaults_EngineKilledAndStartedAgain kills the engine with agents at work. Without it
// their containers end all the same; with it the trials that were lost are run again.
func TestFaults_EngineKilledAndStartedAgain(t *testing.T) {
	t.Parallel()
	p, engine, c := privateProject(t)
	engine.Kill()
	dockertest.Await(t, dockertest.Dying, "no process of a container is left", func() bool { return len(engine.Guests()) == 0 })
	engine.Start()
	c.wait(exitOK)
	p.rerun(evidence.ReasonEngine, "slow-1", "slow-2")
	p.start("gc").wait(exitOK)
	dockertest.NoObjects(t, engine.Client(), p.runID())
}

// TestFaults_EngineKilledForGood kills the engine and leaves it dead until the run has given
// up on it.
func TestFaults_EngineKilledForGood(t *testing.T) {
	t.Parallel()
	p, engine, c := privateProject(t)
	engine.Kill()
	c.wait(exitInfra)
	if run := p.runOf("quick"); run.Outcome != evidence.ClassPass {
		t.Errorf("what had ended before: %s", run.Outcome)
	}
	for _, task := range []string{"slow-1", "slow-2"} {
		if run := p.runOf(task); run.Outcome != evidence.ClassInfra || run.Reason != evidence.ReasonEngine {
			t.Errorf("%s: %s, %s: %s", task, run.Outcome, run.Reason, run.Message)
		}
	}
	if said := c.stderr.String(); strings.Count(said, "the engine does not come back: ") != 1 || strings.Count(said, "left to waza gc: ") != 1 {
		t.Errorf("stderr: %s", said)
	}
	engine.Start()
	p.start("gc").wait(exitOK)
	dockertest.NoObjects(t, engine.Client(), p.runID())

	// The same executable completes the run, even if its images were removed in between.
	guests, err := engine.Client().ImageList(t.Context(), client.ImageListOptions{Filters: client.Filters{}.Add("reference", "waza-guest")})
	if err != nil || len(guests.Items) == 0 {
		t.Fatalf("images of guests: %v, %v", guests, err)
	}
	for _, g := range guests.Items {
		if _, err := engine.Client().ImageRemove(t.Context(), g.ID, client.ImageRemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	p.start("run", "--resume", "run").wait(exitOK)
}

// TestFaults_AddressPoolsUsedUp runs where the engine has no subnet left to choose: waza
// chooses its own.
func TestFaults_AddressPoolsUsedUp(t *testing.T) {
	t.Parallel()
	engine := dockertest.StartPrivate(t, []string{inventory}, "--default-address-pool", "base=10.98.0.0/29,size=29")
	if _, err := engine.Client().NetworkCreate(t.Context(), "first", client.NetworkCreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Client().NetworkCreate(t.Context(), "second", client.NetworkCreateOptions{}); err == nil {
		t.Fatal("the engine's pools are not used up")
	}
	p := unpackProject(t, strings.ReplaceAll(atWork, "sleep: 15s", "sleep: 1s"))
	p.env = append(p.env, "DOCKER_HOST="+engine.Host())
	p.run(exitOK)
	dockertest.NoObjects(t, engine.Client(), p.runID())
}

// TestFaults_EngineFrozen has the engine take connections and answer none, for longer than
// guests wait for their runner.
func TestFaults_EngineFrozen(t *testing.T) {
	t.Parallel()
	p, engine, c := privateProject(t)
	engine.Freeze()
	dockertest.Await(t, dockertest.Dying, "no process of a container is left", func() bool { return len(engine.Guests()) == 0 })
	engine.Thaw()
	c.wait(exitOK)
	p.rerun(evidence.ReasonEngine, "slow-1", "slow-2")
	p.start("gc").wait(exitOK)
	dockertest.NoObjects(t, engine.Client(), p.runID())
}

// TestFaults_EngineFrozenBriefly has the engine answer again as soon as the first container has
// ended, while others still run: no agent is to blame for that.
func TestFaults_EngineFrozenBriefly(t *testing.T) {
	t.Parallel()
	p, engine, c := privateProject(t)
	before := len(engine.Guests())
	engine.Freeze()
	dockertest.Await(t, dockertest.Dying, "a container has ended", func() bool { return len(engine.Guests()) < before })
	engine.Thaw()
	c.wait(exitOK)
	p.start("gc").wait(exitOK)
	dockertest.NoObjects(t, engine.Client(), p.runID())
}

// TestFaults_EngineFrozenForGood has the engine never answer again: the run ends all the
// same, and what it leaves is found later.
func TestFaults_EngineFrozenForGood(t *testing.T) {
	t.Parallel()
	p, engine, c := privateProject(t)
	engine.Freeze()
	c.wait(exitInfra)
	for _, task := range []string{"slow-1", "slow-2"} {
		if run := p.runOf(task); run.Outcome != evidence.ClassInfra || run.Reason != evidence.ReasonEngine || strings.Contains(run.Message, "remove container") {
			t.Errorf("%s: %s, %s: %s", task, run.Outcome, run.Reason, run.Message)
		}
	}
	engine.Thaw()
	// Until the engine has noticed that the lease ended, gc takes the run for alive.
	dockertest.AwaitNoContainers(t, engine.Client(), p.runID())
	p.start("gc").wait(exitOK)
	dockertest.NoObjects(t, engine.Client(), p.runID())
}

// TestFaults_TwoRunsBesideGC has gc go on beside two runs, on an engine that nobody else
// uses: nobody loses anything. All that gc may find is what a run that has just given
// up its lease is about to remove itself.
func TestFaults_TwoRunsBesideGC(t *testing.T) {
	t.Parallel()
	engine := dockertest.StartPrivate(t, []string{inventory})
	short := strings.NewReplacer("sleep: 15s", "sleep: 3s", "times: 75", "times: 15").Replace(atWork)
	one, two := unpackProject(t, short), unpackProject(t, short)
	runs := []*command{}
	for _, p := range []*project{one, two} {
		p.env = append(p.env, "DOCKER_HOST="+engine.Host())
		runs = append(runs, p.startRun())
	}
	most := 0
	for range 500 {
		said := one.start("gc").wait(exitOK).stdout.String()
		var live int
		_, ofEngine, _ := strings.Cut(said, "\n")
		if _, err := fmt.Sscanf(ofEngine, "nothing to remove on the engine; %d live run", &live); live > 2 || err != nil && !strings.Contains(ofEngine, " 0 networks") {
			t.Errorf("gc: %q, %v", said, err)
		}
		most = max(most, live)
		if runs[0].hasEnded() && runs[1].hasEnded() {
			break
		}
	}
	if most != 2 {
		t.Errorf("gc saw %d live runs", most)
	}
	for i, p := range []*project{one, two} {
		runs[i].wait(exitOK)
		for _, task := range []string{"quick", "slow-1", "slow-2"} {
			if run := p.runOf(task); run.Attempts != 1 {
				t.Errorf("%s was run %d times: %+v", task, run.Attempts, run.Earlier)
			}
		}
		dockertest.NoObjects(t, engine.Client(), p.runID())
	}
}

func (c *command) hasEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}
