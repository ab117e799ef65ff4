package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/process"
	"github.com/waza-isolate/waza/runner/spec"
)

// defaultReady is how long a service may take until it is ready.
const defaultReady = 60 * time.Second

// Service is what a server needs beside it, and its box. What its variables stand
// for goes to the service alone.
type Service struct {
	Box
	Name     string   `json:"name"`
	Ports    []int    `json:"ports"`              // of its box, on loopback
	Writable []string `json:"writable,omitempty"` // directories, beside scratch and home
	Files    []File   `json:"files,omitempty"`    // by absolute path
	Ready    Ready    `json:"ready"`

	declared, expanded mcpconfig.Service
}

// Ready is how a service is seen to be ready: by its image's own health check, or
// else by a command.
type Ready struct {
	Health  bool          `json:"health"`
	Timeout time.Duration `json:"timeout_ns"`
}

// ServiceBox is the box of a server's service, as [Sandbox.Start] and its kin name
// it.
func ServiceBox(server, service string) string { return server + "/" + service }

// ServiceSandbox is a Sandbox whose servers may have services.
type ServiceSandbox interface {
	Sandbox
	// Ready returns once a service is ready: when check, started in the service's
	// box again and again, has exited with 0, or where it has no Args when the
	// image's own health check says so. From then on the service's server reaches
	// it under its name, and nothing else does. It ends with ctx; its error says
	// what the last check found.
	Ready(ctx context.Context, server, service string, check process.Spec) error
}

func planServices(eval *spec.Eval, config, declared mcpconfig.Server) ([]Service, error) {
	var services []Service
	for _, name := range slices.Sorted(maps.Keys(config.Services)) {
		s, err := planService(eval, name, *config.Services[name])
		if err != nil {
			return nil, fmt.Errorf("service %q: %w", name, err)
		}
		s.declared = *declared.Services[name]
		services = append(services, s)
	}
	return services, nil
}

func planService(eval *spec.Eval, name string, config mcpconfig.Service) (Service, error) {
	box, err := sized(Box{
		Image: config.Image, User: config.User,
		CPUs: cmp.Or(config.CPUs, defaultCPUs), Pids: int64(cmp.Or(config.Pids, defaultPids)),
		Memory: defaultServerMemory, Disk: defaultServerDisk,
	}, config.Memory, config.Disk)
	if err != nil {
		return Service{}, err
	}
	s := Service{
		Box: box, Name: name, Ports: config.Ports, expanded: config,
		Ready: Ready{Health: config.Ready.Health, Timeout: cmp.Or(seconds(config.Ready.Timeout), defaultReady)},
	}
	sources, err := spec.Sources(eval, config.Files)
	if err != nil {
		return s, err
	}
	for _, target := range slices.Sorted(maps.Keys(sources)) {
		source := sources[target]
		s.Files = append(s.Files, File{spec.WorkspaceFile{Path: target, Source: &source}})
	}
	s.Writable = outermost(append(dirsOf(s.Files), config.Writable...))
	for _, dir := range s.Writable {
		if reserved(dir) {
			return s, fmt.Errorf("%s of its container cannot be made writable; choose a directory of its own, such as /data", dir)
		}
	}
	return s, nil
}

// startServices starts what servers need beside them, all of it together, and
// returns when each is ready.
func (tr *trialRun) startServices(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, server := range tr.plan.Servers {
		for _, service := range server.Services {
			a, err := tr.openService(server.Name, service)
			if err != nil {
				return errors.Join(err, group.Wait())
			}
			group.Go(func() error {
				if err := tr.startService(ctx, a); err != nil {
					return fmt.Errorf("service %q of server %q %w", service.Name, server.Name, err)
				}
				return nil
			})
		}
	}
	return group.Wait()
}

// auxiliary is a service under way: what it says is kept, and its end is told.
type auxiliary struct {
	server         string
	plan           Service
	stdout, stderr *excerpt
}

func (a *auxiliary) box() string { return ServiceBox(a.server, a.plan.Name) }

