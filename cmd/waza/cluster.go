//go:build kubernetes

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/kubernetes"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/guests"
)

const hasCluster = true

// maxImagesFile is the maximum size of a list of images, in bytes.
const maxImagesFile = 4 << 20

// readClusterImages reads the list of an eval's images.
func readClusterImages(s *state, t *plan.Trial) (images guests.Images, err error) {
	const again = "run waza images save or push for this eval"
	data, err := files.Read(t.ImagesFile, maxImagesFile)
	if err != nil {
		return images, usage("the list of the cluster's images cannot be read: %w; %s", err, again)
	}
	if images, err = guests.ReadImages(data); err != nil {
		return images, usage("%s is not a list of images: %w; %s", t.ImagesFile, err, again)
	}
	if images.Waza != s.version {
		return images, usage("%s is of waza %s and this is %s; %s again", t.ImagesFile, images.Waza, s.version, again)
	}
	return images, nil
}

// openCluster opens the cluster for a run, with the images that its eval's list has.
func openCluster(ctx context.Context, s *state, o runner.Opening) (runner.Backend, error) {
	return openClusterAs(ctx, s, o, *o.Trials[0].Kubernetes)
}

func openClusterAs(ctx context.Context, s *state, o runner.Opening, c eval.Kubernetes) (runner.Backend, error) {
	klog.SetLogger(logr.Discard()) // klog reports closed connections
	images, err := readClusterImages(s, o.Trials[0])
	if err != nil {
		return nil, err
	}
	b, err := kubernetes.Open(ctx, kubernetes.Options{
		Run: o.Run, Resume: o.Resume, Config: c, Images: images, AllowWeak: o.AllowWeak, Say: s.printStatus,
	})
	if errors.Is(err, kubernetes.ErrNotConfigured) {
		return nil, usage("%w", err)
	}
	return b, err
}

// runShardsOnCluster has the shards of a job run in the cluster, with variables as their
// environment.
func runShardsOnCluster(ctx context.Context, s *state, j *runner.Job, variables map[string]string) ([]error, error) {
	klog.SetLogger(logr.Discard())
	images, err := readClusterImages(s, j.Trials[0])
	if err != nil {
		return nil, err
	}
	if images.Runner == "" {
		return nil, usage("%s has no image of runners, which --shards needs: run waza images save or push again with %s next to the waza executable", j.Trials[0].ImagesFile, clusterExecutable)
	}
	shards := j.Request.Shards
	var parcel bytes.Buffer
	if err := runner.WriteParcel(&parcel, j, variables); err != nil {
		return nil, err
	}
	errs, err := kubernetes.RunShards(ctx, kubernetes.Shards{
		Run: j.ID, Of: shards, Config: *j.Trials[0].Kubernetes, Image: images.Runner, Stdin: runner.FrameParcel(parcel.Bytes()),
		Take: func(shard int, r io.Reader) error { return runner.TakeUpload(j, shard, r) },
		Stderr: func(shard int) io.Writer {
			return &lineWriter{out: s.stderr, prefix: fmt.Sprintf("shard %d/%d: ", shard, shards), secrets: j.Request.Secrets}
		},
		Say: s.printStatus,
	})
	if errors.Is(err, kubernetes.ErrNotConfigured) {
		return nil, usage("%w", err)
	}
	return errs, err
}

// runShard is a runner of a shard in a pod: it reads what to run from stdin, and writes the run
// directory to stdout.
func runShard(s *state) error {
	s.warned = map[string]bool{}
	index, err := strconv.Atoi(os.Getenv("JOB_COMPLETION_INDEX"))
	if err != nil {
		return usage("waza shard is run by waza run --shards: JOB_COMPLETION_INDEX is missing")
	}
	dir, err := os.MkdirTemp("", "shard-")
	if err != nil {
		return err
	}
	parcel, err := runner.UnframeParcel(s.stdin)
	if err != nil {
		return fmt.Errorf("what to run: %w", err)
	}
	p, start, err := runner.ReadParcel(parcel, dir)
	if err == nil {
		err = os.Chdir(start)
	}
	if err != nil {
		return fmt.Errorf("what to run: %w", err)
	}
	if p.Waza != s.version {
		return usage("the image of runners has waza %s and the run is of %s; run waza images save or push again", s.version, p.Waza)
	}
	s.lookup = func(name string) (string, bool) { value, ok := p.Variables[name]; return value, ok }
	ctx, stop := interruptible(context.Background(), s.stderr)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { // whoever started it wants its end, or is gone
		_, _ = s.stdin.Read(make([]byte, 1))
		cancel(errInterrupted)
	}()
	number := index + 1
	q := p.Request(number)
	if p.Overlay != "" {
		if q.Overlay, err = s.overlayFrom(p.Overlay); err != nil {
			return err
		}
	}
	q.Host = s.host(normal, false)
	q.Open = func(ctx context.Context, o runner.Opening) (runner.Backend, error) {
		c := *o.Trials[0].Kubernetes
		c.Context, o.Run = "", kubernetes.ShortRun(o.Run)+"-"+strconv.Itoa(number)
		return openClusterAs(ctx, s, o, c)
	}
	var upload *runner.Upload
	runDir, watch := filepath.Join(dir, "run"), q.Watch
	q.Watch = func(ctx context.Context, trials, workers int) (func(runner.Update), func()) {
		update, end := watch(ctx, trials, workers)
		if upload, err = runner.NewUpload(runDir, number, s.stdout); err != nil {
			cancel(err)
			return update, end
		}
		upload.Record()
		return func(u runner.Update) {
			update(u)
			if u.Phase == evidence.PhaseDone {
				upload.Trial(u.Task, u.Number)
			}
		}, end
	}
	job, err := runner.Load(ctx, q)
	if err != nil {
		return err
	}
	job.Dir = runDir
	_, err = runner.Run(ctx, job, nil)
	if upload != nil {
		err = errors.Join(err, upload.Close())
	}
	if err == nil && ctx.Err() != nil {
		err = errors.New("the shard was interrupted")
	}
	return err
}

// sweepCluster removes what an interrupted run left on its cluster.
func sweepCluster(ctx context.Context, dead runner.Record) error {
	return kubernetes.Sweep(ctx, dead.Engine, dead.ID)
}

// gcCluster removes what interrupted runs left in a namespace of a cluster.
func gcCluster(ctx context.Context, s *state, c eval.Kubernetes) error {
	g, err := kubernetes.GC(ctx, c)
	fmt.Fprintf(s.stdout, "removed the pods of %s on the cluster; %s\n", text.Count(len(g.Runs), "dead run"), text.Count(len(g.Live), "live run"))
	return err
}

// examineCluster checks whether a namespace of a cluster can run trials, or shards' runners.
func examineCluster(ctx context.Context, c eval.Kubernetes, shards bool) containers.Checks {
	var all containers.Checks
	found, err := kubernetes.Examine(ctx, c, shards)
	for _, f := range found {
		if f.Fix == "" {
			all.OK(f.Name, f.Message)
		} else {
			all.Fail(f.Name, f.Message, f.Fix)
		}
	}
	if err != nil {
		all.Fail("cluster", err.Error(), "Set KUBECONFIG, and --context to a context of it.")
	}
	return all
}

// clusterManifests returns the manifests to install once in a cluster, as YAML.
func clusterManifests(c eval.Kubernetes, shards bool) (string, error) {
	return kubernetes.Manifests(c, shards)
}
