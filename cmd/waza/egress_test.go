package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// world is the hosts outside: one with TLS and one without, on loopback.
type world struct {
	plain, secure *httptest.Server
	authority     string // of the certificate, as PEM

	mu   sync.Mutex
	seen []string // Host and path of each request; guarded by mu
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	w := &world{}
	handler := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.seen = append(w.seen, r.Host+r.URL.Path)
		w.mu.Unlock()
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(out, "hello from %s", r.Host)
	})
	w.plain = httptest.NewServer(handler)
	w.secure = httptest.NewUnstartedServer(handler)
	w.secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a host outside"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	w.authority = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	w.secure.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	w.secure.StartTLS()
	t.Cleanup(w.plain.Close)
	t.Cleanup(w.secure.Close)
	return w
}

func addressOf(s *httptest.Server) string { return s.Listener.Addr().String() }

// sayer is a service that sends first and does not speak HTTP.
func sayer(t *testing.T) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				_, _ = io.WriteString(conn, "220 ready\r\n")
				_, _ = io.CopyN(conn, conn, int64(len("QUIT\r\n")))
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		conns.Wait()
	})
	return ln.Addr().String()
}

// try is an attempt to connect, and its expected result.
type try struct {
	what string
	args []any  // how, and its arguments
	want string // in what came
}

