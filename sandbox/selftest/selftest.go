// Package selftest attacks a sandbox of the kind that a run is about to use, and reports which
// attacks got out.
//
// [Probe] opens two sandboxes as for trials, so that one can try to reach the other, and starts
// a listener on the network of the engine's host. An attack got out if a listener received it,
// or if it did what no container may do. Before and after the attacks, a program on the host's
// network connects to the host's listener. If that is not received, the listener proves
// nothing, and attacks that depend on it count as not tried.
//
// The package is independent of the engine, and only runs waza's own executable.
package selftest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// probeTimeout bounds a probe, which takes seconds, and on a cluster also pulls its images.
	probeTimeout = 10 * time.Minute
	// closeTimeout bounds taking its sandboxes down.
	closeTimeout = 2 * time.Minute
)

// Backend is a backend whose sandboxes can be attacked. It can also start a program on the
// network of its host.
type Backend interface {
	sandbox.Backend
	sandbox.HostProber
}

// Probe opens sandboxes of a kind, attacks one from inside, and closes them. run is the
// backend's run. Attacks that got out are in the certificate; an error means that there is no
// result.
//
// If a container ends during the attacks, the probe is repeated once, because on a machine
// under load the container may have lost its runner.
func Probe(ctx context.Context, b Backend, run string, kind evidence.SandboxKind) (evidence.Certificate, error) {
	c, whole, err := probeOnce(ctx, b, run, kind)
	if err == nil && !whole {
		c, _, err = probeOnce(ctx, b, run, kind)
	}
	return c, err
}

// Try opens one sandbox of a kind, as for a trial, and closes it.
func Try(ctx context.Context, b sandbox.Opener, run string, kind evidence.SandboxKind) error {
	bed := &testbed{run: run, kind: kind}
	spec := bed.spec("try", attackingServer)
	spec.Probe = false
	tried, err := b.Open(ctx, spec, func(evidence.Event) {})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return tried.Close(ctx)
}

// probeOnce also reports whether all containers were running to the end.
func probeOnce(ctx context.Context, b Backend, run string, kind evidence.SandboxKind) (_ evidence.Certificate, whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	c := evidence.Certificate{Probed: evidence.ProbedNow, At: time.Now().UTC().Truncate(time.Second), Engine: b.Describe(), Kind: kind}
	bed := &testbed{backend: b, run: run, kind: kind, nonce: strings.ToLower(rand.Text())}
	err = errors.Join(bed.probe(ctx), bed.close(ctx))
	if err != nil {
		return c, false, fmt.Errorf("probe of the sandbox: %w", err)
	}
	c.Attacks = bed.judge()
	return c, !slices.ContainsFunc(bed.attackers, func(a *attacker) bool { return !a.ended }), nil
}

// testbed is the sandboxes and listeners of one probe.
type testbed struct {
	backend Backend
	run     string
	kind    evidence.SandboxKind
	nonce   string // part of everything that this probe sends and plants

	sandbox, otherTrial sandbox.Sandbox   // the sandbox that is attacked, and that of another trial
	hostProbe           sandbox.HostProbe // nil if it could not be started
	hostProbeErr        error

	// Listeners on the engine's host, in the agent's container of the other trial, and in another
	// server's container of the same trial; nil if they could not be started.
	host, neighbour, sibling *listener
	places                   []sandbox.Endpoint
	attackers                []*attacker
	reachable                reachability
}

// Containers of a probe's sandboxes, besides the agents'.
const (
	attackingServer = "one"
	siblingServer   = "other"
)

// foreign returns an argument of the listeners, which attackers must not see among processes.
func (b *testbed) foreign() string { return "foreign-" + b.nonce }

// secret returns the beginning of all planted secrets.
func (b *testbed) secret() string { return "planted-" + b.nonce }

