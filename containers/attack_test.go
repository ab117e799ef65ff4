package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/guest"
	"github.com/waza-isolate/waza/sandbox/process"
)

// The attacks run from inside a container, by a program of ours in testdata. Each
// is tried against the sandbox as it is, where it must reach nobody, and once
// with the one defence against it taken out, where it must reach its target: a
// test whose attack cannot work proves nothing.

// victim listens on every address of the host, for streams and datagrams.
type victim struct {
	port    string
	streams net.Listener
	packets net.PacketConn
	got     chan string // "tcp" or "udp", once for each that got through
}

const marker = "marker"

// nowhere is an address outside, of the range for documentation.
const nowhere = "192.0.2.123"

func newVictim(t *testing.T) *victim {
	t.Helper()
	streams, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(streams.Addr().String())
	packets, err := net.ListenPacket("udp4", "0.0.0.0:"+port)
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{port: port, streams: streams, packets: packets, got: make(chan string, 100)}
	ended := make(chan struct{}, 2)
	go func() { v.serveStreams(); ended <- struct{}{} }()
	go func() { v.servePackets(); ended <- struct{}{} }()
	t.Cleanup(func() {
		_ = streams.Close()
		_ = packets.Close()
		<-ended
		<-ended
	})
	return v
}

func (v *victim) serveStreams() {
	for {
		conn, err := v.streams.Accept()
		if err != nil {
			return
		}
		v.got <- "tcp"
		_ = conn.Close()
	}
}

func (v *victim) servePackets() {
	buf := make([]byte, 100)
	for {
		n, _, err := v.packets.ReadFrom(buf)
		if err != nil {
			return
		}
		if string(buf[:n]) == marker {
			v.got <- marker
			continue
		}
		v.got <- "udp"
	}
}

// reached returns what got through. It ends by a datagram of its own, sent late enough for
// the container's to have come first.
func (v *victim) reached(t *testing.T) string {
	t.Helper()
	time.Sleep(300 * time.Millisecond)
	conn, err := net.Dial("udp4", "127.0.0.1:"+v.port)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(marker)); err != nil {
		t.Fatal(err)
	}
	through := ""
	for {
		select {
		case what := <-v.got:
			if what == marker {
				return through
			}
			through = what
		case <-time.After(time.Minute):
			t.Fatal("the victim does not hear us either")
		}
	}
}

// hostAddrs is every IPv4 address of this host that a container could aim at.
func hostAddrs(t *testing.T) []string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var addrs []string
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			addrs = append(addrs, ip.IP.String())
		}
	}
	if len(addrs) == 0 {
		t.Fatal("the host has no address to attack")
	}
	return addrs
}

// attacker is the program that attacks, as a tar to put into a container.
func attacker(t *testing.T) []byte { return program(t, "attacker") }

// program is a program of testdata, as a tar to put into a container.
func program(t *testing.T, name string) []byte {
	t.Helper()
	return archive(t, dockertest.Program(t, "containers/testdata/"+name, name))
}

// archive returns a tar archive with a file, which can be executed.
func archive(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Name: filepath.Base(path), Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func attackedTrial(run, task, networkKind string) *sandbox.Spec {
	ctr := sandbox.Container{CPUs: 1, Memory: 256 << 20, Disk: 64 << 20, Pids: 64}
	t := &sandbox.Spec{
		Run: run, Task: task, Number: 1, Network: networkKind,
		Containers: []sandbox.ContainerSpec{sandbox.AgentContainer(ctr, "tmpfs", "{}")},
	}
	addServer(t, "victim", ctr)
	return t
}

func openBackend(t *testing.T) *Backend {
	t.Helper()
	dockertest.Require(t)
	run := "attack-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")) + "-" + strconv.Itoa(os.Getpid())
	b, err := Open(t.Context(), Options{Run: run, Guest: dockertest.Waza(t)})
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

func openSandbox(t *testing.T, b *Backend, trial *sandbox.Spec, observe func(evidence.Event)) *trialSandbox {
	t.Helper()
	s, err := b.Open(t.Context(), trial, observe)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s.(*trialSandbox)
}

// openUndefended starts the agent's container alone, on a network made by create,
// after undo has taken a defence out of its plan.
func openUndefended(t *testing.T, b *Backend, trial *sandbox.Spec, options func(*client.NetworkCreateOptions), undo func(*containerPlan)) *guest.Guest {
	t.Helper()
	s, err := b.planInputOf(t.Context(), b.lease.current(), trial)
	if err != nil {
		t.Fatal(err)
	}
	p := planTrial(trial, s)
	var a addresses
	if p.network != "" {
		a = undefendedNetwork(t, b, p, options)
	}
	for _, c := range p.containers {
		c = p.withAddress(c, trial, a)
		if c.Name != sandbox.Agent {
			continue
		}
		undo(&c)
		ctr, err := b.start(t.Context(), c, p.network)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := ctr.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return ctr.Guest
	}
	t.Fatal("no agent in the plan")
	return nil
}

