package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/runner"
)

// onFlag says where containers run.
func onFlag() cli.Flag {
	return &cli.StringFlag{Name: "on", Usage: "Run containers on `BACKEND`: docker, or kubernetes (experimental)", DefaultText: "docker"}
}

// clusterFlags say which namespace of which cluster a command is about.
func clusterFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "context", Usage: "With --on kubernetes, use `CONTEXT` of KUBECONFIG"},
		&cli.StringFlag{Name: "namespace", Usage: "With --on kubernetes, use namespace `NAME`", DefaultText: "waza"},
	}
}

func clusterOf(c *cli.Context) eval.Kubernetes {
	return eval.Kubernetes{Context: c.String("context"), Namespace: c.String("namespace")}
}

// onOf returns the backend that the command line names; empty for Docker's.
func onOf(c *cli.Context) string {
	if on := c.String("on"); on != "docker" {
		return on
	}
	return ""
}

// readOn returns the backend that the command line names. Where that is not part of this
// executable, the one that has it takes this process over.
func readOn(s *state, c *cli.Context) (string, error) {
	switch on := onOf(c); on {
	case "":
		for _, name := range []string{"context", "namespace", "print", "remove-interface"} {
			if c.IsSet(name) {
				return "", usage("--%s is for --on kubernetes", name)
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

// goOn hands over where a run was on a backend that is not part of this executable.
func goOn(s *state, r runner.Record) error {
	if r.On == eval.OnKubernetes && !hasCluster {
		return handOver(s)
	}
	return nil
}

// clusterExecutable is waza with the backend for Kubernetes, whose client library is no part of
// the executable that is process 1 of containers.
const clusterExecutable = "waza-kubernetes"

// handOver replaces this process by the executable with the backend for Kubernetes: the one beside
// this one, or on PATH. It must be of the same version. It returns only if it fails.
func handOver(s *state) error {
	const get = "build it from the same source: go build -tags kubernetes -o waza-kubernetes ./cmd/waza"
	self, err := os.Executable()
	if err != nil {
		return err
	}
	path := filepath.Join(filepath.Dir(self), clusterExecutable)
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(clusterExecutable); err != nil {
			return usage("--on kubernetes needs %s beside waza or on PATH; %s", clusterExecutable, get)
		}
	}
	said, err := exec.Command(path, "version").Output()
	if theirs := strings.TrimSpace(strings.TrimPrefix(string(said), "waza ")); err != nil || theirs != s.version {
		return usage("%s is of version %s and this is %s; %s", path, cmp.Or(theirs, "unknown"), s.version, get)
	}
	if err := syscall.Exec(path, append([]string{clusterExecutable}, s.args[1:]...), os.Environ()); err != nil {
		return errors.Join(fmt.Errorf("start %s", path), err)
	}
	return nil
}
