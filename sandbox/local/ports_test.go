package local

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
)

func standWith(t *testing.T, b *Backend, task string, servers ...string) *trialSandbox {
	t.Helper()
	spec := &sandbox.Spec{Task: task, Number: 1}
	for _, name := range servers {
		spec.Containers = append(spec.Containers, sandbox.ContainerSpec{Name: name, Role: sandbox.RoleServer})
	}
	s, err := b.Open(t.Context(), spec, func(evidence.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s.(*trialSandbox)
}

// freePort is one that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().(*net.TCPAddr).Port
}

// Two servers of a run never share a port, and one that has ended gives it back.
func TestPortsOfARun(t *testing.T) {
	b := open(t, t.TempDir(), "r")
	t.Cleanup(func() { closed(t, b) })
	port := freePort(t)
	first, second := standWith(t, b, "first", "a", "b"), standWith(t, b, "second", "c")
	if err := first.TakePort(t.Context(), "a", port); err != nil {
		t.Fatal(err)
	}
	for server, s := range map[string]*trialSandbox{"b": first, "c": second} {
		if err := s.TakePort(t.Context(), server, port); err == nil || !strings.Contains(err.Error(), `server "a" of first/1 has it`) {
			t.Errorf("%s: %v", server, err)
		}
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := second.TakePort(t.Context(), "c", port); err != nil {
		t.Error(err)
	}
}

// Whoever listens on a server's port already is not taken for the server.
func TestPortOfAStranger(t *testing.T) {
	b := open(t, t.TempDir(), "r")
	t.Cleanup(func() { closed(t, b) })
	s := standWith(t, b, "task", "a")
	for _, network := range []string{"tcp4", "tcp6"} {
		address := map[string]string{"tcp4": "127.0.0.1:0", "tcp6": "[::1]:0"}[network]
		ln, err := net.Listen(network, address)
		if err != nil {
			t.Logf("%s is not here: %v", network, err)
			continue
		}
		port := ln.Addr().(*net.TCPAddr).Port
		want := fmt.Sprintf("port %d of this machine is taken: another program listens there", port)
		if err := s.TakePort(t.Context(), "a", port); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", network, err)
		}
		_ = ln.Close()
	}
}
