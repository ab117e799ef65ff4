package containers

import (
	"context"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/sandbox"
)

// oneNetwork puts the agents of all trials onto the network of the first.
func oneNetwork() func(*trialPlan, []containerPlan, addresses) {
	var mu sync.Mutex
	var first string
	var next netip.Addr
	return func(p *trialPlan, placed []containerPlan, a addresses) {
		mu.Lock()
		defer mu.Unlock()
		if first == "" {
			first, next = p.network, a.agent().Next()
			return
		}
		p.network = first
		for i := range placed {
			if placed[i].addr.IsValid() {
				placed[i].addr, next = next, next.Next()
				placed[i].host.NetworkMode = container.NetworkMode(first)
			}
		}
	}
}

// hostHasLinkAddress waits until the host has its IPv6 address of the link on a sandbox's
// network. The kernel gives it one up to some seconds after the first container is there.
func hostHasLinkAddress(ctx context.Context, s *trialSandbox) error {
	n, err := s.backend.engine.NetworkInspect(ctx, s.plan.network, client.NetworkInspectOptions{})
	if err != nil {
		return err
	}
	for bridge := "br-" + n.Network.ID[:12]; ; {
		table, err := os.ReadFile("/proc/net/if_inet6") // address, index, prefix, scope, flags, name
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(table)) {
			if fields := strings.Fields(line); len(fields) == 6 && fields[5] == bridge && fields[4] == "80" {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// serversOnNetwork puts servers where the agent is.
func serversOnNetwork(p *trialPlan, placed []containerPlan, a addresses) {
	next := a.agent().Next()
	for i, c := range placed {
		if c.Name != sandbox.Agent {
			placed[i].addr, next = next, next.Next()
			placed[i].host.NetworkMode = container.NetworkMode(p.network)
			placed[i].host.SecurityOpt = placed[0].host.SecurityOpt // the agent's, which is for a bridge
		}
	}
}

// bind mounts a directory of the host, for writing.
func bind(path string) func(*containerPlan) {
	return func(c *containerPlan) {
		c.host.Mounts = append(c.host.Mounts, mount.Mount{Type: mount.TypeBind, Source: path, Target: path})
	}
}

// enginePort listens where an engine would.
func enginePort(ctx context.Context, s *trialSandbox) error {
	_, err := s.containers[sandbox.Agent].Guest.Listen(ctx, "127.0.0.1:2375")
	return err
}

// engineSocket mounts the engine's own socket.
func engineSocket(t *testing.T) func(*containerPlan) {
	t.Helper()
	const path = "/var/run/docker.sock"
	info, err := os.Stat(path)
	if err != nil {
		t.Fatalf("this test needs an engine on this machine: %v", err)
	}
	group := strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Gid))
	return func(c *containerPlan) {
		c.host.Mounts = append(c.host.Mounts, mount.Mount{Type: mount.TypeBind, Source: path, Target: path})
		c.host.GroupAdd = []string{group}
	}
}
