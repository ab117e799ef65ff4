package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Labels of the objects of the benchmark. The floor's objects have the label of the run
// whose lease the benchmark holds, so that "waza gc" keeps them while the benchmark runs,
// and removes them if it was killed.
const (
	labelRun     = "waza.run"
	labelTrial   = "waza.trial"
	labelBench   = "waza.bench"
	labelProject = "com.docker.compose.project"
)

// engine is a client of the engine.
type engine struct {
	*client.Client
}

// dialEngine connects to the engine that waza uses.
func dialEngine(ctx context.Context) (*engine, error) {
	c, err := client.New(client.FromEnv)
	if err != nil {
		return nil, err
	}
	if _, err := c.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, errors.Join(fmt.Errorf("no Docker engine answers at %s: start Docker, or set DOCKER_HOST to the address of an engine: %w", c.DaemonHost(), err), c.Close())
	}
	// A docker context may select another engine; make waza use this one.
	return &engine{c}, os.Setenv(client.EnvOverrideHost, c.DaemonHost())
}

// importPeer makes an image of the peer and the attacker only. The name of the image is
// unique to the run.
func (e *engine) importPeer(ctx context.Context, peer, attacker, run string) (string, error) {
	var content bytes.Buffer
	out := tar.NewWriter(&content)
	for name, path := range map[string]string{"peer": peer, "attacker": attacker} {
		executable, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(executable))}); err != nil {
			return "", err
		}
		if _, err := out.Write(executable); err != nil {
			return "", err
		}
	}
	if err := out.Close(); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(run))
	ref := "waza-bench-peer:" + hex.EncodeToString(sum[:8])
	progress, err := e.ImageImport(ctx, client.ImageImportSource{Source: &content, SourceName: "-"}, ref, client.ImageImportOptions{
		Changes: []string{`ENTRYPOINT ["/peer"]`, "USER 65532:65532", "LABEL " + labelBench + "=" + run},
	})
	if err != nil {
		return "", fmt.Errorf("import the peer's image: %w", err)
	}
	_, err = io.Copy(io.Discard, progress)
	return ref, errors.Join(err, progress.Close())
}

func (e *engine) dropImage(ctx context.Context, ref string) error {
	if ref == "" {
		return nil
	}
	_, err := e.ImageRemove(ctx, ref, client.ImageRemoveOptions{Force: true, PruneChildren: true})
	return ignoreGone(err)
}

// kill kills a container that has AutoRemove set, and waits until it is removed.
func (e *engine) kill(ctx context.Context, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wait := e.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	if _, err := e.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "KILL"}); err != nil && !errdefs.IsConflict(err) { // it has already exited
		return ignoreGone(err)
	}
	select {
	case <-wait.Result:
		return nil
	case err := <-wait.Error:
		return ignoreGone(err)
	}
}

// objects returns the names of all objects that have a label.
func (e *engine) objects(ctx context.Context, label string) ([]string, error) {
	with := client.Filters{}.Add("label", label)
	var all []string
	containers, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: with})
	if err != nil {
		return nil, err
	}
	for _, c := range containers.Items {
		all = append(all, "container "+strings.Join(c.Names, " "))
	}
	networks, err := e.NetworkList(ctx, client.NetworkListOptions{Filters: with})
	if err != nil {
		return nil, err
	}
	for _, n := range networks.Items {
		all = append(all, "network "+n.Name)
	}
	volumes, err := e.VolumeList(ctx, client.VolumeListOptions{Filters: with})
	if err != nil {
		return nil, err
	}
	for _, v := range volumes.Items {
		all = append(all, "volume "+v.Name)
	}
	return all, nil
}

// sweep removes the containers and networks with a label, which an interrupted floor left.
func (e *engine) sweep(ctx context.Context, label string) error {
	with := client.Filters{}.Add("label", label)
	containers, err := e.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: with})
	errs := []error{err}
	for _, c := range containers.Items {
		errs = append(errs, e.remove(ctx, c.ID))
	}
	networks, err := e.NetworkList(ctx, client.NetworkListOptions{Filters: with})
	errs = append(errs, err)
	for _, n := range networks.Items {
		_, err := e.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
		errs = append(errs, ignoreGone(err))
	}
	return errors.Join(errs...)
}

// remove forcibly removes a container and waits until it is removed.
func (e *engine) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := e.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if !errdefs.IsConflict(err) {
		return ignoreGone(err)
	}
	wait := e.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved}) // removal is in progress
	select {
	case <-wait.Result:
		return nil
	case err := <-wait.Error:
		return ignoreGone(err)
	}
}

func ignoreGone(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
