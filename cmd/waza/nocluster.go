//go:build !kubernetes

package main

import (
	"context"
	"errors"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/kube"
)

const hasCluster = false

var errNoCluster = errors.New("this executable has no backend for Kubernetes; use waza-kubernetes")

func settleCluster(k kube.Settings) (kube.Settings, error) { return k, errNoCluster }
func openCluster(context.Context, *state, runner.Opening) (sandbox.Backend, error) {
	return nil, errNoCluster
}
func sweepCluster(context.Context, runner.Record) error              { return errNoCluster }
func gcCluster(context.Context, *state, kube.Settings, format) error { return errNoCluster }
func examineCluster(context.Context, kube.Settings) sandbox.Checks   { return nil }
func clusterManifests(kube.Settings) (string, error)                 { return "", errNoCluster }