func tries(all []try) string {
	lists := make([][]any, len(all))
	for i, one := range all {
		lists[i] = append([]any{one.what}, one.args...)
	}
	text, err := json.Marshal(lists)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func checkTries(t *testing.T, container, said string, all []try) {
	t.Helper()
	for _, one := range all {
		came, found := "", false
		for line := range strings.Lines(said) {
			if rest, ok := strings.CutPrefix(line, one.what+" => "); ok {
				came, found = strings.TrimSpace(rest), true
			}
		}
		if !found || !strings.Contains(came, one.want) {
			t.Errorf("%s, %s: %q, want %q", container, one.what, came, one.want)
		}
	}
}

// TestEgress checks that agent and server reach the allowed hosts, directly and through the
// proxy, and nothing else, and that each attempt is recorded.
func TestEgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "api.egress.example", "*.wild.egress.example")
	victim := listenEverywhere(t)
	within := []try{
		{"https", []any{"fetch", "https://api.egress.example/x"}, "hello from api.egress.example"},
		{"http", []any{"fetch", "http://api.egress.example/x"}, "hello from api.egress.example"},
		{"below", []any{"fetch", "https://deep.in.wild.egress.example/x"}, "failed"}, // its certificate is for one label
		{"wild", []any{"fetch", "https://a.wild.egress.example/x"}, "hello from a.wild.egress.example"},
	}
	direct := append(within[:len(within):len(within)],
		try{"resolves", []any{"resolve", "api.egress.example"}, "127.0.3."},
		try{"other name", []any{"resolve", "evil.example"}, "ENOTFOUND"},
		try{"apex of a wildcard", []any{"resolve", "wild.egress.example"}, "ENOTFOUND"},
		try{"other sni", []any{"tls", "api.egress.example", 443, "evil.example", "api.egress.example"}, "failed"},
		try{"sni of the other place", []any{"tls", "api.egress.example", 443, "a.wild.egress.example", "x"}, "failed"},
		try{"no sni", []any{"tls", "api.egress.example", 443, "", "api.egress.example"}, "failed"},
		try{"other host", []any{"raw", "api.egress.example", 80, "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"}, "403"},
		try{"absolute host", []any{"raw", "api.egress.example", 80, "GET http://evil.example/ HTTP/1.1\r\nHost: api.egress.example\r\n\r\n"}, "403"},
		try{"two hosts", []any{"raw", "api.egress.example", 80, "GET / HTTP/1.1\r\nHost: api.egress.example\r\nHost: evil.example\r\n\r\n"}, "400"},
		try{"second request", []any{"raw", "api.egress.example", 80, "GET /a HTTP/1.1\r\nHost: api.egress.example\r\n\r\nGET /b HTTP/1.1\r\nHost: evil.example\r\n\r\n"}, "403"},
		try{"no protocol", []any{"raw", "api.egress.example", 443, "\x00\x01\x02\r\n\r\n"}, "400"},
		try{"other port", []any{"raw", "api.egress.example", 8443, "x"}, "ECONNREFUSED"},
		try{"by address", []any{"raw", "192.0.2.1", 443, "x"}, "failed"},
		try{"connect", []any{"connect-tls", "api.egress.example:443", "api.egress.example"}, "hello from api.egress.example"},
		try{"connect, other name", []any{"connect", "evil.example:443", "x"}, "failed: HTTP/1.1 403"},
		try{"connect, other port", []any{"connect", "api.egress.example:22", "x"}, "failed: HTTP/1.1 403"},
		try{"connect, other sni", []any{"connect-tls", "api.egress.example:443", "evil.example"}, "failed"},
		try{"connect, decimal", []any{"connect", "2130706433:443", "x"}, "failed: HTTP/1.1 403"},
		try{"connect, what speaks first", []any{"connect", "mail.egress.example:25", "QUIT\r\n"}, "220 ready QUIT"},
		try{"what is not found", []any{"connect", "absent.invalid:443", "x"}, "failed: HTTP/1.1 403"},
	)
	for _, address := range append(hostAddresses(t), "127.0.0.1", "192.0.2.77") {
		direct = append(direct,
			try{"at " + address, []any{"raw", address, victim.port, "GET / HTTP/1.1\r\nHost: api.egress.example\r\n\r\n"}, "failed"},
			try{"connect at " + address, []any{"connect", address + ":" + strconv.Itoa(victim.port), "x"}, "failed: HTTP/1.1 403"},
			try{"proxy, to " + address, []any{"raw", "127.0.3.254", 3128, fmt.Sprintf("GET http://%s:%d/ HTTP/1.1\r\nHost: api.egress.example\r\n\r\n", address, victim.port)}, "403"})
	}
	past := []try{
		{"past the limit", []any{"flood", "api.egress.example", 80, 3 << 20}, ""},
		{"after the limit", []any{"connect", "api.egress.example:443", "x"}, "failed: HTTP/1.1 403"},
	}
	egress := fmt.Sprintf(`
          - {host: "api.egress.example:443", address: "%[1]s"}
          - {host: "api.egress.example:80", address: "%[2]s"}
          - {host: "*.wild.egress.example:443", address: "%[1]s"}
          - {host: "mail.egress.example:25", address: "%[3]s"}
          - absent.invalid:443`, addressOf(w.secure), addressOf(w.plain), sayer(t))
	const run = `node --input-type=module < /data/try.js`
	both := "TRIES=\"$DIRECT\" HTTP_PROXY= HTTPS_PROXY= http_proxy= https_proxy= NODE_USE_ENV_PROXY= " + run + "; TRIES=\"$PROXIED\" " + run
	for _, network := range []string{"bridge", "airtight"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			p := newProject(t, fmt.Sprintf(`
-- eval.yaml --
name: NAME
config:
  trials_per_task: 1
  executor: command
  agent: {command: sh, args: [-c, %[3]q]}
  isolation:
    network: %[1]s
    egress_limits: {bytes: 2m}
    agent:
      image: node:24-bookworm-slim
      env: {NODE_EXTRA_CA_CERTS: /workspace/ca.pem, DIRECT: %[4]q, PROXIED: %[5]q}
      egress:%[2]s
  mcp_servers:
    everything:
      image: waza-examples/npm-servers
      command: sh
      args: [-c, %[6]q]
      startup_timeout: 120
      env: {NODE_EXTRA_CA_CERTS: /data/ca.pem, DIRECT: %[4]q, PROXIED: %[5]q}
      files: {/data/try.js: try.js, /data/ca.pem: fixtures/ca.pem}
      egress:%[2]s
    alone: {image: waza-examples/inventory}
tasks: [task.yaml]
-- task.yaml --
id: x
inputs: {prompt: x, files: [{path: try.js}, {path: ca.pem}]}
`, network, egress, strings.ReplaceAll(both, "/data/", "/workspace/"), tries(direct), tries(append(proxied(within), past...)), "exec 3>&1; { "+both+"; } >&2; exec mcp-server-everything"), npmServers, node, inventory)
			script, err := os.ReadFile("testdata/egress/try.js")
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range []string{"", "fixtures/"} {
				p.write(dir+"try.js", string(script))
				p.write(dir+"ca.pem", w.authority)
			}
			p.run(exitOK)
			all := slices.Concat(direct, proxied(within), past)
			checkTries(t, "agent", p.runOf("x").FinalOutput, all)
			checkTries(t, "server", p.read("run", "trials", "x", "1", "servers", "everything.stderr"), all)
			for _, container := range []string{"agent", "everything"} {
				checkEgressEvents(t, p.trial("x"), container)
			}
			missing := strings.Join(p.trialRecord("x").Guarantees.Missing, "\n")
			for _, who := range []string{"the agent", `server "everything"`} {
				if want := who + " may reach api.egress.example:443 at "; !strings.Contains(missing, want) {
					t.Errorf("%q is not in\n%s", want, missing)
				}
			}
		})
	}
	t.Cleanup(func() {
		if got := victim.met(); got != "" {
			t.Errorf("somebody was reached who is not allowed: %s", got)
		}
		for _, seen := range w.requests() {
			if !strings.Contains(seen, ".egress.example") {
				t.Errorf("asked outside: %s", seen)
			}
		}
	})
}

