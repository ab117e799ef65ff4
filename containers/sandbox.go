package containers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/process"
)

// trialSandbox is one trial's network and containers. It implements sandbox.Sandbox.
type trialSandbox struct {
	backend    *Backend
	lease      *startedContainer // of the run when the sandbox was opened
	trial      *plan.Trial
	plan       trialPlan
	users      *pool  // what the containers' numbers are from
	dir        string // of its files in the run's volume
	files      string // where the engine keeps that volume
	observe    func(evidence.Event)
	containers map[string]*startedContainer // complete before the sandbox is handed out
	release    func()                       // gives the subnet back; nil without one
	carried    sync.WaitGroup               // connections to services, and who takes them in
	task       taskNetwork
	servers    netip.Addr // where the agent finds its servers

	leaveNetwork func() // nil where there is no network

	closeOnce sync.Once
	closeErr  error
}

// httpPort is the port on which the agent finds every server.
const httpPort = "80"

// Listen implements sandbox.Sandbox. The agent finds its servers in its own container, at
// an address of the task network or of its loopback.
func (s *trialSandbox) Listen(ctx context.Context) ([]sandbox.Endpoint, error) {
	ctr := s.containers[sandbox.Agent]
	if !defence.OneServerPort {
		if _, err := ctr.guest.Listen(ctx, net.JoinHostPort(s.servers.String(), "81")); err != nil {
			return nil, err
		}
	}
	ln, err := ctr.guest.Listen(ctx, net.JoinHostPort(s.servers.String(), httpPort))
	if err != nil {
		return nil, err
	}
	return []sandbox.Endpoint{{Listener: ln}}, nil
}

// Layout implements sandbox.Sandbox.
func (s *trialSandbox) Layout(string) sandbox.Layout { return sandbox.ContainerLayout() }

// Dial implements sandbox.Sandbox.
func (s *trialSandbox) Dial(ctx context.Context, server string, port int) (net.Conn, error) {
	b, err := s.container(server)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		conn, err := b.guest.Dial(ctx, net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Gone implements sandbox.Sandbox.
func (s *trialSandbox) Gone(name string) <-chan struct{} {
	if b, ok := s.containers[name]; ok {
		return b.guest.Done()
	}
	gone := make(chan struct{})
	close(gone)
	return gone
}

// Start implements sandbox.Sandbox. What the agent starts ends with it; what others start
// is watched.
func (s *trialSandbox) Start(ctx context.Context, name string, p process.Spec) (process.Process, error) {
	b, err := s.container(name)
	if err != nil {
		return nil, err
	}
	if p.Args = b.image.program(p); len(p.Args) == 0 {
		return nil, fmt.Errorf("%s: no command, and its image has none", name)
	}
	p.Dir = cmp.Or(p.Dir, b.image.dir)
	if name == sandbox.Agent {
		return b.guest.Exec(ctx, p, true)
	}
	return b.guest.ExecWatched(ctx, p, b.writable)
}

// Put implements sandbox.Sandbox.
func (s *trialSandbox) Put(ctx context.Context, name, dir string, tar io.Reader) error {
	b, err := s.container(name)
	if err != nil {
		return err
	}
	return b.guest.Put(ctx, dir, tar)
}

// Collect implements sandbox.Sandbox.
func (s *trialSandbox) Collect(ctx context.Context, name, dir string, w io.Writer) error {
	b, err := s.container(name)
	if err != nil {
		return err
	}
	return b.guest.Get(ctx, dir, s.Layout(name).Ours(), w)
}

// Find implements sandbox.Finder.
func (s *trialSandbox) Find(ctx context.Context, name, path string, w io.Writer) error {
	b, err := s.container(name)
	if err != nil {
		return err
	}
	return b.guest.Find(ctx, path, w)
}

func (s *trialSandbox) container(name string) (*startedContainer, error) {
	b, ok := s.containers[name]
	if !ok {
		return nil, fmt.Errorf("trial has no container %q", name)
	}
	return b, nil
}

// Containers tells the containers' names by container, for a person who wants to enter.
func (s *trialSandbox) Containers() map[string]string {
	names := map[string]string{}
	for _, c := range s.plan.containers {
		names[c.container] = c.name
	}
	return names
}

// Close implements sandbox.Sandbox.
func (s *trialSandbox) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *trialSandbox) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if s.leaveNetwork != nil {
		s.leaveNetwork()
	}
	if err := s.backend.engine.answers(ctx); err != nil {
		return s.abandon(err)
	}
	which := labelled(s.backend.run, s.plan.trial)
	var all, inNetwork sync.WaitGroup
	errs := make(chan error, len(s.containers)+1)
	for _, b := range s.containers {
		if b.onNet {
			inNetwork.Add(1)
		}
		all.Go(func() {
			errs <- b.close(ctx, s.backend.engine)
			if b.onNet {
				inNetwork.Done()
			}
		})
	}
	if s.plan.network != "" {
		all.Go(func() {
			inNetwork.Wait()
			errs <- s.backend.engine.removeNetworks(ctx, which)
		})
	}
	all.Wait()
	close(errs)
	var failed []error
	for err := range errs {
		failed = append(failed, err)
	}
	s.carried.Wait() // they end with the containers
	if s.release != nil {
		s.release()
	}
	if s.plan.workspace != "" {
		failed = append(failed, s.backend.engine.removeVolumes(ctx, which))
	}
	err := errors.Join(failed...)
	if err != nil {
		s.backend.addPending(s.plan.trial)
		return err
	}
	s.plan.giveBack(s.users)
	s.backend.dirs.giveBack(s.dir)
	return nil
}

