package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/internal/tree"
)

// Labels of all objects that we create, set in the create request. Objects are only found by
// label.
const (
	labelRun   = "waza.run"
	labelTrial = "waza.trial" // TASK/N, TASK/N/ATTEMPT from the second attempt, or wholeRun
	labelRole  = "waza.role"
)

// Labels of a lease, which identify the process that holds it.
const (
	labelHost  = "waza.host"
	labelBoot  = "waza.boot"
	labelPIDs  = "waza.pids" // pid namespace of the process
	labelPID   = "waza.pid"
	labelStart = "waza.start"
)

// labelImage marks images that are kept. They do not belong to a run.
const (
	labelImage  = "waza.image"
	imageServer = "server" // from a package
	imageAgent  = "agent"
	imageSource = "source" // from a directory
	imageLayer  = "layer"  // see layerRepository

	labelParent = "waza.parent" // on a layer: id of the image below
)

// labelSession is the label that testcontainers and its reaper use. By default its value
// identifies our parent process, which others may share.
const labelSession = "org.testcontainers.sessionId"

// wholeRun is the trial label of objects that belong to the whole run.
const wholeRun = "-"

const (
	roleLease     = "lease"
	roleAside     = "aside" // never started
	roleUsers     = "users"
	roleFiles     = "files"
	roleNetwork   = "network"
	roleWorkspace = "workspace"
	roleHostProbe = "host-probe"
)

func labels(run, trial, role string) map[string]string {
	return map[string]string{labelRun: run, labelTrial: trial, labelRole: role}
}

// filter selects objects by label.
type filter []string

// ofRun selects everything of one run.
func ofRun(run string) filter { return filter{labelRun + "=" + run} }

// allRuns selects everything of any run.
func allRuns() filter { return filter{labelRun} }

// ofTrial selects everything of one trial, or of a run as a whole.
func ofTrial(run, trial string) filter {
	return filter{labelRun + "=" + run, labelTrial + "=" + trial}
}

// leases selects the leases of one run.
func leases(run string) filter {
	return filter{labelRun + "=" + run, labelRole + "=" + roleLease}
}

func (f filter) args() client.Filters {
	args := client.Filters{}
	for _, label := range f {
		args.Add("label", label)
	}
	return args
}

// ignoreGone returns nil if err means that an object does not exist.
func ignoreGone(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// conflictPause is the pause before a request is repeated that conflicted with another one.
const conflictPause = 50 * time.Millisecond

// creating returns the context for a request that creates an object. It is not cancelled with
// ctx, because the engine would still create the object, and its id would be unknown.
func creating(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
}

func (e *engine) createContainer(ctx context.Context, conf *container.Config, host *container.HostConfig, net *network.NetworkingConfig, name string) (string, error) {
	ctx, cancel := creating(ctx)
	defer cancel()
	created, err := e.ContainerCreate(ctx, client.ContainerCreateOptions{Config: conf, HostConfig: host, NetworkingConfig: net, Name: name})
	if err != nil {
		return "", err
	}
	return created.ID, nil
}

// containers lists the containers that match, whether running or not.
func (e *engine) containers(ctx context.Context, which filter) ([]container.Summary, error) {
	found, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: which.args()})
	return found.Items, err
}

// running reports whether a container is running, even if paused.
func (e *engine) running(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := e.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	return err == nil && found.Container.State != nil && found.Container.State.Running
}

// removeContainer removes a container by force and waits until it is gone.
func (e *engine) removeContainer(ctx context.Context, id string) error {
	for {
		_, err := e.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case !errdefs.IsConflict(err): // otherwise "removal is already in progress"
			return fmt.Errorf("remove container %.12s: %w", id, err)
		}
		if _, err := e.ContainerInspect(ctx, id, client.ContainerInspectOptions{}); errdefs.IsNotFound(err) {
			return nil
		}
		if err := retry.Sleep(ctx, conflictPause); err != nil {
			return fmt.Errorf("remove container %.12s: %w", id, err)
		}
	}
}

// withImage calls use with the id of a container of an image. The container is not started, and
// is removed when use returns.
func (e *engine) withImage(ctx context.Context, run, image string, mounts []mount.Mount, use func(id string) error) (err error) {
	id, err := e.createContainer(ctx,
		&container.Config{Image: image, Entrypoint: []string{"-"}, WorkingDir: "/", Labels: labels(run, wholeRun, roleAside)},
		&container.HostConfig{NetworkMode: "none", Mounts: mounts}, nil, "")
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, e.removeContainer(ctx, id))
	}()
	return use(id)
}

