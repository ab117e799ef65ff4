package containers

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/guests"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/selftest"
)

// weakened opens sandboxes that lack walls, and does not look whether they are
// there.
type weakened struct {
	*Backend
	user      string                             // who runs in the containers; empty for the usual
	network   func(*client.NetworkCreateOptions) // nil for the usual
	container func(*containerPlan)               // of the agent and servers; nil for the usual
	place     func(*trialPlan, []containerPlan, addresses)
	worldly   bool
	settled   func(context.Context, *trialSandbox) error
}

func (w *weakened) Open(ctx context.Context, t *sandbox.Spec, observe func(evidence.Event)) (_ sandbox.Sandbox, err error) {
	held := w.lease.current()
	input, err := w.planInputOf(ctx, held, t)
	if err != nil {
		return nil, err
	}
	if w.user != "" {
		input.user = func() string { return w.user }
	}
	p := planTrial(t, input)
	s := w.newSandbox(held, t, p, observe)
	defer func() {
		if err != nil {
			_ = s.Close(context.WithoutCancel(ctx))
		}
	}()
	a, release, err := w.makeNetwork(ctx, p)
	if err != nil {
		return nil, err
	}
	s.network.release, s.Servers = release, p.serversAt(a)
	var placed []containerPlan
	for _, c := range p.containers {
		placed = append(placed, p.withAddress(c, t, a))
	}
	if w.place != nil {
		w.place(&p, placed, a)
	}
	for _, c := range placed {
		if c.addr.IsValid() && c.Name == sandbox.Agent {
			s.Servers = c.addr
		}
		if w.container != nil {
			w.container(&c)
		}
		if c, err = s.withFiles(ctx, c); err != nil {
			return nil, err
		}
		started, err := w.start(ctx, c, p.network)
		if err != nil {
			return nil, err
		}
		s.add(started)
		if err := w.resolve(ctx, s.containers[c.Name].Guest, guests.Names(t, c.Name, s.Servers)); err != nil {
			return nil, err
		}
	}
	if w.settled != nil {
		return s, w.settled(ctx, s)
	}
	return s, nil
}

func (w *weakened) resolve(ctx context.Context, g *guest.Guest, names map[string][]netip.Addr) error {
	if w.worldly { // it resolves a name that is not of the trial
		names["host.docker.internal"] = []netip.Addr{netip.MustParseAddr("192.0.2.123")}
	}
	return g.Resolve(ctx, names, func(guest.Question) {})
}

func (w *weakened) makeNetwork(ctx context.Context, p trialPlan) (_ addresses, release func(), err error) {
	if p.network == "" {
		return addresses{}, nil, nil
	}
	if w.network == nil {
		return w.networks.create(ctx, p.network, p.trial, "")
	}
	from, err := parseRange("")
	if err != nil {
		return addresses{}, nil, err
	}
	for range 10 {
		a, _ := w.networks.subnets.take(from, nil)
		options := networkOptions(a, labels(w.run, p.trial, roleNetwork))
		w.network(&options)
		if err = w.engine.createNetwork(ctx, p.network, options); err == nil {
			return addresses{options.IPAM.Config[0].Subnet}, nil, nil
		}
	}
	return addresses{}, nil, err
}

// weakness is a sandbox with walls taken out, several at once where no attack is held by two of them,
// and what gets out of it then.
type weakness struct {
	name string
	weak weakened
	// out gets out; also may, where several things depend on the same wall.
	out, also []string
	airtight  bool
	guest     string // the defence of the guest that is undone; see testdata/softguest
	alone     bool   // it gets at other sandboxes too, or they at what it has
}

func noFilter(c *containerPlan) {
	c.host.SecurityOpt = append(c.host.SecurityOpt[:1:1], "seccomp=unconfined")
}

// oneGuest has all containers of a run have process 1 from one volume.
func oneGuest(c *containerPlan) {
	run := c.conf.Labels[labelRun]
	c.host.Mounts = append(c.host.Mounts, mount.Mount{
		Type: mount.TypeVolume, Source: "waza-" + run + "-guest", Target: guestDir, ReadOnly: true,
		VolumeOptions: &mount.VolumeOptions{Labels: labels(run, wholeRun, roleAside)},
	})
}

