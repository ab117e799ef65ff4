package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

func toolCall(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"poke"}}`, id)
}

// eachWay runs a test with a server that speaks stdio and one that speaks HTTP; poke
// sends the agent's messages to it.
func eachWay(t *testing.T, within limits, test func(t *testing.T, b *bench, poke func(body string) reply)) {
	t.Helper()
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		b := scriptedBench(t, within, 0)
		session := b.open()
		test(t, b, func(body string) reply { return b.post(session, body) })
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		b := upstreamBench(t, within, 0, func(w http.ResponseWriter, r *http.Request) { rpc(w, r, `{}`) })
		for range 2 { // as opening a session takes
			b.do("POST", "s", `{"jsonrpc":"2.0","id":"first","method":"ping"}`)
		}
		test(t, b, func(body string) reply {
			r := b.do("POST", "s", body)
			return reply{status: r.status, body: r.raw}
		})
	})
}

// Calls beyond the budget do not reach a server. They get an error response and are
// recorded.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	within := quick()
	within.Calls = 3
	eachWay(t, within, func(t *testing.T, b *bench, poke func(string) reply) {
		for i := range 3 {
			if r := poke(toolCall(i)); strings.Contains(r.body, "budget") {
				t.Fatalf("call %d: %q", i, r.body)
			}
		}
		if why := b.proxy.Overspent(); why != "" {
			t.Errorf("before the limit: %q", why)
		}
		r := poke(toolCall(3))
		if r.status != http.StatusOK || !strings.Contains(r.body, `"id":3,"error":{"code":-32003,`) || !strings.Contains(r.body, `"data":{"waza":"budget"}`) {
			t.Errorf("got %d %q", r.status, r.body)
		}
		if why := b.proxy.Overspent(); why != "the agent made more than 3 calls of tools" {
			t.Errorf("overspent: %q", why)
		}
		if r := poke(`{"jsonrpc":"2.0","id":9,"method":"ping"}`); strings.Contains(r.body, "budget") {
			t.Errorf("what is no call: %q", r.body)
		}
		b.rec.event(t, "limit")
		calls := callsOf(t, b)
		if n := len(calls); n != 4 {
			t.Fatalf("%d calls on record", n)
		}
		for i, call := range calls {
			if refused := strings.Contains(string(call.Error), "budget"); refused != (i == 3) {
				t.Errorf("call %d: %s", i, call.Error)
			}
		}
		if got := calls[3].Outcome; got != evidence.OutcomeProtocolError {
			t.Errorf("the refused call's outcome is %s", got)
		}
	})
}

func callsOf(t *testing.T, b *bench) []evidence.Call {
	t.Helper()
	result, err := capture.Calls(b.rec.sequence())
	if err != nil {
		t.Fatal(err)
	}
	return result.Calls
}

// Messages beyond the limits are refused whatever they are, and take no room without
// end.
func TestMessagesOfTheAgentAreBounded(t *testing.T) {
	t.Parallel()
	const most = 10
	for name, body := range map[string]string{
		"requests":      `{"jsonrpc":"2.0","id":%d,"method":"ping"}`,
		"notifications": `{"jsonrpc":"2.0","method":"notifications/x%d"}`,
		"answers":       `{"jsonrpc":"2.0","id":%d,"result":{}}`, // to questions that nobody asked
		"not JSON":      `%d {`,
	} {
		t.Run(name, func(t *testing.T) {
			within := quick()
			within.frames = most
			eachWay(t, within, func(t *testing.T, b *bench, poke func(string) reply) {
				for i := range proxy.RefusedKept + 50 {
					poke(fmt.Sprintf(body, i))
				}
				if b.proxy.Overspent() == "" {
					t.Error("nothing was refused")
				}
				if n := len(b.rec.all()); n > 4*most+2*proxy.RefusedKept {
					t.Errorf("%d frames are on record", n)
				}
			})
		})
	}
}

func TestTrafficOfTheAgentIsBounded(t *testing.T) {
	t.Parallel()
	within := quick()
	within.traffic = 100 << 10
	eachWay(t, within, func(t *testing.T, b *bench, poke func(string) reply) {
		body := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"pad":"` + strings.Repeat("x", 60<<10) + `"}}`
		if r := poke(body); strings.Contains(r.body, "budget") {
			t.Fatalf("within the limit: %q", r.body)
		}
		if r := poke(body); !strings.Contains(r.body, "budget") {
			t.Errorf("over the limit: %.200q", r.body)
		}
	})
}

// Nothing goes on that cannot be recorded. Whose half of the file of frames is full is at fault.
func TestFullRecord(t *testing.T) {
	t.Parallel()
	for dir, says := range map[evidence.Direction]string{
		evidence.ToServer: `"data":{"waza":"budget"}`, evidence.ToClient: `"data":{"waza":"transport_error"}`,
	} {
		t.Run(string(dir), func(t *testing.T) {
			t.Parallel()
			eachWay(t, quick(), func(t *testing.T, b *bench, poke func(string) reply) {
				b.rec.mu.Lock()
				b.rec.full = func(f evidence.Frame) bool { return f.Dir == dir && f.Synthetic == "" }
				b.rec.mu.Unlock()
				poke(toolCall(1))
				recorded := len(b.rec.all())
				for i := range 10 {
					if r := poke(toolCall(i + 2)); dir == evidence.ToServer && !strings.Contains(r.body, says) || strings.Contains(r.body, `"result"`) {
						t.Errorf("call %d: %d %q", i, r.status, r.body)
					}
				}
				if blamed := b.proxy.Overspent() != ""; blamed != (dir == evidence.ToServer) {
					t.Errorf("the agent is blamed: %v", blamed)
				}
				if n := len(b.rec.all()); n > recorded+30 {
					t.Errorf("%d frames are on record", n)
				}
			})
		})
	}
}

