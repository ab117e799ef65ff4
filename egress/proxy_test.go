package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcpconfig"
)

// outside is a host with TLS and without.
type outside struct {
	plain, secure *httptest.Server

	mu   sync.Mutex
	seen []string // of each request, its Host and path; guarded by mu
}

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		o.mu.Lock()
		o.seen = append(o.seen, r.Method+" "+r.Host+r.URL.String()+" "+string(body))
		o.mu.Unlock()
		switch {
		case r.URL.Path == "/elsewhere":
			w.Header().Set("Location", "http://evil.example/")
			w.WriteHeader(http.StatusFound)
		case r.Header.Get("Upgrade") != "":
			o.upgrade(w, r)
		default:
			_, _ = fmt.Fprintf(w, "hello from %s", r.Host)
		}
	})
	o.plain = httptest.NewServer(handler)
	o.secure = httptest.NewUnstartedServer(handler)
	o.secure.Config.ErrorLog = newQuiet()
	o.secure.StartTLS()
	t.Cleanup(o.plain.Close)
	t.Cleanup(o.secure.Close)
	return o
}

// upgrade echoes what comes, in whatever protocol was asked for.
func (o *outside) upgrade(w http.ResponseWriter, r *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
	_, _ = io.Copy(conn, buffered)
}

func (o *outside) requests() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.seen...)
}

// container is a proxy with its places on ports of this machine.
type container struct {
	t     *testing.T
	proxy *Proxy
	at    map[string]string // addresses by host:port of the place; the proxy's is ""
	// stop ends the proxy and returns its events.
	stop func() []evidence.Egress
}

func newContainer(t *testing.T, o Options) *container {
	t.Helper()
	var mu sync.Mutex
	var reported []evidence.Event
	o.Container = "container"
	o.Record = func(e evidence.Event) {
		mu.Lock()
		defer mu.Unlock()
		reported = append(reported, e)
	}
	if o.Resolve == nil {
		o.Resolve = func(context.Context, string) ([]netip.Addr, error) { return nil, errors.New("nobody is known") }
	}
	c := New(o)
	b := &container{t: t, proxy: c, at: map[string]string{}}
	for _, place := range Places(o.Allowed) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		name := ""
		if place.Host != "" {
			name = fmt.Sprintf("%s:%d", place.Host, place.At.Port())
		}
		b.at[name] = ln.Addr().String()
		c.Serve(ln, place)
	}
	b.stop = func() []evidence.Egress {
		c.Close()
		mu.Lock()
		defer mu.Unlock()
		var all []evidence.Egress
		for _, e := range reported {
			all = append(all, egressOf(e))
		}
		return all
	}
	t.Cleanup(c.Close)
	return b
}

func egressOf(e evidence.Event) evidence.Egress {
	number := func(key string) int64 {
		n, _ := e.Data[key].(float64)
		return int64(n)
	}
	text := func(key string) string {
		s, _ := e.Data[key].(string)
		return s
	}
	allowed, _ := e.Data["allowed"].(bool)
	return evidence.Egress{
		Name: text("name"), Port: int(number("port")), By: text("by"), Allowed: allowed, Address: text("address"),
		Why: text("why"), Out: number("bytes_out"), In: number("bytes_in"),
	}
}

