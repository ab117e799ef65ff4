package sandboxtest

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/waza-isolate/waza/internal/tree/treetest"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// serveAt serves the name of the requested server at each endpoint: that of the endpoint, or of
// the Host header if it has none.
func serveAt(t *testing.T, places []sandbox.Endpoint) (stop func()) {
	t.Helper()
	var serving sync.WaitGroup
	var servers []*http.Server
	for _, place := range places {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			name := place.Server
			if name == "" {
				name = r.Host
			}
			fmt.Fprintf(w, "%s %s", name, r.URL.Path)
		})}
		servers = append(servers, server)
		serving.Go(func() { _ = server.Serve(place) })
	}
	return sync.OnceFunc(func() {
		for _, server := range servers {
			_ = server.Close()
		}
		serving.Wait()
	})
}

// tell writes mcp.json with the addresses of the endpoints, as a runner does.
func tell(t *testing.T, sb sandbox.Sandbox, places []sandbox.Endpoint) {
	t.Helper()
	hosts := map[string]string{"one": "one", "two": "two"}
	moved := false
	for _, place := range places {
		if place.Host != "" {
			hosts[place.Server], moved = place.Host, true
		}
	}
	if moved {
		put(t, sb, "/", treetest.Entry{Name: strings.TrimPrefix(sandbox.MCPConfigPath, "/"), Content: string(mcpconfig.Render(hosts))})
	}
}

// listen checks that the agent reaches each server at its URL in mcp.json.
func (s *suite) listen(t *testing.T, sb sandbox.Sandbox) {
	s.visitAll(t, sb)
}

func (s *suite) visitAll(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	places, err := sb.Listen(within(t))
	if err != nil {
		t.Fatal(err)
	}
	stop := serveAt(t, places)
	defer stop()
	tell(t, sb, places)
	for _, server := range []string{"one", "two"} {
		got := s.say(t, sb, sandbox.Agent, "visit", sb.Layout(sandbox.Agent).MCPConfig, server)
		if got != server+" /mcp" {
			t.Errorf("at the URL of %s the agent finds %q", server, got)
		}
	}
}

// models checks that the agent reaches its models, with and without servers.
func (s *suite) models(t *testing.T) {
	for _, servers := range []int{0, 2} {
		spec := s.spec(t)
		spec.Number, spec.Containers = servers+1, spec.Containers[:1+servers]
		spec.Reach = append(spec.Reach[:servers], sandbox.Edge{From: sandbox.Agent, Name: sandbox.ModelHost, To: sandbox.ModelHost})
		sb := s.standWith(t, spec)
		places, err := sb.Listen(within(t))
		if err != nil {
			t.Fatal(err)
		}
		stop := serveAt(t, places)
		defer stop()
		url := sb.Layout(sandbox.Agent).Models
		got := s.say(t, sb, sandbox.Agent, "fetch", url+"/provider/x")
		if got != sandbox.ModelHost+" /provider/x" {
			t.Errorf("with %d servers the agent finds %q at %s", servers, got, url)
		}
	}
}

// listenAgain checks that endpoints can be opened again after their listeners were closed.
func (s *suite) listenAgain(t *testing.T, sb sandbox.Sandbox) {
	for range 2 {
		s.visitAll(t, sb)
	}
}

// dial checks that the runner can connect to loopback of a server's container.
func (s *suite) dial(t *testing.T, sb sandbox.Sandbox) {
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		r := s.start(t, sb, "one", "serve", loopback)
		port, err := strconv.Atoi(r.line(t))
		if err != nil {
			e := r.wait(t)
			if loopback == "::1" {
				t.Logf("no IPv6 here: %s", e.stderr)
				continue
			}
			t.Fatalf("%s: %s", loopback, e.stderr)
		}
		conn, err := sb.Dial(within(t), "one", port)
		if err != nil {
			t.Fatalf("%s: %v", loopback, err)
		}
		if said, err := io.ReadAll(conn); string(said) != "hello" {
			t.Errorf("%s: it says %q, %v", loopback, said, err)
		}
		_ = conn.Close()
		_ = r.Signal(process.Kill)
		r.wait(t)
		if conn, err := sb.Dial(within(t), "one", port); err == nil {
			_ = conn.Close()
			t.Errorf("%s: something listens where nothing does", loopback)
		}
	}
}