// abandon lets go of everything where the engine does not answer. What is left there is
// removed later.
func (s *trialSandbox) abandon(why error) error {
	for _, b := range s.containers {
		b.abandon()
	}
	s.carried.Wait()
	if s.release != nil {
		s.release()
	}
	s.backend.addPending(s.plan.trial)
	return fmt.Errorf("its containers are left for later: %w", why)
}

// ownKernel says whether a runtime is another than the engine's usual one, whose
// containers may have a kernel between themselves and the host's.
func ownKernel(runtime string) bool { return runtime != "" && runtime != "runc" }

// checkWalls compares what a guest found around itself with what was asked for.
// Engines ignore options they do not know. A runtime with a kernel of its own
// (gVisor's) stands in for the seccomp filter, and shows none. Filtered says that the
// filter is ours.
func checkWalls(h guest.Hello, onBridge, filtered, ownKernel bool) error {
	var broken []error
	refuse := func(bad bool, what string) {
		if defence.CheckedWalls && bad {
			broken = append(broken, errors.New(what))
		}
	}
	refuse(h.UID == 0, "runs as root; name another user")
	refuse(h.Capabilities != 0, "has capabilities left")
	refuse(!h.NoNewPrivileges, "may gain privileges")
	refuse(!h.ReadOnlyRoot, "has a writable root")
	refuse(!h.Filtered && !ownKernel, "has no seccomp filter")
	refuse(filtered && h.Datagrams, "may send datagrams")
	refuse(filtered && h.ChoosesInterface, "may bind to an interface")
	refuse(!onBridge && h.Interfaces > 1, "has a network interface")
	return errors.Join(broken...)
}

// Guarantees implements sandbox.Sandbox. Each line was checked from inside the
// containers when they started, or is the engine's own limit.
func (s *trialSandbox) Guarantees() evidence.Guarantees {
	g := evidence.Guarantees{
		Backend: "docker",
		Network: s.trial.Network,
		Enforced: []string{
			"every server in a container of its own without a network interface",
			"names resolve inside the trial only",
			"containers run without root, capabilities or new privileges, on a read-only root",
			"containers end with the runner",
		},
	}
	if slices.ContainsFunc(s.trial.Servers, func(server plan.Server) bool { return len(server.Services) > 0 }) {
		g.Enforced = append(g.Enforced, "every service in a container of its own without a network interface, within reach of its server alone")
	}
	if ownKernel(s.trial.Runtime) {
		g.Missing = append(g.Missing, "the seccomp filter of containers could not be seen under the runtime "+s.trial.Runtime)
	} else {
		g.Enforced = append(g.Enforced, "containers run under a seccomp filter")
	}
	for limit, enforced := range s.backend.engine.limits() {
		if enforced {
			g.Enforced = append(g.Enforced, limit+" of every container is limited")
		} else {
			g.Missing = append(g.Missing, limit+" of containers is not limited: the engine's kernel cannot")
		}
	}
	if !s.trial.ServersOnly {
		s.ofAgent(&g)
	}
	s.ofUsers(&g)
	g.Missing = append(g.Missing, s.unseen()...)
	slices.Sort(g.Enforced)
	slices.Sort(g.Missing)
	return g
}

// ofAgent adds what is enforced of the agent's container.
func (s *trialSandbox) ofAgent(g *evidence.Guarantees) {
	g.Enforced = append(g.Enforced, "the agent reaches its servers through the runner alone")
	if s.plan.network == "" {
		g.Enforced = append(g.Enforced, "the agent's container has no network interface")
	} else {
		g.Enforced = append(g.Enforced, "the agent's network holds nobody else, carries TCP only and has no address on the host")
	}
	if s.plan.workspace == "" {
		g.Enforced = append(g.Enforced, "the workspace has a hard size limit")
	} else {
		g.Missing = append(g.Missing, "the workspace is a volume: its size is not limited")
	}
}

// ofUsers adds whether each container has a user of its own.
func (s *trialSandbox) ofUsers(g *evidence.Guarantees) {
	own := true
	for _, c := range s.plan.containers {
		if c.insists == "" {
			continue
		}
		own = false
		why := fmt.Sprintf("%s runs as the user that %s names: what the kernel counts by user it shares with other containers of that user", c.container, c.insists)
		if strings.HasSuffix(c.conf.User, ":0") {
			why += ", and it is in the group of root"
		}
		g.Missing = append(g.Missing, why)
	}
	if own {
		g.Enforced = append(g.Enforced, "every container runs as a user that no other container has")
	}
}

// filtered says whether the seccomp filter of the containers is ours.
func (s *trialSandbox) filtered() bool {
	profile, err := s.backend.seccomp()
	return err == nil && profile != ""
}
