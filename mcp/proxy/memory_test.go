package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/memtest"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

const (
	victimRole = "proxy"
	victimDir  = "MCPPROXY_TEST_DIR" // where it records
	victimWeb  = "MCPPROXY_TEST_WEB" // the URL of the server "web", and of "old"
)

// noTB is enough of a test for launchCommand.
type noTB struct{ testing.TB }

func (noTB) Cleanup(func()) {}

// victim is the proxy of one trial as the runner has it: default limits, a recorder
// on disk, a secret to look for.
func victim(ready func(string), stop <-chan struct{}) {
	secrets := &secret.Set{}
	secrets.Add("a secret value")
	rec, err := evidence.Create(os.Getenv(victimDir), secrets, nil)
	if err != nil {
		panic(err)
	}
	where, err := url.Parse(os.Getenv(victimWeb))
	if err != nil {
		panic(err)
	}
	web := &transport.Upstream{URL: where, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10}}
	old := *web
	old.Events = true
	stdio := launchCommand(noTB{}, func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serverEnv+"=hostile")
		return cmd
	})
	within := limits{Limits: proxy.Limits{Write: 5 * time.Second}, grace: 100 * time.Millisecond} // a shorter attack
	made := proxy.New(rec, within.Limits, within.of(proxy.Server{Server: transport.Server{Name: "s", Launch: stdio}}), proxy.Server{Server: transport.Server{Name: "web", Upstream: web}}, within.of(proxy.Server{Server: transport.Server{Name: "old", Upstream: &old}}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	served := make(chan error, 1)
	go func() { served <- made.Serve(context.Background(), listener, made.Handler("")) }()
	ready(listener.Addr().String())
	<-stop
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = made.Close(ctx)
	<-served
	_ = rec.Close()
}

// hostileServer does what the method of a message says, until nobody takes it.
func hostileServer(in io.Reader, out, errs io.Writer) {
	r := bufio.NewReader(in)
	filler := strings.Repeat("x", 1<<20)
	forever := func(w io.Writer, text string) {
		for {
			if _, err := io.WriteString(w, text); err != nil {
				return
			}
		}
	}
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		sent, err := parse(line)
		if err != nil {
			continue
		}
		switch m := sent[0]; m.Method {
		case methodInitialize:
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"h","version":"1"}}}`+"\n", m.ID.Raw)
		case "deaf":
			hang()
		case "endless line":
			forever(out, filler)
		case "big notifications":
			forever(out, `{"jsonrpc":"2.0","method":"notifications/message","params":"`+strings.Repeat(filler, 40)+`"}`+"\n")
		case "small notifications":
			forever(out, strings.Repeat(`{"jsonrpc":"2.0","method":"notifications/message"}`+"\n", 1000))
		case "stderr":
			forever(errs, filler)
		case "echo":
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID.Raw, jsontext.Member(line, "params"))
		}
	}
}

// hostileWeb does what the query of a request says.
func hostileWeb(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	filler := strings.Repeat("x", 1<<20)
	w.Header().Set("Content-Type", "text/event-stream")
	if r.URL.Path == "/old" {
		_, _ = io.WriteString(w, "event: endpoint\ndata: /post\n\n")
	}
	switch r.Header.Get("Mcp-Attack") + r.URL.Path {
	case "headers/mcp":
		for i := range 5000 {
			w.Header().Set(fmt.Sprintf("X%d", i), "y")
		}
	case "body/mcp":
		w.Header().Set("Content-Type", "application/json")
		fallthrough
	case "long event/mcp", "/old":
		_, _ = io.WriteString(w, "data: ")
		for {
			if _, err := io.WriteString(w, filler); err != nil {
				return
			}
		}
	case "lines/mcp":
		for {
			if _, err := io.WriteString(w, strings.Repeat("data: \n", 1<<16)); err != nil {
				return
			}
		}
	case "hang/mcp":
		<-r.Context().Done()
	}
}

// attacker is an agent that means harm.
type attacker struct {
	t    *testing.T
	addr string
}

// send writes a request and leaves its connection open, unread.
func (a attacker) send(server, body string, headers ...string) net.Conn {
	conn, err := net.Dial("tcp", a.addr)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetWriteDeadline(time.Now().Add(2 * attackTime))
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	method := "POST"
	if body == "" {
		method = "GET"
	}
	head := fmt.Sprintf("%s /mcp HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream, application/json\r\nContent-Length: %d\r\n%s\r\n",
		method, server, len(body), strings.Join(append(headers, ""), "\r\n"))
	_, _ = io.WriteString(conn, head)
	_, _ = io.WriteString(conn, body)
	return conn
}

// wait waits for the beginning of an answer, but not for long.
func (a attacker) wait(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(attackTime))
	_, _ = conn.Read(make([]byte, 1))
}

func (a attacker) session() string {
	conn := a.send("s", initialize)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	return "Mcp-Session-Id: " + response.Header.Get(headerSession)
}

// each does f n times at once.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

func ask(id any, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"method":"%s","params":%s}`, id, method, params)
}