func undefendedNetwork(t *testing.T, b *Backend, p trialPlan, change func(*client.NetworkCreateOptions)) addresses {
	t.Helper()
	from, err := parseRange("")
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		a, _ := b.networks.subnets.take(from, nil)
		options := networkOptions(a, labels(b.run, p.trial, roleNetwork))
		change(&options)
		created, err := b.engine.NetworkCreate(t.Context(), p.network, options)
		if err != nil {
			continue
		}
		t.Cleanup(func() {
			if _, err := b.engine.NetworkRemove(context.Background(), created.ID, client.NetworkRemoveOptions{}); err != nil {
				t.Error(err)
			}
		})
		return a
	}
	t.Fatal("no network could be made")
	return addresses{}
}

// attack runs one attack and returns whether it was carried out.
func attack(t *testing.T, start func(context.Context, process.Spec) (process.Process, error), args ...string) (bool, string) {
	t.Helper()
	p, err := start(t.Context(), process.Spec{Args: append([]string{"/tmp/attacker"}, args...)})
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Stdin().Close()
	go func() { _, _ = io.Copy(io.Discard, p.Stderr()) }()
	said, _ := io.ReadAll(p.Stdout())
	exit, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if exit.Code == 2 {
		t.Fatalf("attack %q does not exist: %s", args, said)
	}
	return exit.Code == 0, strings.TrimSpace(string(said))
}

func startIn(g *guest.Guest) func(context.Context, process.Spec) (process.Process, error) {
	return func(ctx context.Context, p process.Spec) (process.Process, error) { return g.Exec(ctx, p, false) }
}

// arm puts the attacker into a container.
func arm(t *testing.T, g *guest.Guest, program []byte) {
	t.Helper()
	if err := g.Put(t.Context(), "/tmp", bytes.NewReader(program)); err != nil {
		t.Fatal(err)
	}
}

// towardsHost are the attacks that send something to ADDRESS PORT.
func towardsHost() []string {
	return []string{"tcp", "udp", "udp-device", "udp-dontroute", "udp-unicast-if", "udp-pktinfo", "broadcast", "multicast"}
}

func TestNoContainerReachesTheHost(t *testing.T) {
	b, v, program := openBackend(t), newVictim(t), attacker(t)
	for _, kind := range []string{sandbox.NetworkBridge, sandbox.NetworkAirtight} {
		t.Run(kind, func(t *testing.T) {
			s := openSandbox(t, b, attackedTrial(b.run, "host-"+kind, kind), func(evidence.Event) {})
			aims := append(hostAddrs(t), nowhere)
			if kind == sandbox.NetworkBridge {
				aims = append(aims, bridgeAddr(t, s))
			}
			for name, ctr := range s.containers {
				arm(t, ctr.Guest, program)
				for _, how := range towardsHost() {
					for _, aim := range aims {
						done, said := attack(t, startIn(ctr.Guest), how, aim, v.port)
						t.Logf("%s: %s to %s: %s", name, how, aim, said)
						if done {
							t.Errorf("%s: %s to %s was not refused", name, how, aim)
						}
					}
				}
			}
			if through := v.reached(t); through != "" {
				t.Errorf("%s reached the host", through)
			}
		})
	}
}