func capable(caps ...string) func(*containerPlan) {
	return func(c *containerPlan) { c.host.CapAdd = caps }
}

func both(changes ...func(*containerPlan)) func(*containerPlan) {
	return func(c *containerPlan) {
		for _, change := range changes {
			change(c)
		}
	}
}

func hostAddress(o *client.NetworkCreateOptions) {
	o.Options["com.docker.network.bridge.inhibit_ipv4"] = "false"
}

// around is a network around an address that the host then has.
func around(subnet, gateway string) func(*client.NetworkCreateOptions) {
	return func(o *client.NetworkCreateOptions) {
		hostAddress(o)
		if o.Labels[labelTrial] == "waza-probe/1" {
			o.IPAM.Config[0].Subnet, o.IPAM.Config[0].Gateway = netip.MustParsePrefix(subnet), netip.MustParseAddr(gateway)
		}
	}
}

const root = "0:0"

func weaknesses(t *testing.T) []weakness {
	filterless := []string{"broadcast-udp", "multicast-udp", "device-udp", "unicast-if-udp", "pktinfo-udp", "user-namespace", "keyring", "perf-events", "io-uring", "vsock", "memory-tcp"}
	onHost := []string{"host-tcp", "bridge-tcp", "dns-host"}
	return []weakness{
		{name: "an address of the host on the bridge", weak: weakened{network: hostAddress}, out: onHost},
		{name: "no seccomp filter", weak: weakened{container: noFilter}, out: filterless},
		{name: "neither", weak: weakened{network: hostAddress, container: noFilter}, out: slices.Concat(filterless, onHost, []string{"device-tcp", "ping", "host-udp"})},
		{name: "IPv6, the engine's port, a resolver that knows the world", weak: weakened{
			container: func(c *containerPlan) {
				if c.addr.IsValid() {
					c.host.Sysctls["net.ipv6.conf.all.disable_ipv6"] = "0"
				}
			}, worldly: true,
			settled: func(ctx context.Context, s *trialSandbox) error {
				return errors.Join(hostHasLinkAddress(ctx, s), enginePort(ctx, s))
			},
		}, out: []string{"host-ipv6", "engine-tcp", "dns-foreign", "dns-engine"}},
		{name: "root, CAP_NET_RAW, CAP_NET_ADMIN, no filter", weak: weakened{user: root, container: both(noFilter, capable("NET_RAW", "NET_ADMIN"))},
			out: []string{"raw-socket", "packet-socket", "arp", "marked-packets", "routes", "setuid"}, also: filterless},
		{name: "one network for two trials, the engine's socket", weak: weakened{place: oneNetwork(), container: engineSocket(t)}, out: []string{"neighbour", "engine-socket"}},
		{name: "servers on the network", weak: weakened{place: serversOnNetwork}, out: []string{"other-server"}},
		{name: "a network that has an address outside", alone: true, weak: weakened{network: around("198.51.100.0/29", "198.51.100.1")}, out: append(onHost, "external")},
		{name: "a network that has the metadata address", alone: true, weak: weakened{network: around("169.254.169.248/29", "169.254.169.254")}, out: []string{"metadata", "host-tcp"}, also: onHost},
		{name: "files in a volume of all, one user, large buffers, the runner's environment, nested sandboxes", airtight: true,
			weak: weakened{user: "4711:4711", container: both(oneGuest, func(c *containerPlan) {
				c.host.Sysctls, c.conf.Env, c.conf.Entrypoint = nil, os.Environ(), guests.Command(sandbox.Container{NestedSandboxes: true})
			})}, out: []string{"shared-file", "shared-user", "memory-tcp", "planted-secret", "add-filter"}},
		{name: "root, CAP_SYS_ADMIN", airtight: true, weak: weakened{user: root, container: capable("SYS_ADMIN")}, out: []string{"mount", "user-namespace", "bpf", "perf-events", "setuid"}, also: []string{"guest-memory"}},
		{name: "root, CAP_MKNOD, CAP_SYSLOG, a device, a writable root, kernel settings and control groups in the open", airtight: true,
			weak: weakened{user: root, container: both(capable("MKNOD", "SYSLOG"), bind("/sys/fs/cgroup"), func(c *containerPlan) {
				c.host.Devices = []container.DeviceMapping{{PathOnHost: "/dev/net/tun", PathInContainer: "/dev/net/tun", CgroupPermissions: "r"}}
				c.host.ReadonlyRootfs, c.host.ReadonlyPaths, c.host.MaskedPaths = false, []string{}, []string{}
			})}, out: []string{"make-device", "kernel-log", "host-devices", "root-files", "proc-sys", "sysfs", "setuid"}},
		{name: "the processes of the host", airtight: true, alone: true, weak: weakened{container: func(c *containerPlan) { c.host.PidMode = "host" }},
			out: []string{"processes", "guest-freeze", "guest-signals"}},
		{name: "a guest that can be dumped", airtight: true, guest: "undumpable", out: []string{"guest-memory", "guest-ptrace"}, also: []string{"guest-freeze"}},
		{name: "a guest with default signals", airtight: true, guest: "signals", out: []string{"guest-signals"}},
	}
}