// big is a JSON string of size bytes.
func big(size int) string { return `"` + strings.Repeat("b", size) + `"` }

// TestMemoryUnderAttack attacks a proxy in a process of its own, and looks how much
// that takes at the most. The bounds hold garbage too, which may be half of what is
// held.
func TestMemoryUnderAttack(t *testing.T) {
	heavytest.Mark(t)
	// The budget, garbage of half that size, allocations during its collection, and
	// everything else.
	const all = 640 << 20
	attacks := []struct {
		name  string
		bound int64
		do    func(a attacker)
	}{
		{"60 bodies of 59 MB at once", all, func(a attacker) {
			session, body := a.session(), ask(1, "deaf", big(59_000_000))
			each(60, func(int) { a.wait(a.send("s", body, session)) })
		}},
		{"16 bodies of 59 MB with a secret behind escapes", all, func(a attacker) {
			session := a.session()
			body := ask(1, "deaf", `"\u0061 secret value`+strings.Repeat("b", 59_000_000)+`"`)
			each(16, func(int) { a.wait(a.send("s", body, session)) })
		}},
		{"16 bodies of 59 MB that are quoted twice as long", all, func(a attacker) {
			body := ask(1, "deaf", `"`+strings.Repeat(`\"`, 29_000_000)+`"`)
			session := a.session()
			each(16, func(int) { a.wait(a.send("s", body, session)) })
		}},
		{"200 slow bodies", 64 << 20, func(a attacker) {
			each(200, func(int) {
				conn, err := net.Dial("tcp", a.addr)
				if err != nil {
					a.t.Error(err)
					return
				}
				a.t.Cleanup(func() { _ = conn.Close() })
				fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: s\r\nContent-Length: 60000000\r\n\r\n{")
			})
		}},
		{"200 heads of many headers", 200 << 20, func(a attacker) {
			var head strings.Builder
			for i := range 4500 {
				fmt.Fprintf(&head, "%x:\r\n", i)
			}
			each(200, func(int) {
				conn, err := net.Dial("tcp", a.addr)
				if err != nil {
					a.t.Error(err)
					return
				}
				a.t.Cleanup(func() { _ = conn.Close() })
				fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: s\r\n%s", head.String())
			})
		}},
		{"16 sessions whose servers take nothing", all, func(a attacker) {
			each(16, func(int) {
				session := a.session()
				a.send("s", ask(1, "deaf", "{}"), session)
				for i := range 8 {
					a.send("s", ask(i+2, "x", big(8_000_000)), session)
				}
			})
		}},
		{"16 streams that nobody reads", all, func(a attacker) {
			each(16, func(int) {
				session := a.session()
				a.send("s", "", session)
				a.send("s", ask(1, "big notifications", "{}"), session)
			})
			settle()
		}},
		{"many small notifications", 128 << 20, func(a attacker) {
			each(8, func(int) {
				session := a.session()
				a.send("s", "", session)
				a.send("s", ask(1, "small notifications", "{}"), session)
			})
			settle()
		}},
		{"echoes that nobody reads", all, func(a attacker) {
			session := a.session()
			each(16, func(i int) { a.send("s", ask(i, "echo", big(30_000_000)), session) })
			settle()
		}},
		{"a line without an end", all, func(a attacker) {
			each(4, func(int) { a.send("s", ask(1, "endless line", "{}"), a.session()) })
			settle()
		}},
		{"stderr", 64 << 20, func(a attacker) {
			each(4, func(int) { a.send("s", ask(1, "stderr", "{}"), a.session()) })
			settle()
		}},
		{"batches of long ids", all, func(a attacker) {
			var ids []string
			for i := range jsonrpc.MaxBatch {
				ids = append(ids, ask(fmt.Sprintf(`"%d%s"`, i, strings.Repeat("i", 4000)), "x", "{}"))
			}
			batch := "[" + strings.Join(ids, ",") + "]"
			each(16, func(int) {
				session := a.session()
				a.send("s", ask(1, "deaf", "{}"), session)
				for range 6 {
					_ = a.send("s", batch, session).Close()
				}
			})
		}},
		{"requests that are left", 256 << 20, func(a attacker) {
			id := strings.Repeat("i", 4000)
			each(16, func(n int) {
				for i := range 300 {
					_ = a.send("s", ask(fmt.Sprintf(`"%d-%d%s"`, n, i, id), "x", `{"_meta":{"`+metaVersion+`":"`+statelessVersion+`"}}`),
						"Mcp-Protocol-Version: "+statelessVersion, "Mcp-Method: x").Close()
				}
			})
		}},
		{"deep JSON", all, func(a attacker) {
			session := a.session()
			each(8, func(int) { a.wait(a.send("s", ask(1, "deaf", strings.Repeat("[", 20_000_000)), session)) })
		}},
		{"a key and a name as long as a message", all, func(a attacker) {
			session := a.session()
			long := big(25_000_000)
			each(8, func(i int) { a.wait(a.send("s", ask(i, "tools/call", `{"name":`+long+`,`+long+`:1}`), session)) })
			each(8, func(i int) {
				a.wait(a.send("s", ask(i, "tools/call", `{"name":`+long+`,"_meta":{"`+metaVersion+`":"`+statelessVersion+`"}}`),
					"Mcp-Protocol-Version: "+statelessVersion, "Mcp-Method: tools/call"))
			})
		}},
		{"a server's headers", 128 << 20, func(a attacker) {
			each(64, func(int) { a.wait(a.send("web", ask(1, "x", "{}"), "Mcp-Attack: headers")) })
		}},
		{"a server's bodies without an end", all, func(a attacker) {
			each(64, func(int) { a.wait(a.send("web", ask(1, "x", "{}"), "Mcp-Attack: body")) })
		}},
		{"a server's events without an end", all, func(a attacker) {
			each(64, func(int) { a.send("web", ask(1, "x", "{}"), "Mcp-Attack: long event") })
			settle()
		}},
		{"a server's events of many lines", all, func(a attacker) {
			each(64, func(int) { a.send("web", ask(1, "x", "{}"), "Mcp-Attack: lines") })
			settle()
		}},
		{"an HTTP+SSE server's events without an end", all, func(a attacker) {
			each(32, func(int) { a.send("old", initialize) })
			settle()
		}},
		{"bodies for a server that hangs", all, func(a attacker) {
			body := ask(1, "x", big(40_000_000))
			each(16, func(int) { a.send("web", body, "Mcp-Attack: hang") })
			settle()
		}},
	}
	web := httptest.NewServer(http.HandlerFunc(hostileWeb))
	t.Cleanup(web.Close)
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			path := "/mcp"
			if strings.Contains(attack.name, "HTTP+SSE") {
				path = "/old"
			}
			v := memtest.Start(t, victimRole, victimDir+"="+t.TempDir(), victimWeb+"="+web.URL+path)
			attack.do(attacker{t, v.Address})
			use := v.Use()
			t.Logf("peak %d MiB, RSS %d MiB, %d goroutines at the most", use.Peak>>20, use.RSS>>20, use.Most)
			if use.Peak > attack.bound {
				t.Errorf("the proxy took %d MiB, more than %d", use.Peak>>20, attack.bound>>20)
			}
			if use.Most > 4000 {
				t.Errorf("the proxy had %d goroutines", use.Most)
			}
		})
	}
}

// attackTime is how long an attack goes on that has no end of its own.
const attackTime = time.Second

func settle() { time.Sleep(attackTime) }
