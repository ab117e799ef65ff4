package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/netip"
	"os"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	spec "github.com/moby/docker-image-spec/specs-go/v1"
	"github.com/testcontainers/testcontainers-go"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox/guest"
)

// serviceAddr is where a server's container has its i-th service: on loopback,
// where its own guest takes connections in.
func serviceAddr(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 2, byte(i + 1)}) }

// serviceAddresses are the services that a container reaches, by name: those of the
// server that lives there.
func serviceAddresses(t *plan.Trial, ctr string) map[string]netip.Addr {
	addresses := map[string]netip.Addr{}
	for _, server := range t.Servers {
		if server.Name == ctr {
			for i, service := range server.Services {
				addresses[service.Name] = serviceAddr(i)
			}
		}
	}
	return addresses
}

// asService makes of a server's container a service's.
func asService(c containerPlan, run string, s plan.Service) containerPlan {
	c.service = true
	c.conf.Labels = maps.Clone(c.conf.Labels)
	c.conf.Labels[labelSession] = run
	for _, dir := range s.Writable {
		c.host.Tmpfs[dir] = tmpfsOptions(c.conf.User, s.Disk)
	}
	if s.Ready.Health {
		c.conf.Healthcheck = nil // the image's own
	}
	return c
}

// newLibrary sets testcontainers up on our connection to the engine, without what
// it would do beside creating and ending containers.
func newLibrary(e *engine) (_ *testcontainers.DockerProvider, err error) {
	// Its reaper needs the engine's socket in a container. Ours end with the runner.
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return nil, err
	}
	// It looks for an engine itself, before it can be given one, and panics where it
	// finds none.
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
	provider.Logger = log.New(io.Discard, "", 0)
	provider.SetClient(decided{e})
	return provider, nil
}

// decided is our connection to the engine as testcontainers gets it: what it would
// decide by itself is in the plan, and it stays open when testcontainers is done.
type decided struct{ *engine }

// ImageInspect says that every image is there, and that none has ports to publish.
func (decided) ImageInspect(context.Context, string, ...client.ImageInspectOption) (image.InspectResponse, error) {
	return image.InspectResponse{Config: &spec.DockerOCIImageConfig{}}, nil
}

// NetworkList says that there is the network that testcontainers would make.
func (decided) NetworkList(context.Context, network.ListOptions) ([]network.Summary, error) {
	return []network.Summary{{Name: testcontainers.Bridge}}, nil
}

// Close does nothing: the connection is the whole run's.
func (decided) Close() error { return nil }

// startService is startContainer through testcontainers, in the same order. On error
// nothing is left.
func (b *Backend) startService(ctx context.Context, c containerPlan) (_ *startedContainer, err error) {
	library, err := b.library()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &startedContainer{image: c.image, stderr: &bounded.Ends{Tail: tailSize}}
	var attached types.HijackedResponse
	defer func() {
		if err == nil {
			return
		}
		if attached.Conn != nil && s.guest == nil {
			attached.Close()
		}
		if s.service != nil {
			err = errors.Join(err, s.close(context.WithoutCancel(ctx), b.engine))
		}
	}()
	hooks := testcontainers.ContainerLifecycleHooks{
		PostCreates: []testcontainers.ContainerHook{func(ctx context.Context, made testcontainers.Container) (err error) {
			s.id = made.GetContainerID()
			s.followed = b.engine.watch.follow(s.id)
			attached, err = b.engine.ContainerAttach(ctx, s.id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
			if err == nil {
				s.removed, s.cancel = b.engine.awaitRemoval(context.WithoutCancel(ctx), s.id)
			}
			return err
		}},
		PostStarts: []testcontainers.ContainerHook{func(ctx context.Context, _ testcontainers.Container) (err error) {
			s.guest, err = guest.Connect(ctx, newPipe(attached.Conn, attached.Reader, s.stderr))
			return err
		}},
		PreStops: []testcontainers.ContainerHook{func(context.Context, testcontainers.Container) error {
			s.leave()
			return nil
		}},
	}
	create, done := creating(ctx)
	defer done()
	s.service, err = library.CreateContainer(create, testcontainers.ContainerRequest{
		Image: c.conf.Image, Name: c.name,
		ConfigModifier:     func(conf *container.Config) { *conf = c.conf },
		HostConfigModifier: func(host *container.HostConfig) { *host = c.host },
		LifecycleHooks:     []testcontainers.ContainerLifecycleHooks{hooks},
	})
	if err != nil {
		return nil, fmt.Errorf("create %s: %w", c.name, err)
	}
	if err := s.service.Start(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w%s", c.name, err, behind(s.stderr))
	}
	return s, nil
}
