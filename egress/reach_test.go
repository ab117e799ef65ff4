package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/mcpconfig"
)

func portOf(t *testing.T, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// A name that resolves to a non-public address is refused.
func TestAddressesThatAreRefused(t *testing.T) {
	o := newOutside(t)
	port := portOf(t, o.plain.Listener.Addr().String())
	for name, answer := range map[string][]netip.Addr{
		"loopback":        addrs("127.0.0.1"),
		"mixed":           addrs("192.0.2.1", "127.0.0.1"),
		"public first":    addrs("8.8.8.8", "127.0.0.1"),
		"private second":  addrs("127.0.0.1", "8.8.8.8"),
		"mapped":          addrs("::ffff:127.0.0.1"),
		"translated":      addrs("64:ff9b::7f00:1"),
		"six to four":     addrs("2002:7f00:1::"),
		"private":         addrs("10.0.0.1"),
		"metadata":        addrs("169.254.169.254"),
		"unspecified":     addrs("0.0.0.0"),
		"itself, by IPv6": addrs("::1"),
		"nothing":         nil,
	} {
		t.Run(name, func(t *testing.T) {
			b := newContainer(t, Options{
				Allowed: allow(t, mcpconfig.Egress{Host: fmt.Sprintf("api.example:%d", port)}),
				Resolve: func(context.Context, string) ([]netip.Addr, error) { return answer, nil },
			})
			place := fmt.Sprintf("api.example:%d", port)
			if got := b.say(place, fmt.Sprintf("GET / HTTP/1.1\r\nHost: %s\r\n\r\n", place)); !strings.HasPrefix(got, "HTTP/1.1 403") {
				t.Errorf("transparently: %q", got)
			}
			if _, status := b.connect(place); !strings.Contains(status, "403") {
				t.Errorf("by CONNECT: %s", status)
			}
			for _, e := range b.stop() {
				if e.Allowed || e.Address != "" || e.Name != "api.example" {
					t.Errorf("told %+v", e)
				}
			}
		})
	}
	if seen := o.requests(); len(seen) != 0 {
		t.Errorf("asked outside: %q", seen)
	}
}

// A name is resolved once per connection, and the checked address is the one that is
// dialed, whatever the resolver would return later.
func TestNameIsResolvedOnce(t *testing.T) {
	o := newOutside(t)
	var questions atomic.Int32
	b := newContainer(t, Options{
		Allowed: allow(t, mcpconfig.Egress{Host: "api.example:80"}),
		Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			if questions.Add(1) == 1 {
				return addrs("192.88.98.1"), nil // public, and nobody
			}
			return addrs("127.0.0.1"), nil
		},
	})
	ask := asked{name: "api.example", port: 80, by: byHTTP}
	at, why := b.proxy.addresses(t.Context(), b.proxy.policy.allowed[0], ask)
	if why != "" || len(at) != 1 || at[0] != netip.MustParseAddrPort("192.88.98.1:80") || questions.Load() != 1 {
		t.Errorf("%v, %q after %d questions", at, why, questions.Load())
	}
	if at, why := b.proxy.addresses(t.Context(), b.proxy.policy.allowed[0], ask); why == "" {
		t.Errorf("the second answer is not looked at: %v", at)
	}
	if seen := o.requests(); len(seen) != 0 {
		t.Errorf("asked outside: %q", seen)
	}
}

