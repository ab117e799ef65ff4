package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// defaultReady is how long a service may take until it is ready.
const defaultReady = 60 * time.Second

// Service is what a server needs beside it, and its container. What its variables stand
// for goes to the service alone.
type Service struct {
	sandbox.Container
	Name     string   `json:"name"`
	Ports    []int    `json:"ports"`              // of its container, on loopback
	Writable []string `json:"writable,omitempty"` // directories, beside scratch and home
	Files    []File   `json:"files,omitempty"`    // by absolute path
	Ready    Ready    `json:"ready"`

	// Expanded is what the service is started with. It holds values of variables.
	Expanded mcpconfig.Service `json:"-"`
	declared mcpconfig.Service
}

// Ready is how a service is seen to be ready: by its image's own health check, or
// else by a command.
type Ready struct {
	Health  bool          `json:"health"`
	Timeout time.Duration `json:"timeout_ns"`
}

func planServices(e *eval.Eval, config, declared mcpconfig.Server, pull string) ([]Service, error) {
	var services []Service
	for _, name := range slices.Sorted(maps.Keys(config.Services)) {
		s, err := planService(e, name, *config.Services[name], pull)
		if err != nil {
			return nil, fmt.Errorf("service %q: %w", name, err)
		}
		s.declared = *declared.Services[name]
		services = append(services, s)
	}
	return services, nil
}

func planService(e *eval.Eval, name string, config mcpconfig.Service, pull string) (Service, error) {
	container, err := sized(sandbox.Container{
		Image: config.Image, User: config.User, Pull: pull, Memory: defaultServerMemory, Disk: defaultServerDisk,
	}, size{config.CPUs, config.Pids, config.OpenFiles, config.Memory, config.Disk, config.Scratch})
	if err != nil {
		return Service{}, err
	}
	s := Service{
		Container: container, Name: name, Ports: config.Ports, Expanded: config,
		Ready: Ready{Health: config.Ready.Health, Timeout: cmp.Or(seconds(config.Ready.Timeout), defaultReady)},
	}
	if s.Files, err = filesOf(e, config.Files); err != nil {
		return s, err
	}
	s.Writable = outermost(append(dirsOf(s.Files), config.Writable...))
	for _, dir := range s.Writable {
		if mcpconfig.ReservedDir(dir) {
			return s, fmt.Errorf("%s of its container cannot be made writable; choose a directory of its own, such as /data", dir)
		}
	}
	return s, nil
}

// Process is the service's program.
func (s Service) Process(home string) process.Spec {
	of := s.Expanded
	return serverProcess(mcpconfig.Server{Command: of.Command, Args: of.Args, Env: of.Env}, home)
}

// Check is the program that says whether the service is ready. It has no Args where the
// image's health check is asked instead.
func (s Service) Check(home string) process.Spec {
	check := s.Process(home)
	check.Args = s.Expanded.Ready.Exec
	return check
}
