package containers

import (
	"context"
	"fmt"

	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// hostProbe is a container of ours on the network of the engine's host.
type hostProbe struct {
	engine    *engine
	container *startedContainer
}

const (
	hostProbeMemory = 128 << 20
	hostProbePids   = 64
)

// HostProbe implements sandbox.HostProber. The container has the walls of every other but
// for its network, and nothing foreign runs in it.
func (b *Backend) HostProbe(ctx context.Context) (sandbox.HostProbe, error) {
	c := planContainer(containerRequest{
		run: b.run, trial: wholeRun, container: roleHostProbe, role: roleHostProbe, name: "waza-" + b.run + "-" + roleHostProbe,
		limits: sandbox.Container{CPUs: 1, Memory: hostProbeMemory, Pids: hostProbePids}, image: b.guest, mode: "none", scene: scene{user: b.engine.userRange().lease},
	})
	c.host.NetworkMode = "host"
	c.host.Sysctls = nil       // they would be the host's
	c.host.UsernsMode = "host" // else the engine refuses where it maps users
	c.host.DNS, c.host.DNSSearch, c.host.DNSOptions = nil, nil, nil
	started, err := b.engine.startContainer(ctx, c, "")
	if err != nil {
		return nil, fmt.Errorf("host probe: %w", err)
	}
	return &hostProbe{b.engine, started}, nil
}

// Start implements sandbox.HostProbe.
func (o *hostProbe) Start(ctx context.Context, p process.Spec) (process.Process, error) {
	return o.container.guest.Exec(ctx, p, false)
}

// Close implements sandbox.HostProbe.
func (o *hostProbe) Close(ctx context.Context) error { return o.container.close(ctx, o.engine) }