// What is allowed by address is reached by it, and by names that resolve there, on its
// port alone; what hands out credentials needs an entry of its own.
func TestAllowedByAddress(t *testing.T) {
	o := newOutside(t)
	port := portOf(t, o.plain.Listener.Addr().String())
	b := newContainer(t, Options{
		Allowed: allow(t, mcpconfig.Egress{Host: fmt.Sprintf("127.0.0.0/8:%d", port)}, mcpconfig.Egress{Host: "api.example", Ports: []int{port, 1}}, mcpconfig.Egress{Host: "169.254.0.0/16:80"}),
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return addrs("127.0.0.1"), nil },
	})
	for _, host := range []string{"127.0.0.1", "api.example"} {
		url := fmt.Sprintf("http://%s:%d/", host, port)
		if got := b.say("", "GET "+url+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.Contains(got, "hello from "+host) {
			t.Errorf("%s: %q", url, got)
		}
	}
	for _, to := range []string{"127.0.0.1:1", "api.example:1", "169.254.169.254:80"} {
		if _, status := b.connect(to); !strings.Contains(status, "403") {
			t.Errorf("%s: %s", to, status)
		}
	}
	secured := allow(t, mcpconfig.Egress{Host: o.secure.Listener.Addr().String()})
	b = newContainer(t, Options{Allowed: secured})
	tunnel, _ := b.connect(o.secure.Listener.Addr().String())
	if got, err := secure(tunnel, "", "x"); err != nil || !strings.Contains(got, "hello") {
		t.Errorf("TLS to an address: %q, %v", got, err)
	}
	tunnel, _ = b.connect(o.secure.Listener.Addr().String())
	if got, err := secure(tunnel, "evil.example", "x"); err == nil {
		t.Errorf("another name at an address: %q", got)
	}
}

// A host that does not answer, or only takes, is told as it was.
func TestHostThatDoesNotAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.2:0") // other tests, which are given ports at 127.0.0.1, do not take it
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close()
	b := newContainer(t, Options{Allowed: allow(t, mcpconfig.Egress{Host: "api.example", Ports: []int{80, 443}, Address: address})})
	if got := b.say("api.example:80", "GET / HTTP/1.1\r\nHost: api.example\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 502") {
		t.Errorf("%q", got)
	}
	if _, err := secure(b.dial("api.example:443"), "api.example", "x"); err == nil {
		t.Error("somebody answered")
	}
	reported := b.stop()
	if len(reported) != 2 || !reported[0].Allowed || reported[0].Address != address || !strings.Contains(reported[0].Why, "refused") {
		t.Errorf("told %+v", reported)
	}
}

// What the runner's own machine serves at a public address of its is not for containers.
func TestAddressOfThisMachine(t *testing.T) {
	public := netip.MustParseAddr("8.8.8.8")
	for _, own := range []bool{true, false} {
		p := policy{own: func(a netip.Addr) bool { return own && a == public }}
		if why := p.refuses(public, 443); (why != "") != own {
			t.Errorf("own %t: %q", own, why)
		}
	}
}

