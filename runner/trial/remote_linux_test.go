package trial

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/mcpconfig"
	"github.com/waza-isolate/waza/runner/plan"
)

// fickle is who answers for all names, and may say something else at each question.
type fickle struct{ to atomic.Value }

func (f *fickle) lead(to string) { f.to.Store(netip.MustParseAddr(to).As4()) }

func (f *fickle) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go f.answerAll(theirs)
		return ours, nil
	}}
}

// answerAll answers what is asked over a stream; RFC 1035, section 4.2.2.
func (f *fickle) answerAll(conn net.Conn) {
	defer conn.Close()
	for {
		var size uint16
		if binary.Read(conn, binary.BigEndian, &size) != nil {
			return
		}
		asked := make([]byte, size)
		if _, err := io.ReadFull(conn, asked); err != nil {
			return
		}
		answer := f.answer(asked)
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

func (f *fickle) answer(asked []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(asked) != nil {
		return nil
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	if question := m.Questions[0]; question.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET},
			Body:   &dnsmessage.AResource{A: f.to.Load().([4]byte)},
		}}
	}
	answer, _ := m.Pack()
	return answer
}

// The remote server of a test, and what of this machine it would like to reach.
const (
	serverAt = "127.0.0.2"
	victimAt = "127.0.0.3"
)

// listenAtBoth listens at one port of both addresses.
func listenAtBoth(t *testing.T) (server, victim net.Listener) {
	t.Helper()
	for range 20 {
		server, err := net.Listen("tcp", serverAt+":0")
		if err != nil {
			t.Fatal(err)
		}
		if victim, err := net.Listen("tcp", net.JoinHostPort(victimAt, portOf(server))); err == nil {
			return server, victim
		}
		_ = server.Close()
	}
	t.Fatal("no port is free at both addresses")
	return nil, nil
}

// serveOn serves on a listener until the test ends.
func serveOn(t *testing.T, l net.Listener, secure bool, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	_ = s.Listener.Close()
	s.Listener, s.Config.ErrorLog = l, log.New(io.Discard, "", 0)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// arrivals counts connections, whether or not anything is said on them.
type arrivals struct {
	net.Listener
	n atomic.Int32
}

func (a *arrivals) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.n.Add(1)
	}
	return conn, err
}

// reported keeps the events of a trial.
type reported struct {
	discard
	mu  sync.Mutex
	all []string // guarded by mu
}

func (r *reported) Event(e evidence.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprint(e.Kind, ": ", e.Message, " ", e.Data))
}

func (r *reported) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.all, "\n")
}

// A remote server's name that leads to the server first and to this machine later does
// not take the runner there: neither with the next connection nor after a redirect to the
// server's own origin, over http and over https.
func TestRebinding(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		for _, by := range []string{"connection", "redirect"} {
			t.Run(scheme+" "+by, func(t *testing.T) {
				t.Parallel()
				rebind(t, scheme, by == "redirect")
			})
		}
	}
}

func rebind(t *testing.T, scheme string, redirect bool) {
	names := &fickle{}
	names.lead(serverAt)
	at, inside := listenAtBoth(t)
	victim := &arrivals{Listener: inside}
	serveOn(t, victim, scheme == "https", http.NotFoundHandler())
	server := serveOn(t, at, scheme == "https", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "tools/call") {
			names.lead(victimAt)
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))

	rec := &reported{}
	plan := plan.Server{Name: "far", Expanded: mcpconfig.Server{Addresses: []string{serverAt}}}
	where := &url.URL{Scheme: scheme, Host: "example.com:" + portOf(at), Path: "/mcp"}
	dialer, err := remoteTransport(plan, where, rec, names.resolver())
	if err != nil {
		t.Fatal(err)
	}
	defer dialer.CloseIdleConnections()
	if scheme == "https" {
		dialer.TLSClientConfig = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	}
	proxy := proxy.New(rec, proxy.Limits{}, proxy.Server{Server: transport.Server{Name: "far", Upstream: &transport.Upstream{URL: where, Transport: dialer, Remote: true}}})
	defer func() { _ = proxy.Close(context.Background()) }()
	ask := func(method string) int {
		r := httptest.NewRequest(http.MethodPost, "http://far/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		proxy.Handler("far").ServeHTTP(w, r)
		return w.Code
	}

	if status := ask("ping"); status != http.StatusOK {
		t.Fatalf("the server answers %d\n%s", status, rec)
	}
	method := "tools/call"
	if !redirect {
		method = "ping"
		names.lead(victimAt)
	}
	if status := ask(method); status != http.StatusBadGateway {
		t.Errorf("once its name leads elsewhere, it answers %d", status)
	}
	if n := victim.n.Load(); n != 0 {
		t.Errorf("%d connections went to %v", n, victim.Addr())
	}
	if !strings.Contains(rec.String(), victimAt+` is not a public address but loopback; if the server is meant to be there, set addresses: ["127.0.0.3/32"] of mcp_servers.far in an eval`) {
		t.Errorf("told %s", rec)
	}
	for _, what := range []string{"egress: the runner connects to ", "egress: the runner does not connect to "} {
		if n := strings.Count(rec.String(), what+where.Scheme); n != 1 {
			t.Errorf("%q is told %d times", what, n)
		}
	}
}

// Where a remote server is on the user's own network, what is said is one sentence with
// what to write; written, that does.
func TestAddressesOfARemoteServer(t *testing.T) {
	t.Parallel()
	names := &fickle{}
	names.lead(serverAt)
	at, err := net.Listen("tcp", serverAt+":0")
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, at, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	where := &url.URL{Scheme: "http", Host: "mcp.corp.example:" + portOf(at), Path: "/mcp"}
	for want, allowed := range map[string][]string{
		`MCP server "far" cannot be reached: 127.0.0.2 is not a public address but loopback; if the server is meant to be there, set addresses: ["127.0.0.2/32"] of mcp_servers.far in an eval`: nil,
		`MCP server "far" requires authorization`: {"127.0.0.2/32"},
	} {
		dialer, err := remoteTransport(plan.Server{Name: "far", Expanded: mcpconfig.Server{Addresses: allowed}}, where, &reported{}, names.resolver())
		if err != nil {
			t.Fatal(err)
		}
		p := proxy.New(&reported{}, proxy.Limits{}, proxy.Server{Server: transport.Server{
			Name: "far", Start: time.Minute, Upstream: &transport.Upstream{URL: where, Transport: dialer, Remote: true},
		}})
		_, _, err = client.Probe(t.Context(), &reported{}, p.Own("far"), nil, false)
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err == nil || err.Error() != want && (allowed == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("got %v\nwant %s", err, want)
		}
		dialer.CloseIdleConnections()
	}
}

func portOf(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}
