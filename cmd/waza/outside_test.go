package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
)

// TestFaults_TakenAwayFromOutside has somebody end what belongs to single trials while others
// are at work: those are run again, the others do not notice.
func TestFaults_TakenAwayFromOutside(t *testing.T) {
	t.Parallel()
	p := newProject(t, `
-- eval.yaml --
name: NAME
config: {trials_per_task: 5, parallel: true, workers: 5, executor: script, mcp_servers: {stock: {image: waza-examples/inventory}}}
tasks: [task.yaml]
-- task.yaml --
{id: x, inputs: {prompt: x}, script: [{loop: {times: 150, steps: [{call: {server: stock, tool: stock_report}}, {sleep: 200ms}]}}, {say: done}]}
`, inventory)
	engine := dockertest.Engine(t)
	takes := []func(t *testing.T, engine *client.Client, run, trial string){
		func(t *testing.T, e *client.Client, run, trial string) { killContainer(t, e, run, trial, "agent") },
		func(t *testing.T, e *client.Client, run, trial string) { killContainer(t, e, run, trial, "server") },
		removeAgent,
		removeTaskNetwork,
	}
	c := p.startRun()
	// Agents begin in any order, and each ends on its own: none waits for its turn here.
	taken := make([]bool, len(takes))
	c.await("agents of all trials have begun", func() bool {
		for i, take := range takes {
			if number := strconv.Itoa(i + 1); !taken[i] && p.exists("run", "trials", "x", number, evidence.StdoutFile) {
				take(t, engine, p.runID(), "x/"+number)
				taken[i] = true
			}
		}
		return !slices.Contains(taken, false)
	})
	c.wait(exitOK)
	for i, run := range p.results().Tasks[0].Runs {
		if run.Outcome != evidence.ClassPass {
			t.Errorf("trial %d: %s, %s", i+1, run.Outcome, run.Message)
		}
		if i == len(takes) {
			if run.Attempts != 1 {
				t.Errorf("the neighbour was run %d times: %+v", run.Attempts, run.Earlier)
			}
			continue
		}
		if len(run.Earlier) != 1 || run.Earlier[0].Outcome != evidence.ClassInfra || run.Earlier[0].Reason != evidence.ReasonKilled {
			t.Errorf("trial %d: earlier attempts %+v", i+1, run.Earlier)
		}
		t.Logf("trial %d: %+v", i+1, run.Earlier)
	}
	dockertest.NoObjects(t, engine, p.runID())
}

// TestFaults_LeaseKilled has somebody end the container that says the run is alive, and gc
// take the run for dead.
func TestFaults_LeaseKilled(t *testing.T) {
	t.Parallel()
	p := newProject(t, atWork, inventory)
	engine := dockertest.Engine(t)
	c := p.startRun()
	p.awaitAgents(c, "slow-1", "slow-2")
	dockertest.Kill(t, engine, p.runID(), "lease")
	p.start("gc").wait(exitOK)
	c.wait(exitOK)
	for _, task := range []string{"quick", "slow-1", "slow-2"} {
		if run := p.runOf(task); run.Outcome != evidence.ClassPass {
			t.Errorf("%s: %s, %s", task, run.Outcome, run.Message)
		}
	}
	dockertest.NoObjects(t, engine, p.runID())
}

// containerOf returns the id of a trial's container with a role.
func containerOf(t *testing.T, engine *client.Client, run, trial, role string) string {
	t.Helper()
	all := dockertest.Containers(t, engine, run)
	i := slices.IndexFunc(all, func(c container.Summary) bool {
		return strings.HasPrefix(c.Labels["waza.trial"], trial) && c.Labels["waza.role"] == role
	})
	if i < 0 {
		t.Fatalf("trial %s has no %s", trial, role)
	}
	return all[i].ID
}

func killContainer(t *testing.T, engine *client.Client, run, trial, role string) {
	t.Helper()
	if _, err := engine.ContainerKill(t.Context(), containerOf(t, engine, run, trial, role), client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Error(err)
	}
}

// removeAgent may find it gone already: it removes itself once it is killed.
func removeAgent(t *testing.T, engine *client.Client, run, trial string) {
	t.Helper()
	_, err := engine.ContainerRemove(t.Context(), containerOf(t, engine, run, trial, "agent"), client.ContainerRemoveOptions{Force: true})
	if err != nil && !errdefs.IsConflict(err) && !errdefs.IsNotFound(err) {
		t.Error(err)
	}
}

func removeTaskNetwork(t *testing.T, engine *client.Client, run, trial string) {
	t.Helper()
	id := containerOf(t, engine, run, trial, "agent")
	found, err := engine.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name := range found.Container.NetworkSettings.Networks {
		on, err := engine.NetworkInspect(t.Context(), name, client.NetworkInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// From the first one on the trial may be taken down, and its network with it.
		for member := range on.Network.Containers {
			if _, err := engine.NetworkDisconnect(t.Context(), name, client.NetworkDisconnectOptions{Container: member, Force: true}); err != nil {
				t.Log(err)
			}
		}
		if _, err := engine.NetworkRemove(context.WithoutCancel(t.Context()), name, client.NetworkRemoveOptions{}); err != nil {
			t.Log(err)
		}
	}
}
