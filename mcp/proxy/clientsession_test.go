package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// asking is a server on streamable HTTP that asks its client something before it
// answers to a call, and wants a refusal.
type asking struct {
	stateless bool
	refused   chan string
	seen      chan http.Header
}

func (a *asking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	sent, err := parse(body)
	if err != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	m := sent[0]
	answer := func(result string) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID.Raw, result)
	}
	switch {
	case m.Method == "":
		a.refused <- string(body)
		w.WriteHeader(http.StatusAccepted)
	case m.Method == methodInitialize && a.stateless:
		answer(`"error":{"code":-32601,"message":"no sessions here"}`)
	case m.Method == methodInitialize:
		w.Header().Set(headerSession, "s1")
		answer(`"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}`)
	case m.Method == "server/discover":
		answer(`"result":{"resultType":"complete","supportedVersions":["2026-07-28"]}`)
	case m.Method == methodCallTool && a.stateless:
		a.seen <- r.Header
		answer(`"result":{"resultType":"` + name(m) + `","content":[]}`)
	case m.Method == methodCallTool:
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"elicitation/create\",\"params\":{}}\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-a.refused:
		case <-r.Context().Done():
			return
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[],\"n\":9007199254740993}}\n\n", m.ID.Raw)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func inquire(t *testing.T, s transport.Server) *client.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q, err := client.Open(ctx, owned(t, newRecorder(), s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

func callNow(t *testing.T, q *client.Session, tool, arguments string) (jsonrpc.Message, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return q.Call(ctx, tool, json.RawMessage(arguments))
}

func TestInquiryOverHTTP(t *testing.T) {
	a := &asking{refused: make(chan string, 1), seen: make(chan http.Header, 1)}
	q := inquire(t, transport.Server{Name: "s", Upstream: upstreamOf(t, a.ServeHTTP)})
	reply, err := callNow(t, q, "any", `{"x":1}`)
	if err != nil || string(reply.Result) != `{"content":[],"n":9007199254740993}` {
		t.Errorf("%s, %v", reply.Result, err)
	}
}

func TestInquiryWithoutSessions(t *testing.T) {
	a := &asking{stateless: true, seen: make(chan http.Header, 1)}
	q := inquire(t, transport.Server{Name: "s", Upstream: upstreamOf(t, a.ServeHTTP)})
	if reply, err := callNow(t, q, "complete", ""); err != nil || len(reply.Result) == 0 {
		t.Errorf("%s, %v", reply.Result, err)
	}
	if h := <-a.seen; h.Get(headerName) != "complete" || h.Get(headerMethod) != methodCallTool || h.Get(headerVersion) != statelessVersion {
		t.Errorf("headers %v", h)
	}
	reply, err := callNow(t, q, "input_required", "")
	if outcome, why := q.Outcome(reply); err != nil || outcome != evidence.OutcomeProtocolError || !strings.Contains(why, "requires input") {
		t.Errorf("a call that wants input: %s, %q, %v", outcome, why, err)
	}
}

// shell is a server that answers a ping of its own with what it got for it.
const shell = `while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case "$line" in
  *initialize\"*) result='{"protocolVersion":"2025-11-25","serverInfo":{"name":"a","version":"1"}}' ;;
  *'"name":"ping"'*) echo '{"jsonrpc":"2.0","id":1,"method":"ping"}'; IFS= read -r pong; result='{"pong":'$pong'}' ;;
  *'"name":"end"'*) exit 3 ;;
  *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done`

// After the agent, the runner goes on with the newest process of a server on stdio, in the agent's
// session and with larger ids.
func TestAttach(t *testing.T) {
	const counting = `n=0; while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case "$line" in
  *initialize\"*) result='{"protocolVersion":"2025-11-25","serverInfo":{"name":"a","version":"1"}}' ;;
  *tools/call*) n=$((n+1)); result='{"content":[],"n":'$n',"id":'$id'}' ;;
  *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done`
	for name, deleted := range map[string]bool{"open": false, "deleted by the agent": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, quick(), proxy.Server{Keep: true, Server: transport.Server{
				Name: "s", Launch: launchCommand(t, func() *exec.Cmd { return exec.Command("sh", "-c", counting) }),
			}})
			b.open()
			session := b.open()
			b.post(session, `{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"x"}}`)
			if deleted {
				b.do(http.MethodDelete, "s", "", headerSession, session)
				if got := b.post(session, `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"x"}}`); got.status != http.StatusNotFound {
					t.Errorf("HTTP %d in a session that the agent deleted", got.status)
				}
			}
			if err := b.proxy.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			last, ok := b.proxy.Attach("s")
			if !ok {
				t.Fatal("no process is kept")
			}
			q := client.Attach(b.proxy.Own("s"), last.Session, last.Version, last.LastID)
			reply, err := callNow(t, q, "x", "")
			if err != nil || string(reply.Result) != `{"content":[],"n":2,"id":42}` {
				t.Errorf("%s, %v", reply.Result, err)
			}
			q.Close()
			if _, err := callNow(t, q, "x", ""); !errors.Is(err, client.ErrExited) {
				t.Errorf("after its end: %v", err)
			}
			if _, again := b.proxy.Attach("s"); again {
				t.Error("one process is attached to twice")
			}
			for _, f := range b.rec.all() {
				own := strings.HasPrefix(f.Conn, "runner/")
				if own != (f.Sender == evidence.SenderRunner) {
					t.Errorf("conversation %s has the sender %q", f.Conn, f.Sender)
				}
			}
		})
	}
}

// A process is asked again after it failed to answer in time, and says so when it has
// ended.
func TestInquiryOfAProcess(t *testing.T) {
	q := inquire(t, transport.Server{Name: "s", Launch: launchCommand(t, func() *exec.Cmd { return exec.Command("sh", "-c", shell) })})
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := q.Call(short, "silent", nil); err == nil {
		t.Error("a call that is not answered comes back")
	}
	reply, err := callNow(t, q, "ping", "")
	if err != nil || string(reply.Result) != `{"pong":{"jsonrpc":"2.0","id":1,"result":{}}}` {
		t.Errorf("%s, %v", reply.Result, err)
	}
	for range 2 {
		if _, err := callNow(t, q, "end", ""); err == nil || !errors.Is(err, client.ErrExited) {
			t.Errorf("after its end: %v", err)
		}
	}
}