func (b *testbed) probe(ctx context.Context) error {
	restore, err := b.plantHere()
	if err != nil {
		return err
	}
	defer restore()
	if err := b.openSandboxes(ctx); err != nil {
		return err
	}
	if err := b.listen(ctx); err != nil {
		return err
	}
	if err := b.checkListener(ctx, "before"); err != nil {
		return err
	}
	group, attacking := errgroup.WithContext(ctx)
	for _, container := range []string{sandbox.Agent, attackingServer} {
		a := &attacker{container: container, nonce: b.nonce + "." + container}
		b.attackers = append(b.attackers, a)
		group.Go(func() error { return a.attack(attacking, b.sandbox, b.aims(a.nonce)) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return b.checkListener(ctx, "after")
}

// plantHere puts a secret into our own environment, and returns a function that removes it.
func (b *testbed) plantHere() (func(), error) {
	name := "WAZA_PROBE_" + strings.ToUpper(b.nonce)
	return func() { _ = os.Unsetenv(name) }, os.Setenv(name, b.secret()+"-runner")
}

// openSandboxes opens both sandboxes as for trials, and starts the host probe.
func (b *testbed) openSandboxes(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	ignore := func(evidence.Event) {}
	group.Go(func() (err error) {
		b.sandbox, err = b.backend.Open(ctx, b.spec("probe", attackingServer, siblingServer), ignore)
		return err
	})
	group.Go(func() (err error) {
		b.otherTrial, err = b.backend.Open(ctx, b.spec("neighbour", attackingServer), ignore)
		return err
	})
	group.Go(func() error {
		b.hostProbe, b.hostProbeErr = b.backend.HostProbe(ctx)
		return nil
	})
	return group.Wait()
}

// spec returns a sandbox of the kind, as trials have it, whose containers only contain waza's
// executable.
func (b *testbed) spec(task string, servers ...string) *sandbox.Spec {
	container := sandbox.Container{CPUs: 1, Memory: 128 << 20, Disk: 16 << 20, Pids: 64}
	s := &sandbox.Spec{
		Run: b.run, Task: "waza-" + task, Number: 1, Probe: true, Network: b.kind.Network, Subnets: b.kind.Subnets, Runtime: b.kind.Runtime,
		Containers: []sandbox.ContainerSpec{sandbox.AgentContainer(container, b.kind.Workspace, "{\"mcpServers\":{}}\n")},
	}
	for _, name := range servers {
		s.Containers = append(s.Containers, sandbox.ContainerSpec{Container: container, Name: name, Role: sandbox.RoleServer})
		s.Reach = append(s.Reach, sandbox.Edge{From: sandbox.Agent, Name: name, To: name})
	}
	return s
}

// listen opens the endpoints of both agents, starts all listeners, and plants secrets.
func (b *testbed) listen(ctx context.Context) (err error) {
	for _, s := range []sandbox.Sandbox{b.sandbox, b.otherTrial} {
		places, err := s.Listen(ctx)
		if err != nil {
			return err
		}
		b.places = append(b.places, places...)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		b.neighbour, err = b.startListener(ctx, in(b.otherTrial, sandbox.Agent), "neighbour")
		return err
	})
	group.Go(func() (err error) {
		b.sibling, err = b.startListener(ctx, in(b.sandbox, siblingServer), "sibling")
		return err
	})
	group.Go(func() error { return b.plant(ctx) })
	if b.hostProbe != nil {
		group.Go(func() error {
			b.host, b.hostProbeErr = b.startListener(ctx, b.hostProbe.Start, "host")
			return nil
		})
	}
	return group.Wait()
}

// starter starts a program somewhere.
type starter func(context.Context, process.Spec) (process.Process, error)

func in(s sandbox.Sandbox, container string) starter {
	return func(ctx context.Context, p process.Spec) (process.Process, error) { return s.Start(ctx, container, p) }
}

func program(name string, args ...string) process.Spec {
	return process.Spec{Args: append([]string{sandbox.GuestPath, probe.Subcommand, name}, args...)}
}

// aims returns the targets of the attacks from one container.
func (b *testbed) aims(nonce string) probe.Aims {
	a := probe.Aims{
		Nonce: nonce, Neighbour: b.neighbour.place, Sibling: b.sibling.place, SiblingAt: siblingServer,
		Names:   []string{b.nonce + ".invalid", "host.docker.internal", "gateway.docker.internal", "waza-" + b.run + "-lease"},
		Planted: probe.Reversed(b.secret()), Foreigners: probe.Reversed(b.foreign()),
	}
	if b.host != nil {
		a.Host = b.host.place
	}
	return a
}

// close closes everything, with its own timeout.
func (b *testbed) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	for _, p := range []*listener{b.host, b.neighbour, b.sibling} {
		p.end()
	}
	for _, place := range b.places {
		_ = place.Close() // its sandbox is closed next
	}
	closers := []func(context.Context) error{}
	for _, s := range []sandbox.Sandbox{b.sandbox, b.otherTrial} {
		if s != nil {
			closers = append(closers, s.Close)
		}
	}
	if b.hostProbe != nil {
		closers = append(closers, b.hostProbe.Close)
	}
	errs := make(chan error, len(closers))
	for _, c := range closers {
		go func() { errs <- c(ctx) }()
	}
	var all []error
	for range closers {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}
