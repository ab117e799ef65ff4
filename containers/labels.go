package containers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
)

// Labels of everything we create, set in the call that creates it. Nothing of
// ours is found by name or memory.
const (
	labelRun   = "waza.run"
	labelTrial = "waza.trial" // TASK/N, TASK/N/ATTEMPT from the second on, or wholeRun
	labelRole  = "waza.role"
)

// Labels of a lease, which tell where its run is at home.
const (
	labelHost  = "waza.host"
	labelBoot  = "waza.boot"
	labelPIDs  = "waza.pids" // the namespace that the process has its number in
	labelPID   = "waza.pid"
	labelStart = "waza.start"
)

// labelImage marks images that are built to be kept. They belong to no run.
const (
	labelImage  = "waza.image"
	imageServer = "server" // of a package
	imageAgent  = "agent"
)

// labelSession is what testcontainers knows its own by, and what a reaper of its
// goes by. Its own id is that of the process that started us, which others share.
const labelSession = "org.testcontainers.sessionId"

// wholeRun marks what belongs to a run and to no single trial.
const wholeRun = "-"

const (
	roleLease     = "lease"
	roleAside     = "aside" // never started
	roleUsers     = "users"
	roleFiles     = "files"
	roleNetwork   = "network"
	roleAgent     = "agent"
	roleServer    = "server"
	roleService   = "service"
	roleWorkspace = "workspace"
	roleHostProbe = "outpost"
)

func labels(run, trial, role string) map[string]string {
	return map[string]string{labelRun: run, labelTrial: trial, labelRole: role}
}

// TrialLabel is the value of the label waza.trial.
func TrialLabel(task string, number, attempt int) string {
	label := task + "/" + strconv.Itoa(number)
	if attempt > 1 {
		label += "/" + strconv.Itoa(attempt)
	}
	return label
}

// filter chooses objects by label.
type filter []string

// ofRun is everything of one run.
func ofRun(run string) filter { return filter{labelRun + "=" + run} }

// ours is everything of any run.
func ours() filter { return filter{labelRun} }

// labelled is everything of one trial, or of a run as a whole.
func labelled(run, trial string) filter {
	return filter{labelRun + "=" + run, labelTrial + "=" + trial}
}

func (f filter) args() filters.Args {
	args := filters.NewArgs()
	for _, label := range f {
		args.Add("label", label)
	}
	return args
}

// ignoreGone drops the error of removing what is gone or going.
func ignoreGone(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// removeContainers removes all that match, by force.
func (e *engine) removeContainers(ctx context.Context, which filter) error {
	found, err := e.ContainerList(ctx, container.ListOptions{All: true, Filters: which.args()})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range found {
		errs = append(errs, e.removeContainer(ctx, c.ID))
	}
	return errors.Join(errs...)
}

// removeVolumes removes all that match. A container that is just going may hold
// one for a moment longer.
func (e *engine) removeVolumes(ctx context.Context, which filter) error {
	found, err := e.VolumeList(ctx, volume.ListOptions{Filters: which.args()})
	if err != nil {
		return err
	}
	var errs []error
	for _, v := range found.Volumes {
		err := ignoreGone(e.VolumeRemove(ctx, v.Name, true))
		for try := 0; errdefs.IsConflict(err) && try < 20 && ctx.Err() == nil; try++ {
			time.Sleep(50 * time.Millisecond)
			err = ignoreGone(e.VolumeRemove(ctx, v.Name, true))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
