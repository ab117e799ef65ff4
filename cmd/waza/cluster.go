//go:build kubernetes

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/kubernetes"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox/guests"
)

const hasCluster = true

// maxImagesFile is the maximum size of a list of images, in bytes.
const maxImagesFile = 4 << 20

// openCluster opens the cluster for a run, with the images listed in its images file.
func openCluster(ctx context.Context, s *state, o runner.Opening) (runner.Backend, error) {
	klog.SetLogger(logr.Discard()) // klog reports closed connections
	t := o.Trials[0]
	data, err := files.Read(t.ImagesFile, maxImagesFile)
	if err != nil {
		return nil, usage("the list of the cluster's images cannot be read: %w; run waza images save or push for this eval", err)
	}
	images, err := guests.ReadImages(data)
	if err != nil {
		return nil, usage("%s is not a list of images: %w; run waza images save or push for this eval", t.ImagesFile, err)
	}
	if images.Waza != s.version {
		return nil, usage("%s is of waza %s and this is %s; run waza images save or push for this eval again", t.ImagesFile, images.Waza, s.version)
	}
	b, err := kubernetes.Open(ctx, kubernetes.Options{
		Run: o.Run, Resume: o.Resume, Config: *t.Kubernetes, Images: images, AllowWeak: o.AllowWeak, Say: s.printStatus,
	})
	if errors.Is(err, kubernetes.ErrNotConfigured) {
		return nil, usage("%w", err)
	}
	return b, err
}

// sweepCluster removes what an interrupted run left on its cluster.
func sweepCluster(ctx context.Context, dead runner.Record) error {
	return kubernetes.Sweep(ctx, dead.Engine, dead.ID)
}

// gcCluster removes what interrupted runs left in a namespace of a cluster.
func gcCluster(ctx context.Context, s *state, c eval.Kubernetes) error {
	g, err := kubernetes.GC(ctx, c)
	fmt.Fprintf(s.stdout, "removed the pods of %d dead run(s) on the cluster; %d live run(s)\n", len(g.Runs), len(g.Live))
	return err
}

// examineCluster checks whether a namespace of a cluster can run trials.
func examineCluster(ctx context.Context, c eval.Kubernetes) containers.Checks {
	var all containers.Checks
	found, err := kubernetes.Examine(ctx, c)
	for _, f := range found {
		if f.Mend == "" {
			all.OK(f.Name, f.Says)
		} else {
			all.Fail(f.Name, f.Says, f.Mend)
		}
	}
	if err != nil {
		all.Fail("cluster", err.Error(), "Set KUBECONFIG, and --context to a context of it.")
	}
	return all
}

// clusterManifests returns the manifests to install once in a cluster, as YAML.
func clusterManifests(c eval.Kubernetes) (string, error) { return kubernetes.Manifests(c) }