// bridgeAddr is where the host would stand on a task network, if it did.
func bridgeAddr(t *testing.T, s *trialSandbox) string {
	t.Helper()
	n, err := s.backend.engine.NetworkInspect(t.Context(), s.plan.network, client.NetworkInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, subnet, err := net.ParseCIDR(n.Network.IPAM.Config[0].Subnet.String())
	if err != nil {
		t.Fatal(err)
	}
	ip := subnet.IP.To4()
	ip[3]++
	return ip.String()
}

// TestAttacksOnTheHostWork takes one defence out at a time.
func TestAttacksOnTheHostWork(t *testing.T) {
	b, v, program := openBackend(t), newVictim(t), attacker(t)
	noFilter := func(c *containerPlan) { c.host.SecurityOpt = c.host.SecurityOpt[:1] }
	keep := func(*client.NetworkCreateOptions) {}
	onHostAddress := func(o *client.NetworkCreateOptions) { o.Options["com.docker.network.bridge.inhibit_ipv4"] = "false" }

	t.Run("an address on the bridge", func(t *testing.T) {
		trial := attackedTrial(b.run, "control-address", sandbox.NetworkBridge)
		g := openUndefended(t, b, trial, onHostAddress, func(*containerPlan) {})
		arm(t, g, program)
		for _, aim := range hostAddrs(t) {
			attack(t, startIn(g), "tcp", aim, v.port)
		}
		if v.reached(t) != "tcp" {
			t.Error("tcp does not reach the host even with an address on the bridge")
		}
	})
	for _, how := range []string{"udp-device", "multicast", "broadcast"} {
		t.Run("no filter, "+how, func(t *testing.T) {
			trial := attackedTrial(b.run, "control-"+how, sandbox.NetworkBridge)
			g := openUndefended(t, b, trial, keep, noFilter)
			arm(t, g, program)
			for _, aim := range hostAddrs(t) {
				_, said := attack(t, startIn(g), how, aim, v.port)
				t.Logf("to %s: %s", aim, said)
			}
			if v.reached(t) != "udp" {
				t.Errorf("%s does not reach the host even without the filter", how)
			}
		})
	}
}

// TestTrialsDoNotReachEachOther aims at everything another trial has an address
// for: its agent's container, whose guest listens.
func TestTrialsDoNotReachEachOther(t *testing.T) {
	b, program := openBackend(t), attacker(t)
	mine := openSandbox(t, b, attackedTrial(b.run, "mine", sandbox.NetworkBridge), func(evidence.Event) {})
	theirs := openSandbox(t, b, attackedTrial(b.run, "theirs", sandbox.NetworkBridge), func(evidence.Event) {})
	const port = 80
	at := listens(t, theirs)
	if _, err := mine.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, ctr := range []string{sandbox.Agent, "victim"} {
		g := mine.containers[ctr].Guest
		arm(t, g, program)
		if done, said := attack(t, startIn(g), "tcp", at, strconv.Itoa(port)); done {
			t.Errorf("%s reached %s of another trial: %s", ctr, at, said)
		}
	}
	// The agent does reach its own servers, on the port the runner listens on and no
	// other.
	g := mine.containers[sandbox.Agent].Guest
	if done, said := attack(t, startIn(g), "tcp", "victim", strconv.Itoa(port)); !done {
		t.Errorf("the agent does not reach its own servers: %s", said)
	}
	for _, other := range []string{"22", "53", "81", "443"} {
		if done, _ := attack(t, startIn(g), "tcp", "victim", other); done {
			t.Errorf("the guest answers on port %s, which nobody asked for", other)
		}
	}
}

// listens has the guest of a sandbox's agent listen for its servers, and returns where.
func listens(t *testing.T, s *trialSandbox) string {
	t.Helper()
	if _, err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	n, err := s.backend.engine.NetworkInspect(t.Context(), s.plan.network, client.NetworkInspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(n.Network.Containers) != 1 {
		t.Fatalf("a task network has %d members, want the agent alone", len(n.Network.Containers))
	}
	return s.Servers.String()
}

// TestServersStandAlone has a server look for the agent and another server, and the agent for a port that a server listens on.
func TestServersStandAlone(t *testing.T) {
	b, program := openBackend(t), attacker(t)
	for _, kind := range []string{sandbox.NetworkBridge, sandbox.NetworkAirtight} {
		t.Run(kind, func(t *testing.T) {
			trial := attackedTrial(b.run, "alone-"+kind, kind)
			addServer(trial, "other", trial.Container("victim").Container)
			s := openSandbox(t, b, trial, func(evidence.Event) {})
			if _, err := s.Listen(t.Context()); err != nil {
				t.Fatal(err)
			}
			const port = "8080"
			for _, name := range []string{"victim", "other"} {
				if _, err := s.containers[name].Guest.Listen(t.Context(), "0.0.0.0:"+port); err != nil {
					t.Fatal(err)
				}
			}
			server, agent := s.containers["victim"].Guest, s.containers[sandbox.Agent].Guest
			arm(t, server, program)
			arm(t, agent, program)
			for _, aim := range [][2]string{{"other", port}, {"agent", port}, {"agent", "80"}, {"victim", "80"}, {"127.0.1.1", "80"}} {
				if done, _ := attack(t, startIn(server), "tcp", aim[0], aim[1]); done {
					t.Errorf("a server reached %s", aim)
				}
			}
			if done, _ := attack(t, startIn(agent), "tcp", "victim", port); done {
				t.Error("the agent reached a server past the runner")
			}
			if done, said := attack(t, startIn(agent), "tcp", "victim", "80"); !done {
				t.Errorf("the agent does not reach the runner: %s", said)
			}
		})
	}
}

// TestNoOtherSockets tries what a filter could have left open.
func TestNoOtherSockets(t *testing.T) {
	b, program := openBackend(t), attacker(t)
	s := openSandbox(t, b, attackedTrial(b.run, "sockets", sandbox.NetworkBridge), func(evidence.Event) {})
	g := s.containers[sandbox.Agent].Guest
	arm(t, g, program)
	for _, how := range []string{"raw", "packet", "vsock", "ping", "sctp", "high-bits", "io-uring"} {
		if done, said := attack(t, startIn(g), how); done {
			t.Errorf("%s was not refused: %s", how, said)
		}
	}
	undefended := openUndefended(t, b, attackedTrial(b.run, "control-sockets", sandbox.NetworkBridge),
		func(*client.NetworkCreateOptions) {}, func(c *containerPlan) { c.host.SecurityOpt = c.host.SecurityOpt[:1] })
	arm(t, undefended, program)
	if done, said := attack(t, startIn(undefended), "high-bits"); !done {
		t.Errorf("high-bits is refused without the filter too, so it proves nothing: %s", said)
	}
}

// TestNobodyTakesOverProcessOne attacks the guest from a program of the same user and, as a
// control, another program, where the same attacks succeed.
func TestNobodyTakesOverProcessOne(t *testing.T) {
	b, program := openBackend(t), attacker(t)
	s := openSandbox(t, b, attackedTrial(b.run, "process-one", sandbox.NetworkAirtight), func(evidence.Event) {})
	g := s.containers[sandbox.Agent].Guest
	arm(t, g, program)
	for _, how := range []string{"fd", "mem", "ptrace", "freeze"} {
		if done, said := attack(t, startIn(g), how, "1"); done {
			t.Errorf("%s on process 1 worked: %s", how, said)
		}
	}
	for range 60 { // it takes luck where one of them has its default effect
		attack(t, startIn(g), "signals", "1")
	}
	if done, said := attack(t, startIn(g), "fd", "self"); !done {
		t.Errorf("process 1 no longer starts programs: %s", said)
	}
	sleeper, err := g.Exec(t.Context(), process.Spec{Args: []string{"/tmp/attacker", "sleep"}}, false)
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 20)
	n, err := sleeper.Stdout().Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(line[:n]))
	go func() { _, _ = io.Copy(io.Discard, sleeper.Stdout()) }()
	go func() { _, _ = io.Copy(io.Discard, sleeper.Stderr()) }()
	for _, how := range []string{"fd", "mem", "freeze"} {
		if done, said := attack(t, startIn(g), how, pid); !done {
			t.Errorf("%s does not work on an ordinary process either, so it proves nothing: %s", how, said)
		}
	}
	attack(t, startIn(g), "signals", pid)
	if exit, err := sleeper.Wait(); err != nil || exit == (process.Exit{}) {
		t.Errorf("signals do not end an ordinary process either: %+v, %v", exit, err)
	}
}

