package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox/kube"
)

// onFlag returns the flag for the backend that runs containers.
func onFlag() cli.Flag {
	return &cli.StringFlag{Name: "on", Usage: "Run containers on `BACKEND`: docker, or kubernetes (experimental)", DefaultText: "docker"}
}

// clusterFlags returns the flags that select a cluster's context and namespace.
func clusterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "context", Usage: "With --on kubernetes, use `CONTEXT` of KUBECONFIG"},
		&cli.StringFlag{Name: "namespace", Usage: "With --on kubernetes, use namespace `NAME`", DefaultText: "waza"},
	}
}

func clusterOf(c *cli.Command) kube.Settings {
	return kube.Settings{Context: c.String("context"), Namespace: c.String("namespace")}
}

// onOf returns the backend of --on, or "" for Docker.
func onOf(c *cli.Command) string {
	if on := c.String("on"); on != "docker" {
		return on
	}
	return ""
}

// readOn returns the backend of --on, or "" for Docker. If this executable does not contain the
// backend, it is replaced by one that does.
func readOn(s *state, c *cli.Command) (string, error) {
	switch on := onOf(c); on {
	case "":
		for _, name := range []string{"context", "namespace", "print", "remove-interface"} {
			if c.IsSet(name) {
				return "", usage("--%[1]s is for --on kubernetes; add that, or leave --%[1]s out", name)
			}
		}
		return "", nil
	case eval.OnKubernetes:
		if hasCluster {
			return on, nil
		}
		return on, handOver(s)
	default:
		return on, usage("--on must be docker or kubernetes, not %q", on)
	}
}

// handOverFor replaces this process if a run's backend is not part of this executable.
func handOverFor(s *state, r runner.Record) error {
	if r.On == eval.OnKubernetes && !hasCluster {
		return handOver(s)
	}
	return nil
}

// clusterExecutable is waza with the Kubernetes backend. It is separate to keep Kubernetes'
// client library out of the executable that becomes process 1 of containers.
const clusterExecutable = "waza-kubernetes"

// handOver replaces this process by [clusterExecutable], from the directory of this executable
// or from PATH. Its version must be the same. handOver returns only on failure.
func handOver(s *state) error {
	const get = "build it from the same source: go build -tags kubernetes -o waza-kubernetes ./cmd/waza"
	path := clusterExecutable
	if self, err := os.Executable(); err == nil {
		path = filepath.Join(filepath.Dir(self), clusterExecutable)
	}
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(clusterExecutable); err != nil {
			return usage("--on kubernetes needs %s next to the waza executable or in PATH; %s", clusterExecutable, get)
		}
	}
	said, err := exec.Command(path, "version").Output()
	if theirs := strings.TrimSpace(strings.TrimPrefix(string(said), "waza ")); err != nil || theirs != s.version {
		return usage("%s is of version %s and this is %s; %s", path, cmp.Or(theirs, "unknown"), s.version, get)
	}
	if err := become(path, append([]string{clusterExecutable}, s.args[1:]...)); err != nil {
		return errors.Join(fmt.Errorf("start %s", path), err)
	}
	return nil
}
