package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	spec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/log"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// checkTimeout is the timeout if the caller's context has none.
	checkTimeout = time.Minute
)

// librarySettings is held while the process's settings are changed for testcontainers.
var librarySettings sync.Mutex

// silence keeps testcontainers from printing a description of the engine to stderr.
var silence = sync.OnceFunc(func() { log.SetDefault(log.NewNoopLogger()) })

// newLibrary creates testcontainers with our connection to the engine. It only creates and ends
// containers.
func newLibrary(e *engine) (_ *testcontainers.DockerProvider, err error) {
	librarySettings.Lock()
	defer librarySettings.Unlock()
	silence()
	// Its reaper needs the engine's socket in a container, and our containers end with the
	// runner.
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return nil, err
	}
	// It looks for an engine before one can be set, and panics if there is none.
	before, set := os.LookupEnv(client.EnvOverrideHost)
	if err := os.Setenv(client.EnvOverrideHost, e.DaemonHost()); err != nil {
		return nil, err
	}
	defer func() {
		if set {
			_ = os.Setenv(client.EnvOverrideHost, before)
		} else {
			_ = os.Unsetenv(client.EnvOverrideHost)
		}
		if reason := recover(); reason != nil {
			err = fmt.Errorf("testcontainers finds no engine: %v", reason)
		}
	}()
	provider, err := testcontainers.NewDockerProvider(testcontainers.WithDefaultBridgeNetwork(testcontainers.Bridge))
	if err != nil {
		return nil, fmt.Errorf("testcontainers: %w", err)
	}
	provider.SetClient(plannedClient{e})
	return provider, nil
}

// plannedClient is our connection to the engine as testcontainers gets it. Decisions of
// testcontainers are overridden by the plan, and Close does not close the connection.
type plannedClient struct{ *engine }

// ImageInspect reports that every image exists and has no ports to publish.
func (plannedClient) ImageInspect(context.Context, string, ...client.ImageInspectOption) (client.ImageInspectResult, error) {
	return client.ImageInspectResult{InspectResponse: image.InspectResponse{Config: &spec.DockerOCIImageConfig{}}}, nil
}

// NetworkList reports the network that testcontainers would create.
func (plannedClient) NetworkList(context.Context, client.NetworkListOptions) (client.NetworkListResult, error) {
	return client.NetworkListResult{Items: []network.Summary{{Network: network.Network{Name: testcontainers.Bridge}}}}, nil
}

// Close does nothing: the run still uses the connection.
func (plannedClient) Close() error { return nil }

// startService starts the container of a service through testcontainers, in the order of
// [starter.start]. If it fails after the container was created, c.id is set.
func (s *starter) startService(ctx context.Context, p containerPlan, c *startedContainer) error {
	library, err := s.library()
	if err != nil {
		return err
	}
	hooks := testcontainers.ContainerLifecycleHooks{
		PostCreates: []testcontainers.ContainerHook{func(ctx context.Context, made testcontainers.Container) error {
			c.id = made.GetContainerID()
			return c.attach(ctx, s.watch)
		}},
		PostStarts: []testcontainers.ContainerHook{func(ctx context.Context, _ testcontainers.Container) error {
			return c.connect(ctx)
		}},
		PreStops: []testcontainers.ContainerHook{func(context.Context, testcontainers.Container) error {
			c.waitRemoved()
			return nil
		}},
	}
	create, done := creating(ctx)
	defer done()
	c.service, err = library.CreateContainer(create, testcontainers.ContainerRequest{
		Image: p.conf.Image, Name: p.engineName,
		ConfigModifier:     func(conf *container.Config) { *conf = p.conf },
		HostConfigModifier: func(host *container.HostConfig) { *host = p.host },
		LifecycleHooks:     []testcontainers.ContainerLifecycleHooks{hooks},
	})
	if err != nil {
		return fmt.Errorf("create %s: %w", p.engineName, err)
	}
	if err := c.service.Start(ctx); err != nil {
		return fmt.Errorf("start %s: %w%s", p.engineName, err, c.Stderr.Suffix())
	}
	return nil
}

// awaitReady waits with testcontainers for the check; by default, for the image's health check.
func (c *startedContainer) awaitReady(ctx context.Context, check process.Spec, failed func(string)) error {
	left := checkTimeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	check, err := c.plan.image.CheckOf(check)
	if err != nil {
		return err
	}
	target := &target{Container: c.service, guest: c.Guest, check: check, failed: failed}
	err = wait.ForExec(check.Args).WithStartupTimeout(left).WaitUntilReady(ctx, target)
	switch {
	case err == nil:
		return nil
	case target.found != "" && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return errors.New(target.found)
	case target.found != "":
		return fmt.Errorf("%w; %s", err, target.found)
	}
	return err
}

// target is a service as testcontainers waits for it. Checks are run by the guest in the
// service's container, with the service's environment, and end with their context.
type target struct {
	testcontainers.Container
	guest  *guest.Guest
	check  process.Spec
	failed func(string)
	found  string // result of the last check; empty before one has ended
}

// Exec implements wait.StrategyTarget.
func (t *target) Exec(ctx context.Context, args []string, _ ...tcexec.ProcessOption) (int, io.Reader, error) {
	spec := t.check
	spec.Args = args
	checked, err := guests.Check(ctx, t.guest, spec)
	if err == nil || t.found == "" { // otherwise the previous result is more useful
		t.found = checked.Found
	}
	if err != nil {
		return 0, nil, err
	}
	if !checked.Ready() {
		t.failed(checked.Found)
	}
	return checked.Code, strings.NewReader(checked.Output), nil
}
