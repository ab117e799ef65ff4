// Package selftest attacks a sandbox of the kind that a run is about to use, and reports
// what got out.
//
// What is probed is opened as a trial's sandbox is. Two are opened, so that one can
// reach for the other, and a listener is put on the network of the engine's host. An
// attack got out where a listener heard it, or where it did what no container may do. A
// listener that does not hear those who stand beside it certifies nothing, and what
// depends on it counts as not tried.
//
// It knows nothing of engines, and runs nothing but our own executable.
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
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/runner/trial"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/probe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// probeTimeout bounds a probe on an engine that is slow. It takes some seconds.
const probeTimeout = 2 * time.Minute

// KindOf is the kind of sandbox that a trial is planned for.
func KindOf(t *plan.Trial) evidence.SandboxKind {
	return evidence.SandboxKind{Network: t.Network, Subnets: t.Subnets, Runtime: t.Runtime, Workspace: t.Workspace}
}

// Backend is one whose sandboxes can be attacked from beside them, too.
type Backend interface {
	trial.Backend
	sandbox.HostProber
}

// Probe opens sandboxes of a kind, tries to get out of one, and takes them down
// again. run is the backend's run. The error says that nothing could be told; what
// got out is in the certificate.
//
// A container that ends while it attacks may have lost its runner on a machine under
// load. So that is tried once more.
func Probe(ctx context.Context, b Backend, run string, kind evidence.SandboxKind) (evidence.Certificate, error) {
	c, whole, err := probeOnce(ctx, b, run, kind)
	if err == nil && !whole {
		c, _, err = probeOnce(ctx, b, run, kind)
	}
	return c, err
}

// probeOnce says whether all containers were there to the end.
func probeOnce(ctx context.Context, b Backend, run string, kind evidence.SandboxKind) (_ evidence.Certificate, whole bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	c := evidence.Certificate{Probed: evidence.ProbedNow, At: time.Now().UTC().Truncate(time.Second), Engine: b.Describe(), Kind: kind}
	g := &ground{backend: b, run: run, kind: kind, nonce: strings.ToLower(rand.Text())}
	err = errors.Join(g.probe(ctx), g.close(ctx))
	if err != nil {
		return c, false, fmt.Errorf("probe of the sandbox: %w", err)
	}
	c.Attacks = g.judge()
	return c, !slices.ContainsFunc(g.attackers, func(a *attacker) bool { return !a.ended }), nil
}

// ground is where a probe takes place.
type ground struct {
	backend Backend
	run     string
	kind    evidence.SandboxKind
	nonce   string

	own, other  sandbox.Sandbox   // the second is another trial's
	hostProbe   sandbox.HostProbe // nil where there can be none
	noHostProbe error

	host, neighbour, sibling *post // nil where nothing listens
	places                   []sandbox.Endpoint
	attackers                []*attacker
	heard                    controls
}

// Containers of a probe's sandboxes, beside the agents'.
const (
	attackingServer = "one"
	siblingServer   = "other"
)

// foreign is an argument of the programs that attackers must not see.
func (g *ground) foreign() string { return "foreign-" + g.nonce }

// secret begins everything that attackers must not find.
func (g *ground) secret() string { return "planted-" + g.nonce }

func (g *ground) probe(ctx context.Context) error {
	restore, err := g.plantHere()
	if err != nil {
		return err
	}
	defer restore()
	if err := g.open(ctx); err != nil {
		return err
	}
	if err := g.listen(ctx); err != nil {
		return err
	}
	if err := g.knock(ctx, "before"); err != nil {
		return err
	}
	group, attacking := errgroup.WithContext(ctx)
	for _, container := range []string{sandbox.Agent, attackingServer} {
		a := &attacker{container: container, nonce: g.nonce + "." + container}
		g.attackers = append(g.attackers, a)
		group.Go(func() error { return a.attack(attacking, g.own, g.aims(a.nonce)) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return g.knock(ctx, "after")
}

// plantHere puts a secret into our own environment, and says how to take it out.
func (g *ground) plantHere() (func(), error) {
	name := "WAZA_PROBE_" + strings.ToUpper(g.nonce)
	return func() { _ = os.Unsetenv(name) }, os.Setenv(name, g.secret()+"-runner")
}

// open opens both sandboxes as trials', and the host probe.
func (g *ground) open(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	ignore := func(evidence.Event) {}
	group.Go(func() (err error) {
		g.own, err = g.backend.Open(ctx, g.trial("probe", attackingServer, siblingServer), ignore)
		return err
	})
	group.Go(func() (err error) {
		g.other, err = g.backend.Open(ctx, g.trial("neighbour", attackingServer), ignore)
		return err
	})
	group.Go(func() error {
		g.hostProbe, g.noHostProbe = g.backend.HostProbe(ctx)
		return nil
	})
	return group.Wait()
}

// trial is planned as any other of the kind, with nothing but our executable in its
// containers.
func (g *ground) trial(task string, servers ...string) *plan.Trial {
	container := sandbox.Container{CPUs: 1, Memory: 128 << 20, Disk: 16 << 20, Pids: 64}
	t := &plan.Trial{
		Run: g.run, Task: "waza-" + task, Number: 1, Network: g.kind.Network, Subnets: g.kind.Subnets, Runtime: g.kind.Runtime,
		Workspace: g.kind.Workspace, MCPJSON: "{\"mcpServers\":{}}\n", Agent: plan.Agent{Container: container},
	}
	for _, name := range servers {
		t.Servers = append(t.Servers, plan.Server{Container: container, Name: name, Transport: "stdio"})
	}
	return t
}

// listen starts every listener, has both trials' places of the agent opened, and
// plants secrets.
func (g *ground) listen(ctx context.Context) (err error) {
	for _, s := range []sandbox.Sandbox{g.own, g.other} {
		places, err := s.Listen(ctx)
		if err != nil {
			return err
		}
		g.places = append(g.places, places...)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		g.neighbour, err = g.watch(ctx, in(g.other, sandbox.Agent), "neighbour")
		return err
	})
	group.Go(func() (err error) {
		g.sibling, err = g.watch(ctx, in(g.own, siblingServer), "sibling")
		return err
	})
	group.Go(func() error { return g.plant(ctx) })
	if g.hostProbe != nil {
		group.Go(func() error {
			g.host, g.noHostProbe = g.watch(ctx, g.hostProbe.Start, "host")
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

// aims is what one container aims at.
func (g *ground) aims(nonce string) probe.Aims {
	a := probe.Aims{
		Nonce: nonce, Neighbour: g.neighbour.place, Sibling: g.sibling.place, SiblingAt: siblingServer,
		Names:   []string{g.nonce + ".invalid", "host.docker.internal", "gateway.docker.internal", "waza-" + g.run + "-lease"},
		Planted: probe.Reversed(g.secret()), Foreigners: probe.Reversed(g.foreign()),
	}
	if g.host != nil {
		a.Host = g.host.place
	}
	return a
}

// close takes everything down, on a context of its own.
func (g *ground) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	for _, p := range []*post{g.host, g.neighbour, g.sibling} {
		p.end()
	}
	for _, place := range g.places {
		_ = place.Close() // its sandbox is about to end
	}
	closers := []func(context.Context) error{}
	for _, s := range []sandbox.Sandbox{g.own, g.other} {
		if s != nil {
			closers = append(closers, s.Close)
		}
	}
	if g.hostProbe != nil {
		closers = append(closers, g.hostProbe.Close)
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
