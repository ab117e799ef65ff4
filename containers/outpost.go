package containers

import (
	"context"
	"fmt"

	"github.com/waza-isolate/waza/runner"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// outpost is a container of ours on the network of the engine's host.
type outpost struct {
	engine *engine
	box    *box
}

// Outpost implements runner.Scout. The container has the walls of every other but
// for its network, and nothing foreign runs in it.
func (b *Backend) Outpost(ctx context.Context) (runner.Outpost, error) {
	c := planContainer(boxRequest{
		run: b.run, trial: wholeRun, box: roleOutpost, role: roleOutpost, name: "waza-" + b.run + "-" + roleOutpost,
		limits: sandbox.RelayLimits(), image: b.guest, mode: "none", scene: scene{user: b.engine.userRange().lease},
	})
	c.host.NetworkMode = "host"
	c.host.Sysctls = nil       // they would be the host's
	c.host.UsernsMode = "host" // else the engine refuses where it maps users
	c.host.DNS, c.host.DNSSearch, c.host.DNSOptions = nil, nil, nil
	started, err := b.engine.startBox(ctx, c, "")
	if err != nil {
		return nil, fmt.Errorf("outpost: %w", err)
	}
	return &outpost{b.engine, started}, nil
}

// Start implements runner.Outpost.
func (o *outpost) Start(ctx context.Context, p process.Spec) (process.Process, error) {
	return o.box.guest.Exec(ctx, p, false)
}

// Close implements runner.Outpost.
func (o *outpost) Close(ctx context.Context) error { return o.box.close(ctx, o.engine) }