// errNoFile means that a path in a container is not a regular file.
var errNoFile = errors.New("not a regular file")

// readFile reads up to limit bytes of a regular file in a container. It follows a link.
func (e *engine) readFile(ctx context.Context, id, path string, limit int64) ([]byte, error) {
	stat, err := e.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: path})
	if err != nil {
		return nil, err
	}
	copied, err := e.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: cmp.Or(stat.Stat.LinkTarget, path)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = copied.Content.Close() }()
	file, err := tree.First(copied.Content)
	switch {
	case err != nil:
		return nil, err
	case file.Kind() != tree.File:
		return nil, fmt.Errorf("%s: %w", path, errNoFile)
	}
	return io.ReadAll(io.LimitReader(file.Content, limit))
}

func (e *engine) createVolume(ctx context.Context, name string, labels map[string]string) (volume.Volume, error) {
	ctx, cancel := creating(ctx)
	defer cancel()
	made, err := e.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Labels: labels})
	return made.Volume, err
}

// removeVolume removes a volume. It retries if a container that is being removed still uses it.
func (e *engine) removeVolume(ctx context.Context, name string) error {
	_, err := e.VolumeRemove(ctx, name, client.VolumeRemoveOptions{Force: true})
	for try := 0; errdefs.IsConflict(err) && try < 20 && ctx.Err() == nil; try++ {
		time.Sleep(conflictPause)
		_, err = e.VolumeRemove(ctx, name, client.VolumeRemoveOptions{Force: true})
	}
	return ignoreGone(err)
}

func (e *engine) createNetwork(ctx context.Context, name string, o client.NetworkCreateOptions) error {
	done, err := e.networkTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := creating(ctx)
	defer cancel()
	_, err = e.NetworkCreate(ctx, name, o)
	return err
}

// detachTime is how long to wait for containers to leave a network.
const detachTime = 5 * time.Second

// removeNetwork removes a network. It waits for containers that are being removed, then
// disconnects what is still connected: Docker 20.10 may keep the endpoint of a container that it
// has removed.
func (e *engine) removeNetwork(ctx context.Context, id string) error {
	forced := false
	for until := time.Now().Add(detachTime); ; {
		err := e.removeNetworkOnce(ctx, id)
		if !errdefs.IsPermissionDenied(err) || forced { // otherwise "has active endpoints"
			return ignoreGone(err)
		}
		if forced = time.Now().After(until); forced {
			if err := e.disconnectAll(ctx, id); err != nil {
				return ignoreGone(err)
			}
		} else if late := retry.Sleep(ctx, conflictPause); late != nil {
			return errors.Join(err, late)
		}
	}
}

// disconnectAll disconnects a network from all containers, also from those that are gone.
func (e *engine) disconnectAll(ctx context.Context, id string) error {
	found, err := e.NetworkInspect(ctx, id, client.NetworkInspectOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, endpoint := range found.Network.Containers {
		_, err := e.NetworkDisconnect(ctx, id, client.NetworkDisconnectOptions{Container: endpoint.Name, Force: true})
		errs = append(errs, ignoreGone(err))
	}
	return errors.Join(errs...)
}

func (e *engine) removeNetworkOnce(ctx context.Context, id string) error {
	done, err := e.networkTurn(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = e.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
	return err
}

// networkTurn waits for its turn to create or remove a network.
func (e *engine) networkTurn(ctx context.Context) (done func(), err error) {
	select {
	case e.networking <- struct{}{}:
		return func() { <-e.networking }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// removeContainers removes all containers that match, by force.
func (e *engine) removeContainers(ctx context.Context, which filter) error {
	found, err := e.containers(ctx, which)
	return errors.Join(err, each(found, func(c container.Summary) error { return e.removeContainer(ctx, c.ID) }))
}

// removeNetworks removes all networks that match.
func (e *engine) removeNetworks(ctx context.Context, which filter) error {
	found, err := e.NetworkList(ctx, client.NetworkListOptions{Filters: which.args()})
	return errors.Join(err, each(found.Items, func(n network.Summary) error { return e.removeNetwork(ctx, n.ID) }))
}

// removeVolumes removes all volumes that match.
func (e *engine) removeVolumes(ctx context.Context, which filter) error {
	found, err := e.VolumeList(ctx, client.VolumeListOptions{Filters: which.args()})
	return errors.Join(err, each(found.Items, func(v volume.Volume) error { return e.removeVolume(ctx, v.Name) }))
}

// each calls do for each element and joins the errors.
func each[T any](all []T, do func(T) error) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, do(one))
	}
	return errors.Join(errs...)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