func TestLimits(t *testing.T) {
	now := time.Unix(0, 0)
	a := newAllowance(Limits{Connections: 3, Rate: 2, Bytes: 100}, func() time.Time { return now })
	begin := func(want string) {
		t.Helper()
		if got := a.begin(); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	begin("")
	begin("")
	begin("limit of 2 new connections per second")
	now = now.Add(500 * time.Millisecond)
	begin("")
	now = now.Add(time.Hour)
	begin("limit of 3 concurrent connections")
	a.end()
	begin("")
	if why := a.spend(100); why != "" {
		t.Error(why)
	}
	a.end()
	begin("limit of 100 bytes")
	if why := a.spend(1); why == "" {
		t.Error("the limit does not hold")
	}
}

// At the byte limit, traffic stops and connections end.
func TestBytesAreLimited(t *testing.T) {
	o := newOutside(t)
	b := newContainer(t, Options{Allowed: allow(t, pinned("api.example:80", o.plain)), Limits: Limits{Bytes: 64 << 10}})
	tunnel, _ := b.connect("api.example:80")
	_, _ = fmt.Fprintf(tunnel, "POST / HTTP/1.1\r\nHost: api.example\r\nContent-Length: %d\r\n\r\n", 1<<20)
	_, err := io.Copy(tunnel, io.LimitReader(zeros{}, 1<<20))
	if _, gone := io.Copy(io.Discard, tunnel); err == nil && gone == nil {
		t.Error("the connection did not break")
	}
	if _, status := b.connect("api.example:80"); !strings.Contains(status, "403") {
		t.Errorf("the next one: %s", status)
	}
	reported := b.stop()
	if len(reported) != 2 || reported[0].Out > 64<<10 || !strings.Contains(reported[0].Why, "its limit") || reported[1].Allowed {
		t.Errorf("told %+v", reported)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// What is at work when the proxy is closed ends with it.
func TestClose(t *testing.T) {
	o := newOutside(t)
	b := newContainer(t, Options{Allowed: allow(t, pinned("api.example:443", o.secure), pinned("api.example:80", o.plain))})
	quiet := b.dial("api.example:443") // which says nothing
	tunnel, _ := b.connect("api.example:443")
	c := tls.Client(tunnel, &tls.Config{ServerName: "api.example", InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	half := b.dial("api.example:80")
	_, _ = io.WriteString(half, "GET / HTTP/1.1\r\n")
	reported := b.stop()
	for name, conn := range map[string]net.Conn{"quiet": quiet, "tunnel": tunnel, "half a request": half} {
		if _, err := io.Copy(io.Discard, conn); err != nil && strings.Contains(err.Error(), "timeout") {
			t.Errorf("%s goes on: %v", name, err)
		}
	}
	carried := 0
	for _, e := range reported {
		if e.Allowed {
			carried++
		}
	}
	if carried != 1 {
		t.Errorf("told %+v", reported)
	}
	b.proxy.Close()
}

// Only a limited number of attempts is reported one by one.
func TestAttemptsAreReported(t *testing.T) {
	var events []evidence.Event
	l := &ledger{container: "container", record: func(e evidence.Event) { events = append(events, e) }}
	for range maxEvents + 7 {
		l.add(evidence.Egress{Name: strings.Repeat("\xff", 1<<16), Port: 443, By: byTLS, Why: "no"})
	}
	l.close()
	if len(events) != maxEvents+1 || events[maxEvents].Data[evidence.DataOmitted] != 7 || len(events[0].Message) > 2<<10 {
		t.Errorf("%d events, the last %+v", len(events), events[len(events)-1])
	}
}

// Every name is seen, however many attempts came before it: a flood hides nothing.
func TestEveryAttemptIsNamed(t *testing.T) {
	var named []string
	reported := 0
	c := New(Options{
		Container: "container", Record: func(evidence.Event) { reported++ },
		Named: func(container, host string) { named = append(named, container+" "+host) },
	})
	for range maxEvents {
		c.refuse(asked{name: "decoy.example", port: 443, by: byTLS}, "no")
	}
	c.refuse(asked{name: "one.example", port: 443, by: byTLS}, "no")
	if _, err := c.reach(t.Context(), asked{name: "two.example", port: 443, by: byTLS}); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	if now := c.Underway(); len(now) != 1 || now[0].Data[evidence.DataOmitted] != 2 {
		t.Errorf("under way: %+v", now)
	}
	c.Close()
	last := named[max(0, len(named)-2):]
	if len(named) != maxEvents+2 || !slices.Equal(last, []string{"container one.example", "container two.example"}) || reported != maxEvents+1 {
		t.Errorf("%d named, the last %q, %d told", len(named), last, reported)
	}
}

// Of a secret that lies across the end of a name nothing is recorded.
func TestCutName(t *testing.T) {
	secrets := &secret.Set{}
	secrets.Add("hunter2-and-more")
	l := &ledger{record: func(e evidence.Event) {
		name, _ := secrets.Cut([]byte(e.Data["name"].(string)), false)
		message, _ := secrets.Cut([]byte(e.Message), false)
		if strings.Contains(string(name)+string(message), "hunt") {
			t.Errorf("%s: %s", name, message)
		}
	}}
	l.add(evidence.Egress{Name: strings.Repeat("x", maxName-7) + "hunter2-and-more", Why: "no"})
}