func (w *world) requests() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// hostAddresses returns the addresses of this machine, including those of bridges.
func hostAddresses(t *testing.T) []string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var addresses []string
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() && len(addresses) < 4 {
			addresses = append(addresses, ip.IP.String())
		}
	}
	return addresses
}

// listener listens at every address of this machine for who must not get there.
type listener struct {
	port int

	mu  sync.Mutex
	who []string // guarded by mu
}

func listenEverywhere(t *testing.T) *listener {
	t.Helper()
	ln, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{port: ln.Addr().(*net.TCPAddr).Port}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.who = append(l.who, conn.RemoteAddr().String()+" at "+conn.LocalAddr().String())
			l.mu.Unlock()
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		serving.Wait()
	})
	return l
}

func (l *listener) met() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.who, ", ")
}

// proxied returns the same attempts through the proxy.
func proxied(all []try) []try {
	var out []try
	for _, one := range all {
		one.what = "proxied " + one.what
		out = append(out, one)
	}
	return out
}

// checkEgressEvents looks for what a container did among the events, and that nothing else of
// it was carried.
func checkEgressEvents(t *testing.T, trial evidence.Dir, container string) {
	t.Helper()
	events, err := trial.Events()
	if err != nil {
		t.Fatal(err)
	}
	reported := map[string]bool{}
	for _, e := range events {
		if e.Kind != "egress" || e.Where != container {
			continue
		}
		name, _ := e.Data["name"].(string)
		allowed, _ := e.Data["allowed"].(bool)
		reported[fmt.Sprintf("%s %v %v %t", name, e.Data["port"], e.Data["by"], allowed)] = true
		out, _ := e.Data["bytes_out"].(float64)
		if allowed && (!strings.HasSuffix(name, ".egress.example") || !strings.HasPrefix(fmt.Sprint(e.Data["address"]), "127.0.0.1:")) || !allowed && out != 0 {
			t.Errorf("%s: %s: %v", container, e.Message, e.Data)
		}
	}
	for _, want := range []string{
		"api.egress.example 443 tls true", "api.egress.example 80 http true", "a.wild.egress.example 443 tls true", "api.egress.example 443 connect true",
		"mail.egress.example 25 connect true", "evil.example 443 tls false", "evil.example 80 http false", "evil.example 443 connect false",
		"api.egress.example 443 tls false", "api.egress.example 22 connect false", "absent.invalid 443 connect false",
	} {
		if !reported[want] {
			t.Errorf("%s: nobody tells of %s; told: %v", container, want, reported)
		}
	}
}