// openService makes the files of a service's outputs.
func (tr *trialRun) openService(server string, s Service) (*auxiliary, error) {
	a := &auxiliary{server: server, plan: s}
	for name, output := range map[string]**excerpt{"stdout": &a.stdout, "stderr": &a.stderr} {
		file, err := tr.rec.ServiceLog(server, s.Name, name)
		if err != nil {
			return nil, err
		}
		tr.logs = append(tr.logs, file)
		var out io.Writer = file
		if tr.run.o.ServerLog != nil {
			out = io.MultiWriter(file, tr.run.o.ServerLog(tr.plan, a.box()))
		}
		*output = newExcerpt(out, maxServiceOutput, func() {
			message := fmt.Sprintf("only the first %d bytes of %s are kept", maxServiceOutput, name)
			tr.rec.Event(evidence.Event{Kind: "limit", Where: a.box(), Message: message})
		})
	}
	return a, nil
}

// startService starts one service and waits until it is ready.
func (tr *trialRun) startService(ctx context.Context, a *auxiliary) error {
	sandbox, ok := tr.sandbox.(ServiceSandbox)
	if !ok {
		return errors.New("cannot be run by this backend; run with --isolate")
	}
	if err := tr.put(ctx, a.box(), "/", a.plan.Files); err != nil {
		return fmt.Errorf("did not get its files: %w", err)
	}
	home := sandbox.Layout(a.box()).Home
	program, check := serviceProcess(a.plan.expanded, home), checkProcess(a.plan.expanded, home)
	running, err := sandbox.Start(ctx, a.box(), program)
	if err != nil {
		return fmt.Errorf("did not start: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tr.attendService(a, running, cancel)
	limit := a.plan.Ready.Timeout
	waiting, stop := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%v have passed", limit))
	defer stop()
	err = sandbox.Ready(waiting, a.server, a.plan.Name, check)
	switch ended, late := context.Cause(ctx), context.Cause(waiting); {
	case err == nil:
		return nil
	case ended != nil: // and then no check succeeds
		return fmt.Errorf("is not ready: %w%s", ended, a.lastWords())
	case late != nil:
		return fmt.Errorf("is not ready: %w: %v%s", late, err, a.lastWords())
	}
	return fmt.Errorf("is not ready: %w%s", err, a.lastWords())
}

// attendService keeps what a service says, and tells its end unless that is ours.
// The service, and so this, lasts no longer than its sandbox.
func (tr *trialRun) attendService(a *auxiliary, p process.Process, ended context.CancelCauseFunc) {
	tr.services.attended.Go(func() {
		_ = p.Stdin().Close()
		var streams sync.WaitGroup
		streams.Go(func() { _, _ = io.Copy(a.stdout, p.Stdout()) })
		streams.Go(func() { _, _ = io.Copy(a.stderr, p.Stderr()) })
		exit, err := p.Wait()
		streams.Wait()
		how := ending(exit, err)
		ended(errors.New("it " + how))
		if !tr.services.leaving.Load() {
			tr.rec.Event(evidence.Event{Kind: "service_exit", Where: a.box(), Message: how})
		}
	})
}

func ending(exit process.Exit, err error) string {
	switch {
	case err != nil:
		return "is lost: " + err.Error()
	case exit.Signal != "":
		return "was ended by " + exit.Signal
	}
	return fmt.Sprintf("exited with code %d", exit.Code)
}

func serviceProcess(s mcpconfig.Service, home string) process.Spec {
	return serverProcess(mcpconfig.Server{Command: s.Command, Args: s.Args, Env: s.Env}, home)
}

// checkProcess has no Args where the image's health check is asked instead.
func checkProcess(s mcpconfig.Service, home string) process.Spec {
	check := serviceProcess(s, home)
	check.Args = s.Ready.Exec
	return check
}

// lastWords is the end of a service's output, as a sentence of its own.
func (a *auxiliary) lastWords() string {
	words := strings.TrimSpace(strings.TrimSpace(a.stdout.end()) + "\n" + strings.TrimSpace(a.stderr.end()))
	if words == "" {
		return "; it wrote nothing"
	}
	return "; its output ends:\n" + words
}

// services is what a trial knows of all its services.
type services struct {
	attended sync.WaitGroup
	leaving  atomic.Bool // the sandbox is being closed
}
