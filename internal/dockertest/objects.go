package dockertest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// RunLabel is the label that identifies everything on the engine that belongs to a run.
const RunLabel = "waza.run"

// pollEvery is the interval of polling the engine.
const pollEvery = 100 * time.Millisecond

// removeTimeout limits the removal of everything that a run left.
const removeTimeout = 5 * time.Minute

// Containers returns the containers of a run, running or not.
func Containers(t testing.TB, c *client.Client, run string) []container.Summary {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), lookTimeout)
	defer cancel()
	found, err := containersOf(ctx, c, run)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// containersOf returns the containers of a run. Engine 20.10 may list a container after its
// removal, dead, without a name and unknown by its id; such entries are dropped.
func containersOf(ctx context.Context, c *client.Client, run string) ([]container.Summary, error) {
	found, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ofRun(run)})
	return slices.DeleteFunc(found.Items, func(s container.Summary) bool {
		if len(s.Names) > 0 {
			return false
		}
		_, err := c.ContainerInspect(ctx, s.ID, client.ContainerInspectOptions{})
		return errdefs.IsNotFound(err)
	}), err
}

// Kill kills the only container of a run with the given role.
func Kill(t testing.TB, c *client.Client, run, role string) {
	t.Helper()
	found := slices.DeleteFunc(Containers(t, c, run), func(s container.Summary) bool { return s.Labels["waza.role"] != role })
	if len(found) != 1 {
		t.Fatalf("run %s has %d containers with the role %s", run, len(found), role)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), lookTimeout)
	defer cancel()
	if _, err := c.ContainerKill(ctx, found[0].ID, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
		t.Fatal(err)
	}
}

// Objects returns one line for each container, network and volume that a run has on the
// engine.
func Objects(t testing.TB, c *client.Client, run string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), lookTimeout)
	defer cancel()
	objects, err := list(ctx, c, run)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// NoObjects fails the test if the run has any objects on the engine.
func NoObjects(t testing.TB, c *client.Client, run string) {
	t.Helper()
	if left := Objects(t, c, run); len(left) > 0 {
		t.Errorf("run %s left on the engine:\n  %s", run, strings.Join(left, "\n  "))
	}
}

// Remove forcibly removes everything that a run has on the engine.
func Remove(t testing.TB, c *client.Client, run string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), removeTimeout)
	defer cancel()
	for _, found := range Containers(t, c, run) {
		if _, err := c.ContainerRemove(ctx, found.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			t.Log(err) // it may already be being removed
		}
	}
	networks, err := c.NetworkList(ctx, client.NetworkListOptions{Filters: ofRun(run)})
	if err != nil {
		t.Error(err)
	}
	for _, n := range networks.Items {
		if _, err := c.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil {
			t.Error(err)
		}
	}
	volumes, err := c.VolumeList(ctx, client.VolumeListOptions{Filters: ofRun(run)})
	if err != nil {
		t.Error(err)
	}
	for _, v := range volumes.Items {
		if _, err := c.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
}

// Dying is how long containers may outlive a killed runner: until some keepalives of their guests
// fail and the engine removes them.
const Dying = time.Minute

// AwaitNoContainers waits until the run has no containers.
func AwaitNoContainers(t testing.TB, c *client.Client, run string) {
	t.Helper()
	Await(t, Dying, "run "+run+" has no container", func() bool { return len(Containers(t, c, run)) == 0 })
}

// Await polls until done returns true, and fails the test after within.
func Await(t testing.TB, within time.Duration, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(pollEvery) {
		if done() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not so after %s: %s", within, what)
		}
	}
}

func ofRun(run string) client.Filters {
	return client.Filters{}.Add("label", RunLabel+"="+run)
}

func list(ctx context.Context, c *client.Client, run string) ([]string, error) {
	var all []string
	found, err := containersOf(ctx, c, run)
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		all = append(all, fmt.Sprintf("container %s (%s)", strings.Join(f.Names, " "), f.State))
	}
	networks, err := c.NetworkList(ctx, client.NetworkListOptions{Filters: ofRun(run)})
	if err != nil {
		return nil, err
	}
	for _, n := range networks.Items {
		all = append(all, "network "+n.Name)
	}
	volumes, err := c.VolumeList(ctx, client.VolumeListOptions{Filters: ofRun(run)})
	if err != nil {
		return nil, err
	}
	for _, v := range volumes.Items {
		all = append(all, "volume "+v.Name)
	}
	slices.Sort(all)
	return all, nil
}

// Runs returns the ids of the runs with objects on the engine whose id contains part, for a
// run whose full id is unknown.
func Runs(t testing.TB, c *client.Client, part string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), lookTimeout)
	defer cancel()
	labels, err := allLabels(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]bool{}
	for _, l := range labels {
		if strings.Contains(l[RunLabel], part) {
			runs[l[RunLabel]] = true
		}
	}
	return slices.Sorted(maps.Keys(runs))
}

// allLabels returns the labels of all objects of all runs.
func allLabels(ctx context.Context, c *client.Client) ([]map[string]string, error) {
	ours := client.Filters{}.Add("label", RunLabel)
	containers, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, err
	}
	networks, err := c.NetworkList(ctx, client.NetworkListOptions{Filters: ours})
	if err != nil {
		return nil, err
	}
	volumes, err := c.VolumeList(ctx, client.VolumeListOptions{Filters: ours})
	if err != nil {
		return nil, err
	}
	var all []map[string]string
	for _, found := range containers.Items {
		all = append(all, found.Labels)
	}
	for _, found := range networks.Items {
		all = append(all, found.Labels)
	}
	for _, found := range volumes.Items {
		all = append(all, found.Labels)
	}
	return all, nil
}
