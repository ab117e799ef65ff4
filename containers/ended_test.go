package containers

import (
	"context"
	"testing"

	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/internal/dockertest"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// turncoat is a guest that can be had to betray the runner.
func turncoat(t *testing.T) string {
	return dockertest.Program(t, "containers/testdata/turncoat", "turncoat")
}

// standOn opens a sandbox whose guests are a program.
func standOn(t *testing.T, guest, network string) (*Backend, *trialSandbox) {
	t.Helper()
	dockertest.Image(t, debian)
	b, err := Open(within(t), Options{Run: runID(t), Guest: guest})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, _ := stand(t, b, trialOf(b, network, debian))
	return b, s
}

// betray makes process 1 of a container misbehave as how says, and does not wait for the
// result.
func betray(t *testing.T, s *trialSandbox, ctr, how string) {
	t.Helper()
	p, err := s.containers[ctr].Guest.Exec(within(t), process.Spec{Args: []string{sandbox.GuestPath, "act", how}}, false)
	if err != nil {
		t.Logf("process 1 did it before it could tell that it started: %v", err)
		return
	}
	_ = p.Stdin().Close()
}

// Whose doing the end of a container was is told by what its programs cannot reach.
func TestFaults_WhoseEnd(t *testing.T) {
	t.Parallel()
	kill := func(signal string) func(*testing.T, *client.Client, *trialSandbox, string) {
		return func(t *testing.T, engine *client.Client, s *trialSandbox, ctr string) {
			if _, err := engine.ContainerKill(within(t), s.containers[ctr].id, client.ContainerKillOptions{Signal: signal}); err != nil {
				t.Fatal(err)
			}
		}
	}
	act := func(how string) func(*testing.T, *client.Client, *trialSandbox, string) {
		return func(t *testing.T, _ *client.Client, s *trialSandbox, ctr string) { betray(t, s, ctr, how) }
	}
	disconnect := func(t *testing.T, engine *client.Client, s *trialSandbox, ctr string) {
		if _, err := engine.NetworkDisconnect(within(t), s.plan.network, client.NetworkDisconnectOptions{Container: s.containers[ctr].id, Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name, network, container string
		end                      func(*testing.T, *client.Client, *trialSandbox, string)
		want                     sandbox.Cause
	}{
		{"the agent ends its guest", sandbox.NetworkAirtight, sandbox.Agent, act("end"), sandbox.ByItself},
		{"the agent ends its guest on a bridge", sandbox.NetworkBridge, sandbox.Agent, act("end"), sandbox.ByItself},
		{"the agent freezes its guest", sandbox.NetworkAirtight, sandbox.Agent, act("freeze"), sandbox.ByItself},
		{"the agent breaks the mux", sandbox.NetworkAirtight, sandbox.Agent, act("garbage"), sandbox.ByBreach},
		{"the agent breaks the mux on a bridge", sandbox.NetworkBridge, sandbox.Agent, act("garbage"), sandbox.ByBreach},
		{"a server ends its guest", sandbox.NetworkAirtight, "s0", act("end"), sandbox.ByItself},
		{"the agent is killed", sandbox.NetworkAirtight, sandbox.Agent, kill("KILL"), sandbox.FromOutside},
		{"the agent is killed on a bridge", sandbox.NetworkBridge, sandbox.Agent, kill("KILL"), sandbox.FromOutside},
		{"a server is killed", sandbox.NetworkAirtight, "s0", kill("KILL"), sandbox.FromOutside},
		{"the agent is stopped", sandbox.NetworkAirtight, sandbox.Agent, kill("STOP"), sandbox.FromOutside},
		{"the agent is paused", sandbox.NetworkAirtight, sandbox.Agent, func(t *testing.T, engine *client.Client, s *trialSandbox, ctr string) {
			if _, err := engine.ContainerPause(within(t), s.containers[ctr].id, client.ContainerPauseOptions{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_, _ = engine.ContainerUnpause(context.Background(), s.containers[ctr].id, client.ContainerUnpauseOptions{})
			})
		}, sandbox.FromOutside},
		{"the agent is removed", sandbox.NetworkAirtight, sandbox.Agent, func(t *testing.T, engine *client.Client, s *trialSandbox, ctr string) {
			if _, err := engine.ContainerRemove(within(t), s.containers[ctr].id, client.ContainerRemoveOptions{Force: true}); err != nil {
				t.Fatal(err)
			}
		}, sandbox.FromOutside},
		{"the agent is taken off its network", sandbox.NetworkBridge, sandbox.Agent, disconnect, sandbox.FromOutside},
		{"a signal that does nothing, and then the agent", sandbox.NetworkAirtight, sandbox.Agent, func(t *testing.T, engine *client.Client, s *trialSandbox, ctr string) {
			kill("TERM")(t, engine, s, ctr)
			betray(t, s, ctr, "end")
		}, sandbox.ByItself},
		{"the agent, while a server is killed", sandbox.NetworkAirtight, sandbox.Agent, func(t *testing.T, engine *client.Client, s *trialSandbox, ctr string) {
			kill("KILL")(t, engine, s, "s0")
			<-s.Gone("s0")
			betray(t, s, ctr, "end")
		}, sandbox.ByItself},
		{"the agent, when the lease is gone", sandbox.NetworkAirtight, sandbox.Agent, func(t *testing.T, engine *client.Client, s *trialSandbox, ctr string) {
			dockertest.Kill(t, engine, s.backend.run, roleLease)
			<-s.lease.Guest.Done()
			betray(t, s, ctr, "end")
		}, sandbox.ByEngine},
	}
	slots := make(chan struct{}, 4)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			guest := turncoat(t)
			if test.name == "the agent is stopped" { // its one process, not a child
				guest = dockertest.Waza(t)
			}
			_, s := standOn(t, guest, test.network)
			for _, ctr := range []string{sandbox.Agent, "s0"} {
				if e := s.Ended(within(t), ctr); e != (sandbox.Exit{}) {
					t.Fatalf("%s stands, and its end is %+v", ctr, e)
				}
			}
			test.end(t, dockertest.Engine(t), s, test.container)
			select {
			case <-s.Gone(test.container):
			case <-within(t).Done():
				t.Fatal("the end is not noticed")
			}
			if e := s.Ended(within(t), test.container); e.Cause != test.want || e.Message == "" {
				t.Errorf("ended by %q: %s; want %q", e.Cause, e.Message, test.want)
			}
		})
	}
}

// An agent may report an error before the engine reports the event: a cut network must be
// found when the error is looked into.
func TestFaults_CutNetworkIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	b, s := standOn(t, turncoat(t), sandbox.NetworkBridge)
	b.watch.close() // the engine says nothing
	if _, err := dockertest.Engine(t).NetworkDisconnect(within(t), s.plan.network, client.NetworkDisconnectOptions{Container: s.containers[sandbox.Agent].id, Force: true}); err != nil {
		t.Fatal(err)
	}
	if e := s.Ended(within(t), sandbox.Agent); e.Cause != sandbox.FromOutside {
		t.Errorf("ended by %q: %s", e.Cause, e.Message)
	}
}
