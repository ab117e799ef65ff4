//go:build kubernetes

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/waza-isolate/waza/internal/files"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/kubernetes"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/kube"
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

// settleCluster completes the settings of an eval's pods from the user's kubeconfig.
func settleCluster(k kube.Settings) (kube.Settings, error) {
	own, from, err := kubernetes.Own(k.Context)
	if err != nil {
		return k, usage("%w", err)
	}
	return k.Settle(own, from)
}

// ownCluster returns the user's settings of a cluster; settings of the command line, in c, take precedence.
func ownCluster(c kube.Settings) (kube.Settings, error) {
	own, _, err := kubernetes.Own(c.Context)
	own.Namespace, own.RemoveInterface = cmp.Or(c.Namespace, own.Namespace), c.RemoveInterface
	return own, err
}

// openCluster opens the cluster for a run, with the images in its eval's list.
func openCluster(ctx context.Context, s *state, o runner.Opening) (sandbox.Backend, error) {
	klog.SetLogger(logr.Discard()) // klog reports closed connections
	images, err := readClusterImages(s, o.Trials[0])
	if err != nil {
		return nil, err
	}
	b, err := kubernetes.Open(ctx, kubernetes.Options{
		Run: o.Run, Resume: o.Resume, Config: *o.Trials[0].Kubernetes, Images: images, AllowWeak: o.AllowWeak, Say: s.printStatus,
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
func gcCluster(ctx context.Context, s *state, c kube.Settings, f format) error {
	own, err := ownCluster(c)
	if err != nil {
		return err
	}
	g, err := kubernetes.GC(ctx, own)
	if f == formatJSON {
		g.Runs, g.Live = listed(g.Runs), listed(g.Live)
		return cmp.Or(err, s.printValue(map[string]kubernetes.Garbage{"cluster": g}))
	}
	fmt.Fprintf(s.stdout, "removed the pods of %s on the cluster; %s\n", text.Count(len(g.Runs), "dead run"), text.Count(len(g.Live), "live run"))
	return err
}

// examineCluster checks whether a namespace of a cluster can run trials.
func examineCluster(ctx context.Context, c kube.Settings) sandbox.Checks {
	var all sandbox.Checks
	own, err := ownCluster(c)
	if err == nil {
		all, err = kubernetes.Examine(ctx, own)
	}
	if err != nil {
		all.Fail("cluster", err.Error(), "Set KUBECONFIG, and --context to a context of it.")
	}
	return all
}

// clusterManifests returns the manifests to install once in a cluster, as YAML.
func clusterManifests(c kube.Settings) (string, error) {
	own, err := ownCluster(c)
	if err != nil {
		return "", err
	}
	return kubernetes.Manifests(own)
}