// A server that floods loses its conversation. The agent is not to blame, nor for its
// answers to what the server asks without end.
func TestServerThatFloods(t *testing.T) {
	t.Parallel()
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		within := quick()
		within.traffic = 100 << 10
		b := newBench(t, within, proxy.Server{Server: transport.Server{Name: "s", Launch: launching(t, "scripted")}})
		session := b.open()
		big := `{"jsonrpc":"2.0","id":%d,"method":"big","params":{"size":60000}}`
		if r := b.post(session, fmt.Sprintf(big, 1)); !strings.Contains(r.body, `"id":1,"result"`) {
			t.Fatalf("within the limit: %.200q", r.body)
		}
		if r := b.post(session, fmt.Sprintf(big, 2)); !strings.Contains(r.body, `"data":{"waza":"transport_error"}`) {
			t.Errorf("over the limit: %.200q", r.body)
		}
		if e := b.rec.event(t, "limit"); e.Where != "s" || !strings.Contains(e.Message, "exceeded its limit on messages") {
			t.Errorf("event %+v", e)
		}
		b.rec.event(t, "server_exit")
		if r := b.post("", initialize); r.status != http.StatusBadGateway {
			t.Errorf("another process: %d %q", r.status, r.body)
		}
		if why := b.proxy.Overspent(); why != "" {
			t.Errorf("the agent is blamed: %s", why)
		}
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		within := quick()
		within.frames = 20
		b := upstreamBench(t, within, 0, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 100 {
				if _, err := fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"ping\"}\n\n", i); err != nil {
					return
				}
			}
		})
		r := b.do("POST", "s", toolCall(1))
		if !strings.Contains(r.raw, `"id":1,"error"`) || !strings.Contains(r.raw, `"data":{"waza":"transport_error"}`) {
			t.Errorf("got %.200q", r.raw)
		}
		for i := range 20 { // as many as were asked
			if r := b.do("POST", "s", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, i)); strings.Contains(r.raw, "budget") {
				t.Fatalf("answer %d: %q", i, r.raw)
			}
		}
		if why := b.proxy.Overspent(); why != "" {
			t.Errorf("the agent is blamed: %s", why)
		}
		if n := len(b.rec.all()); n > 100 {
			t.Errorf("%d frames are on record", n)
		}
		if calls := callsOf(t, b); len(calls) != 1 || calls[0].Outcome != evidence.OutcomeTransportError {
			t.Errorf("calls %+v", calls)
		}
	})
}

// Lines that are not messages count like messages.
func TestServerThatFloodsWithNothing(t *testing.T) {
	t.Parallel()
	t.Run("lines", func(t *testing.T) {
		t.Parallel()
		within := quick()
		within.frames = 20
		b := scriptedBench(t, within, 0)
		r := b.post(b.open(), `{"jsonrpc":"2.0","id":1,"method":"chatter","params":{"size":100}}`)
		if !strings.Contains(r.body, `"data":{"waza":"transport_error"}`) || !strings.Contains(r.body, transport.ErrFlooded.Error()) {
			t.Errorf("got %.200q", r.body)
		}
	})
	comments := strings.Repeat(":\n", transport.DefaultFrames+1)
	t.Run("comments", func(t *testing.T) {
		t.Parallel()
		b := upstreamBench(t, quick(), 0, func(w http.ResponseWriter, r *http.Request) {
			written(w, comments, `data: {"jsonrpc":"2.0","id":1,"result":{}}`+"\n\n")
		})
		r := b.do("POST", "s", toolCall(1))
		if !strings.Contains(r.raw, `"data":{"waza":"transport_error"}`) || strings.Contains(r.raw, `"result"`) {
			t.Errorf("got %q", r.raw[max(0, len(r.raw)-200):])
		}
	})
	t.Run("comments of HTTP+SSE", func(t *testing.T) {
		t.Parallel()
		up, _ := remoteOf(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				return
			}
			written(w, "event: endpoint\ndata: /message\n\n", comments, `data: {"jsonrpc":"2.0","id":"i","result":{}}`+"\n\n")
			<-r.Context().Done()
		})
		up.Events = true
		b := newBench(t, quick(), proxy.Server{Server: transport.Server{Name: "s", Upstream: up}})
		if r := b.post("", initialize); !strings.Contains(r.body, `"data":{"waza":"transport_error"}`) {
			t.Errorf("got %q", r.body)
		}
		if e := b.rec.event(t, "limit"); !strings.Contains(e.Message, transport.ErrFlooded.Error()) {
			t.Errorf("event %+v", e)
		}
	})
}
