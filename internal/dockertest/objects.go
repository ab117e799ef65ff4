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
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
)

// RunLabel is the label by which everything of a run is found on the engine.
const RunLabel = "waza.run"

// pollEvery is how often the engine is asked while waiting for it.
const pollEvery = 100 * time.Millisecond

// removeTimeout bounds the removal of all that a run left.
const removeTimeout = 5 * time.Minute

// Containers lists the containers of a run, started or not.
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

// containersOf lists the containers of a run. Engine 20.10 can list one after it was
// removed: dead, without a name, and not known by its id. Such a one is not there.
func containersOf(ctx context.Context, c *client.Client, run string) ([]container.Summary, error) {
	found, err := c.ContainerList(ctx, container.ListOptions{All: true, Filters: ofRun(run)})
	return slices.DeleteFunc(found, func(s container.Summary) bool {
		if len(s.Names) > 0 {
			return false
		}
		_, err := c.ContainerInspect(ctx, s.ID)
		return errdefs.IsNotFound(err)
	}), err
}

// Kill kills the one container of a run that has this role.
func Kill(t testing.TB, c *client.Client, run, role string) {
	t.Helper()
	found := slices.DeleteFunc(Containers(t, c, run), func(s container.Summary) bool { return s.Labels["waza.role"] != role })
	if len(found) != 1 {
		t.Fatalf("run %s has %d containers with the role %s", run, len(found), role)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), lookTimeout)
	defer cancel()
	if err := c.ContainerKill(ctx, found[0].ID, "KILL"); err != nil {
		t.Fatal(err)
	}
}

// Objects lists what a run has on the engine, a line for each container, network
// and volume.
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

// NoObjects fails the test if the run has anything on the engine.
func NoObjects(t testing.TB, c *client.Client, run string) {
	t.Helper()
	if left := Objects(t, c, run); len(left) > 0 {
		t.Errorf("run %s left on the engine:\n  %s", run, strings.Join(left, "\n  "))
	}
}

// Remove takes away what a run has on the engine, by force.
func Remove(t testing.TB, c *client.Client, run string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), removeTimeout)
	defer cancel()
	for _, found := range Containers(t, c, run) {
		if err := c.ContainerRemove(ctx, found.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			t.Log(err) // it may be going
		}
	}
	networks, err := c.NetworkList(ctx, network.ListOptions{Filters: ofRun(run)})
	if err != nil {
		t.Error(err)
	}
	for _, n := range networks {
		if err := c.NetworkRemove(ctx, n.ID); err != nil {
			t.Error(err)
		}
	}
	volumes, err := c.VolumeList(ctx, volume.ListOptions{Filters: ofRun(run)})
	if err != nil {
		t.Error(err)
	}
	for _, v := range volumes.Volumes {
		if err := c.VolumeRemove(ctx, v.Name, true); err != nil {
			t.Error(err)
		}
	}
}

// AwaitNoContainers waits until the run has no container, started or not, and
// fails the test if that takes longer than within.
func AwaitNoContainers(t testing.TB, c *client.Client, run string, within time.Duration) {
	t.Helper()
	Await(t, within, "run "+run+" has no container", func() bool { return len(Containers(t, c, run)) == 0 })
}

// Await polls until done, and fails the test if that takes longer than within.
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

func ofRun(run string) filters.Args {
	return filters.NewArgs(filters.Arg("label", RunLabel+"="+run))
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
	networks, err := c.NetworkList(ctx, network.ListOptions{Filters: ofRun(run)})
	if err != nil {
		return nil, err
	}
	for _, n := range networks {
		all = append(all, "network "+n.Name)
	}
	volumes, err := c.VolumeList(ctx, volume.ListOptions{Filters: ofRun(run)})
	if err != nil {
		return nil, err
	}
	for _, v := range volumes.Volumes {
		all = append(all, "volume "+v.Name)
	}
	slices.Sort(all)
	return all, nil
}

// Runs lists the ids of the runs that have anything on the engine and part in
// their id, for a run whose id is not known.
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

// allLabels returns the labels of every object of any run.
func allLabels(ctx context.Context, c *client.Client) ([]map[string]string, error) {
	ours := filters.NewArgs(filters.Arg("label", RunLabel))
	containers, err := c.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, err
	}
	networks, err := c.NetworkList(ctx, network.ListOptions{Filters: ours})
	if err != nil {
		return nil, err
	}
	volumes, err := c.VolumeList(ctx, volume.ListOptions{Filters: ours})
	if err != nil {
		return nil, err
	}
	var all []map[string]string
	for _, found := range containers {
		all = append(all, found.Labels)
	}
	for _, found := range networks {
		all = append(all, found.Labels)
	}
	for _, found := range volumes.Volumes {
		all = append(all, found.Labels)
	}
	return all, nil
}