func (b *container) dial(place string) net.Conn {
	b.t.Helper()
	at, ok := b.at[place]
	if !ok {
		b.t.Fatalf("no place %q", place)
	}
	conn, err := net.Dial("tcp", at)
	if err != nil {
		b.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	b.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// say writes to a place and returns all that comes back.
func (b *container) say(place, text string) string {
	b.t.Helper()
	conn := b.dial(place)
	_, _ = io.WriteString(conn, text)
	back, _ := io.ReadAll(conn)
	return string(back)
}

// end is say, after which nothing more is said.
func (b *container) end(place, text string) string {
	b.t.Helper()
	conn := b.dial(place)
	_, _ = io.WriteString(conn, text)
	_ = conn.(*net.TCPConn).CloseWrite()
	back, _ := io.ReadAll(conn)
	return string(back)
}

// secure makes a TLS request over a connection.
func secure(conn net.Conn, serverName, host string) (string, error) {
	c := tls.Client(conn, &tls.Config{ServerName: serverName, InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		return "", err
	}
	_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
	answer, err := io.ReadAll(c)
	_ = c.Close()
	return string(answer), err
}

// connect opens a tunnel by the proxy; its answer is the status line where it fails.
func (b *container) connect(to string) (net.Conn, string) {
	b.t.Helper()
	conn := b.dial("")
	_, _ = fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", to)
	status := make([]byte, 0, 64)
	for !bytes.HasSuffix(status, []byte("\r\n\r\n")) && len(status) < 4096 {
		one := make([]byte, 1)
		if _, err := conn.Read(one); err != nil {
			break
		}
		status = append(status, one[0])
	}
	line, _, _ := strings.Cut(string(status), "\r\n")
	return conn, line
}

func pinned(host string, to *httptest.Server) mcpconfig.Egress {
	return mcpconfig.Egress{Host: host, Address: to.Listener.Addr().String()}
}

func allow(t *testing.T, entries ...mcpconfig.Egress) []mcpconfig.Destination {
	t.Helper()
	all, problems := mcpconfig.ReadEgress(entries)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return all
}

// What is allowed is carried, by TLS, by HTTP and by the proxy, and told.
func TestCarried(t *testing.T) {
	o := newOutside(t)
	allowed := allow(t, pinned("api.example:443", o.secure), pinned("api.example:80", o.plain), pinned("*.wild.example:443", o.secure), pinned("api.example:8080", o.plain))
	var tap lockedBuffer
	b := newContainer(t, Options{Allowed: allowed, Tap: func(container, host string) io.Writer {
		_, _ = fmt.Fprintf(&tap, "[%s %s]", container, host)
		return &tap
	}})
	for place, name := range map[string]string{"api.example:443": "API.example", "*.wild.example:443": "a.b.wild.example"} {
		if got, err := secure(b.dial(place), name, name); err != nil || !strings.Contains(got, "hello from "+name) {
			t.Errorf("%s: %q, %v", place, got, err)
		}
	}
	if got := b.say("api.example:80", "POST /p?a;b=%zz HTTP/1.1\r\nHost: Api.Example\r\nX-Forwarded-For: me\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc"); !strings.Contains(got, "hello from api.example") {
		t.Errorf("http: %q", got)
	}
	if got := b.say("api.example:8080", "GET /q HTTP/1.0\r\nHost: api.example:8080\r\n\r\n"); !strings.Contains(got, "hello from api.example:8080") {
		t.Errorf("http at 8080: %q", got)
	}
	if got := b.say("", "GET http://api.example/r HTTP/1.1\r\nHost: other.example\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "hello from api.example") {
		t.Errorf("by the proxy: %q", got)
	}
	tunnel, status := b.connect("api.example:443")
	if got, err := secure(tunnel, "api.example", "api.example"); err != nil || !strings.Contains(got, "hello from api.example") {
		t.Errorf("by CONNECT: %s: %q, %v", status, got, err)
	}
	tunnel, _ = b.connect("api.example:80")
	_, _ = io.WriteString(tunnel, "GET /s HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n")
	if got, _ := io.ReadAll(tunnel); !strings.Contains(string(got), "hello from api.example") {
		t.Errorf("plain by CONNECT: %q", got)
	}
	reported := b.stop()
	if len(reported) != 7 {
		t.Errorf("%d events, want 7: %+v", len(reported), reported)
	}
	for _, e := range reported {
		if !e.Allowed || e.Why != "" || e.In == 0 || e.Out == 0 || !strings.HasPrefix(e.Address, "127.0.0.1:") {
			t.Errorf("told %+v", e)
		}
	}
	clear := tap.String()
	for _, want := range []string{"[container api.example]POST /p?a;b=%zz HTTP/1.1", "abc", "GET /q", "GET /r", "GET /s"} {
		if !strings.Contains(clear, want) {
			t.Errorf("%q did not go out in the clear: %q", want, clear)
		}
	}
	if strings.Contains(clear, "wild") {
		t.Error("what is encrypted is no text")
	}
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// What names another host than its place, or none that can be read, is not carried.
func TestRefused(t *testing.T) {
	o := newOutside(t)
	b := newContainer(t, Options{Allowed: allow(t,
		pinned("api.example:443", o.secure), pinned("api.example:80", o.plain), pinned("*.wild.example:443", o.secure), pinned("api.example:8443", o.secure),
		pinned("other.example:80", o.plain), pinned("api.example:8080", o.plain),
		mcpconfig.Egress{Host: "absent.example:443"}, mcpconfig.Egress{Host: "198.51.100.0/24:443"})})
	get := func(host string) string { return "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n" }
	for _, sni := range []string{"", "evil.example", "api.example.evil.example", "a.wild.example", "xapi.example", "127.0.0.1", "api.e\u017fample"} {
		if got, err := secure(b.dial("api.example:443"), sni, "api.example"); err == nil {
			t.Errorf("server name %q: %q", sni, got)
		}
	}
	for _, sni := range []string{"wild.example", ".wild.example", "a..wild.example", "-.wild.example", "xwild.example", "a.wild.example.evil.example", "api.example"} {
		if got, err := secure(b.dial("*.wild.example:443"), sni, "x"); err == nil {
			t.Errorf("server name %q below a wildcard: %q", sni, got)
		}
	}
	for _, text := range []string{
		get("evil.example"), get("other.example"), get("api.example:8080"), get("api.example:22"), get("api.example:80@evil.example"), get("api.example."), get("api.example:080"), get("api.example:http"),
		get("[api.example]"), get("127.0.0.1"), get(""), get("api.example, evil.example"), get("api.example\r\nHost: evil.example"), get("api.example\r\n Host: evil.example"),
		"GET http://evil.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"GET http://api.example@evil.example/ HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"GET //evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
		"CONNECT api.example:443 HTTP/1.1\r\nHost: api.example\r\n\r\n",
		"GET / HTTP/1.1\r\n\r\n", "GET /\r\n", "EHLO me\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x01", "SSH-2.0-x\r\n", "\x80\x2e\x01\x03\x01",
		"\x16\x03\x01\x00\x02ab", "\x16GET / HTTP/1.1\r\nHost: api.example\r\n\r\n",
	} {
		for _, place := range []string{"api.example:80", "api.example:443"} {
			if got := b.end(place, text); strings.Contains(got, "hello") || strings.Contains(got, " 200 ") {
				t.Errorf("%q at %s: %q", text, place, got)
			}
		}
	}
	for _, to := range []string{
		"evil.example:443", "api.example:22", "api.example.:443", "api.example:0", "api.example:65979", "api.example", "xapi.example:443", "127.0.0.1:443", "127.1:443", "2130706433:443",
		"0x7f.1:443", "0177.0.0.1:443", "[::1]:443", "[::ffff:127.0.0.1]:443", "[fe80::1%25eth0]:443", "wild.example:443", "api.example:443:80", "198.51.101.1:443", "198.51.100.1:80", "absent.example:443",
		"*.wild.example:443", "..wild.example:443",
	} {
		if _, status := b.connect(to); strings.Contains(status, " 200 ") {
			t.Errorf("CONNECT %s: %s", to, status)
		}
	}
	for _, sni := range []string{"evil.example", "", "a.wild.example"} {
		tunnel, status := b.connect("api.example:443")
		if got, err := secure(tunnel, sni, "api.example"); err == nil || !strings.Contains(status, " 200 ") {
			t.Errorf("server name %q in a tunnel: %s: %q", sni, status, got)
		}
	}
	for _, url := range []string{"http://evil.example/", "https://api.example/", "/", "ftp://api.example/", "http://api.example:22/"} {
		if got := b.say("", "GET "+url+" HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 4") {
			t.Errorf("%s of the proxy: %q", url, got)
		} else if url == "ftp://api.example/" && !strings.Contains(got, "the proxy takes an http:// URL, or CONNECT") {
			t.Errorf("%s is refused with %q", url, got)
		}
	}
	for _, e := range b.stop() {
		if e.Allowed || e.Why == "" || e.In != 0 || e.Out != 0 {
			t.Errorf("told %+v", e)
		}
	}
	if seen := o.requests(); len(seen) != 0 {
		t.Errorf("asked outside: %q", seen)
	}
}

// One connection's requests are each looked at, and go out as whole requests alone.
func TestRequestsOfOneConnection(t *testing.T) {
	o := newOutside(t)
	b := newContainer(t, Options{Allowed: allow(t, pinned("api.example:80", o.plain))})
	smuggled := "GET /smuggled HTTP/1.1\r\nHost: evil.example\r\n\r\n"
	for _, text := range []string{
		"GET /a HTTP/1.1\r\nHost: api.example\r\n\r\n" + smuggled,
		"POST /a HTTP/1.1\r\nHost: api.example\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
		"POST /a HTTP/1.1\r\nHost: api.example\r\nContent-Length: 4\r\nContent-Length: 60\r\n\r\n" + smuggled,
		"POST /a HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding: xchunked\r\n\r\n" + smuggled,
		"POST /a HTTP/1.1\r\nHost: api.example\r\nTransfer-Encoding : chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + smuggled,
		"GET /a HTTP/1.1\r\nHost: api.example\r\nX: a\n\r\nb\r\n\r\n" + smuggled,
		"GET /a HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n" + smuggled,
	} {
		if got := b.end("api.example:80", text); strings.Contains(got, "hello from evil") || strings.Contains(got, " 101 ") {
			t.Errorf("%q: %q", text, got)
		}
	}
	b.stop()
	for _, seen := range o.requests() {
		if !strings.HasSuffix(strings.Fields(seen)[1], "api.example/a") {
			t.Errorf("asked outside: %q", seen)
		}
	}
}

// A redirect is the container's to follow, and an upgrade to a WebSocket works.
func TestAnswers(t *testing.T) {
	o := newOutside(t)
	b := newContainer(t, Options{Allowed: allow(t, pinned("api.example:80", o.plain))})
	if got := b.say("api.example:80", "GET /elsewhere HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "302 Found") || !strings.Contains(got, "Location: http://evil.example/") {
		t.Errorf("redirected: %q", got)
	}
	conn := b.dial("api.example:80")
	_, _ = io.WriteString(conn, "GET /w HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	r := bufio.NewReader(conn)
	answer, err := http.ReadResponse(r, nil)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", answer, err)
	}
	_, _ = io.WriteString(conn, "ping")
	pong := make([]byte, 4)
	if _, err := io.ReadFull(r, pong); err != nil || string(pong) != "ping" {
		t.Errorf("%q, %v", pong, err)
	}
	if got := b.say("api.example:80", "GET /h HTTP/1.1\r\nHost: api.example\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("upgraded to what is not read: %q", got)
	}
	b.stop() // with the connection under way
	if _, err := r.ReadByte(); err == nil {
		t.Error("the connection outlives its proxy")
	}
}
