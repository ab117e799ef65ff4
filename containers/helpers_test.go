package containers

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// TestMain plays the victim where a test asks for one, and sees to it that tests
// leave no goroutine.
func TestMain(m *testing.M) {
	if run := os.Getenv(victimEnv); run != "" {
		playVictim(run)
	}
	goleak.VerifyTestMain(m)
}

const (
	debian  = "debian:bookworm-slim"
	timeout = 3 * time.Minute
)

// runID names a run that nobody else has, and checks at the test's end that
// nothing of it is left.
func runID(t *testing.T) string {
	t.Helper()
	random := make([]byte, 6)
	_, _ = rand.Read(random)
	run := "test-" + hex.EncodeToString(random)
	engine := dockertest.Engine(t)
	t.Cleanup(func() { dockertest.NoObjects(t, engine, run) })
	return run
}

// openRun opens a run on the engine, closed at the test's end.
func openRun(t *testing.T) *Backend {
	t.Helper()
	dockertest.Image(t, debian)
	run := runID(t)
	b, err := Open(within(t), Options{Run: run, Guest: dockertest.Waza(t)})
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

// trialOf is a sandbox with an agent on Debian and a server on each image given,
// called s0, s1 and so on.
func trialOf(b *Backend, network string, servers ...string) *sandbox.Spec {
	t := &sandbox.Spec{
		Run: b.run, Task: "task", Number: 1, Network: network,
		Containers: []sandbox.ContainerSpec{sandbox.AgentContainer(containerOf(debian), "tmpfs", "{\"mcpServers\":{}}\n")},
	}
	for i, image := range servers {
		addServer(t, "s"+string(rune('0'+i)), containerOf(image))
	}
	return t
}

// addServer adds a server, which the agent reaches by its name.
func addServer(t *sandbox.Spec, name string, c sandbox.Container) {
	t.Containers = append(t.Containers, sandbox.ContainerSpec{Container: c, Name: name, Role: sandbox.RoleServer})
	t.Reach = append(t.Reach, sandbox.Edge{From: sandbox.Agent, Name: name, To: name})
}

// addService adds a service, which the server reaches by its name.
func addService(t *sandbox.Spec, server, name string, c sandbox.Container, ports ...int) {
	of := sandbox.ServiceName(server, name)
	t.Containers = append(t.Containers, sandbox.ContainerSpec{Container: c, Name: of, Role: sandbox.RoleService})
	t.Reach = append(t.Reach, sandbox.Edge{From: server, Name: name, To: of, Ports: ports})
}

// useVolume gives the agent a workspace of any size.
func useVolume(t *sandbox.Spec) {
	agent := t.Container(sandbox.Agent)
	*agent = sandbox.AgentContainer(agent.Container, sandbox.WorkspaceVolume, agent.MCPConfig)
}

func containerOf(image string) sandbox.Container {
	return sandbox.Container{Image: image, CPUs: 1, Memory: 128 << 20, Disk: 4 << 20, Pids: 64}
}

// stand opens a trial's sandbox, closed at the test's end.
func stand(t *testing.T, b *Backend, trial *sandbox.Spec) (*trialSandbox, *observed) {
	t.Helper()
	seen := &observed{}
	return openSandbox(t, b, trial, seen.add), seen
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

// observed is the events of a sandbox.
type observed struct {
	mu     sync.Mutex
	events []evidence.Event // guarded by mu
}

func (o *observed) add(e evidence.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *observed) has(match func(evidence.Event) bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.events, match)
}

// ended is what a program in a sandbox did.
type ended struct {
	stdout, stderr string
	exit           process.Exit
	err            error // of Wait
}

// sh runs a shell script in a container of the sandbox to its end.
func sh(t *testing.T, s *trialSandbox, ctr, script string, env ...string) ended {
	t.Helper()
	p, err := s.Start(within(t), ctr, process.Spec{Args: []string{"/bin/sh", "-c", script}, Env: env})
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	_ = p.Stdin().Close()
	var e ended
	var readers sync.WaitGroup
	read := func(into *string, from io.Reader) {
		readers.Go(func() {
			var text bytes.Buffer
			_, _ = io.Copy(&text, from)
			*into = text.String()
		})
	}
	read(&e.stdout, p.Stdout())
	read(&e.stderr, p.Stderr())
	e.exit, e.err = p.Wait()
	readers.Wait()
	return e
}

// mustSh is sh for a script that has to succeed; it returns what it said.
func mustSh(t *testing.T, s *trialSandbox, ctr, script string) string {
	t.Helper()
	e := sh(t, s, ctr, script)
	if e.err != nil || e.exit.Code != 0 {
		t.Fatalf("%s: exit %+v, %v\n%s%s", script, e.exit, e.err, e.stdout, e.stderr)
	}
	return strings.TrimSpace(e.stdout)
}

// inspectAll returns the containers of a run by the role in their label.
func inspectAll(t *testing.T, run string) map[string][]container.InspectResponse {
	t.Helper()
	engine := dockertest.Engine(t)
	all := map[string][]container.InspectResponse{}
	for _, c := range dockertest.Containers(t, engine, run) {
		found, err := engine.ContainerInspect(t.Context(), c.ID, client.ContainerInspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		role := c.Labels[labelRole]
		all[role] = append(all[role], found.Container)
	}
	return all
}

// bothNetworks runs a test once for each kind of network, in parallel with other tests.
func bothNetworks(t *testing.T, test func(t *testing.T, network string)) {
	t.Helper()
	t.Parallel()
	for _, network := range []string{sandbox.NetworkBridge, sandbox.NetworkAirtight} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			test(t, network)
		})
	}
}