// Unproven are the attacks that nothing that we take out lets through, on the
// kernels and engines that this was tried on.
var unproven = []string{
	"sysrq",         // that kernel has none
	"kernel-module", // nor modules
	"core-dump",     // its core_pattern is a file
}

// Every attack of the probe gets out of a sandbox without its wall, and no other
// does.
func TestAttacks_GetOut(t *testing.T) {
	proven := map[string]bool{}
	for _, w := range weaknesses(t) {
		for _, name := range w.out {
			proven[name] = true
		}
		t.Run(w.name, func(t *testing.T) {
			if !w.alone {
				t.Parallel()
			}
			b := openWeakened(t, w.guest)
			w.weak.Backend = b
			kind := evidence.SandboxKind{Network: sandbox.NetworkBridge, Workspace: "tmpfs"}
			if w.airtight {
				kind.Network = sandbox.NetworkAirtight
			}
			c, err := selftest.Probe(t.Context(), &w.weak, b.run, kind)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, a := range c.With(evidence.AttackGotOut) {
				got[a.Name] = a.Detail
				oneUser := w.weak.user != "" && a.Name == "shared-user"
				// A guest that dies of signals may do so before it has passed on what was told of others.
				untold := slices.Contains(w.out, "guest-signals") && strings.HasSuffix(a.Detail, "process 1 and its container ended")
				if !slices.Contains(w.out, a.Name) && !slices.Contains(w.also, a.Name) && !oneUser && !untold {
					t.Errorf("%s got out too: %s", a.Name, a.Detail)
				}
			}
			for _, name := range w.out {
				if _, ok := got[name]; !ok {
					t.Errorf("%s did not get out: %+v", name, attackOf(c, name))
				}
			}
			t.Logf("%v", got)
		})
	}
	for _, a := range probe.Attacks() {
		if !proven[a.Name] && !slices.Contains(unproven, a.Name) {
			t.Errorf("nothing shows that %s can get out", a.Name)
		}
	}
}

func attackOf(c evidence.Certificate, name string) evidence.Attack {
	return c.Attacks[slices.IndexFunc(c.Attacks, func(a evidence.Attack) bool { return a.Name == name })]
}

// openWeakened opens a run whose guest lacks a defence of its own, or none.
func openWeakened(t *testing.T, undone string) *Backend {
	t.Helper()
	path := dockertest.Waza(t)
	if undone != "" {
		path = filepath.Join(t.TempDir(), "softguest")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-X main.defence="+undone, "-o", path, "./testdata/softguest")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	b, err := Open(within(t), Options{Run: runID(t), Guest: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}
