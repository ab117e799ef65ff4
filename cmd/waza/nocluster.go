//go:build !kubernetes

package main

import (
	"context"
	"errors"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/runner"
)

const hasCluster = false

var errNoCluster = errors.New("this executable has no backend for Kubernetes; use waza-kubernetes")

func openCluster(context.Context, *state, runner.Opening) (runner.Backend, error) {
	return nil, errNoCluster
}
func runShardsOnCluster(context.Context, *state, *runner.Job, map[string]string) ([]error, error) {
	return nil, errNoCluster
}
func sweepCluster(context.Context, runner.Record) error                       { return errNoCluster }
func gcCluster(context.Context, *state, eval.Kubernetes) error                { return errNoCluster }
func examineCluster(context.Context, eval.Kubernetes, bool) containers.Checks { return nil }
func clusterManifests(eval.Kubernetes, bool) (string, error)                  { return "", errNoCluster }
func runShard(*state) error                                                   { return errNoCluster }