// TestNamesStayInside asks for names of the trial, of other containers and of
// the world, and looks at what the guest answered.
func TestNamesStayInside(t *testing.T) {
	b, program := openBackend(t), attacker(t)
	for _, kind := range []string{sandbox.NetworkBridge, sandbox.NetworkAirtight} {
		t.Run(kind, func(t *testing.T) {
			asked := make(chan string, 100)
			s := openSandbox(t, b, attackedTrial(b.run, "names-"+kind, kind), func(e evidence.Event) {
				if e.Kind == "dns" {
					asked <- e.Where + " " + e.Data["name"].(string)
				}
			})
			for _, ctr := range []string{sandbox.Agent, "victim"} {
				g := s.containers[ctr].Guest
				arm(t, g, program)
				for _, name := range []string{"secret-in-a-name.example", "host.docker.internal", "nosuch"} {
					if done, said := attack(t, startIn(g), "resolve", name); done {
						t.Errorf("%s resolves in the container of %s: %s", name, ctr, said)
					}
					wantEvent(t, asked, ctr+" "+name)
				}
			}
			if done, said := attack(t, startIn(s.containers[sandbox.Agent].Guest), "resolve", "victim"); !done {
				t.Errorf("a server's name does not resolve for the agent: %s", said)
			}
		})
	}
}

// wantEvent waits for an event among others.
func wantEvent(t *testing.T, events <-chan string, want string) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		select {
		case got := <-events:
			if got == want {
				return
			}
		case <-late:
			t.Errorf("no event says %q", want)
			return
		}
	}
}
