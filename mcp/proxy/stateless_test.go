package proxy_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// stateless is a request of 2026-07-28 and its headers.
func stateless(id, method, params string) (body string, header []string) {
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	if params != "" {
		meta += ","
	}
	body = `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + meta + params + `}}`
	return body, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
}

func TestStatelessRequestsShareAProcess(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	var wg sync.WaitGroup
	for i := range 8 { // all under one id: each waits its turn
		wg.Go(func() {
			body, header := stateless("1", "echo", fmt.Sprintf(`"from":%d`, i))
			if r := b.do("POST", "s", body, header...); r.status != 200 || !strings.Contains(r.body, fmt.Sprintf(`"from":%d`, i)) {
				t.Errorf("%d got %d %q", i, r.status, r.body)
			}
		})
	}
	wg.Wait()
	for i, f := range b.rec.all() {
		if f.Conn != "s/1" || i%2 == 0 && f.Dir != evidence.ToServer || i%2 == 1 && f.Dir != evidence.ToClient {
			t.Fatalf("frame %d: %s %s", i, f.Conn, f.Dir)
		}
	}
}

func TestStatelessHeaderRules(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	call, _ := stateless("1", "tools/call", `"name":"größe"`)
	plain, _ := stateless("1", "echo", "")
	bare := `{"jsonrpc":"2.0","id":1,"method":"unknown","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	const version = "Mcp-Protocol-Version"
	tests := []struct {
		name   string
		body   string
		header []string
		status int
		says   string
	}{
		{"all as it should be", plain, []string{version, "2026-07-28", "Mcp-Method", "echo"}, 200, `"result"`},
		{"session id is ignored", plain, []string{version, "2026-07-28", "Mcp-Method", "echo", "Mcp-Session-Id", "x"}, 200, `"result"`},
		{"no version header", plain, []string{"Mcp-Method", "echo"}, 400, "-32020"},
		{"other version header", plain, []string{version, "2027-01-01", "Mcp-Method", "echo"}, 400, "-32020"},
		{"no method header", plain, []string{version, "2026-07-28"}, 400, "-32020"},
		{"other method header", plain, []string{version, "2026-07-28", "Mcp-Method", "exit"}, 400, "-32020"},
		{"no version in body", `{"jsonrpc":"2.0","id":1,"method":"echo"}`, []string{version, "2026-07-28", "Mcp-Method", "echo"}, 400, "-32602"},
		{"other name", call, []string{version, "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "x"}, 400, "-32020"},
		{"encoded name, unknown method", call, []string{version, "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?Z3LDtsOfZQ==?="}, 404, "-32601"},
		{"unknown method", bare, []string{version, "2026-07-28", "Mcp-Method", "unknown"}, 404, "-32601"},
		{"batch", "[" + plain + "]", []string{version, "2026-07-28"}, 400, "-32600"},
		{"response", `{"jsonrpc":"2.0","id":1,"result":{}}`, []string{version, "2026-07-28"}, 400, "-32600"},
		{"notification", `{"jsonrpc":"2.0","method":"n"}`, []string{version, "2026-07-28"}, 202, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := b.do("POST", "s", tt.body, tt.header...)
			if r.status != tt.status || !strings.Contains(r.body, tt.says) {
				t.Errorf("got %d %q, want %d and %q", r.status, r.body, tt.status, tt.says)
			}
			if r.header.Get("Mcp-Session-Id") != "" {
				t.Error("there is a session")
			}
		})
	}
}

func TestClosingAStatelessStreamCancels(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	ctx, cancel := context.WithCancel(t.Context())
	body, header := stateless(`"k"`, "hold", "")
	s := b.stream(ctx, "POST", body, header...)
	s.next()
	cancel()
	if e := b.rec.event(t, "cancelled"); e.Data["id"] != `"k"` || e.Data["conn"] != "s/1" {
		t.Errorf("event: %+v", e)
	}
	b.stderr.wait(t, `cancelled "k"`)
	if !hasFrame(evidence.ToServer, evidence.SyntheticCancelled, `"requestId":"k"`)(b.rec.all(), nil) {
		t.Error("the cancellation is not on record as the proxy's own")
	}
}

func TestTimedOutStatelessRequestIsCancelled(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Minute, func(t *testing.T, b *bench) {
		body, header := stateless("7", "never", "")
		if r := b.do("POST", "s", body, header...); !strings.Contains(r.body, "-32001") {
			t.Errorf("got %q", r.body)
		}
		b.stderr.wait(t, "cancelled 7")
		if !hasFrame(evidence.ToServer, evidence.SyntheticTimeout, `"requestId":7`)(b.rec.all(), nil) {
			t.Error("the cancellation is not on record")
		}
	})
}

// TestConversationBecomesCalls checks what the proxy records against what package
// capture makes of it.
func TestConversationBecomesCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, time.Minute, func(t *testing.T, b *bench) {
		for _, name := range []string{"slow", "gone"} {
			ctx, cancel := context.WithCancel(t.Context())
			body, header := stateless(`"`+name+`"`, "tools/call", `"name":"`+name+`"`)
			response := b.request(ctx, "POST", "s", body, append(header, "Mcp-Name", name)...)
			if name == "gone" {
				cancel()
				b.rec.event(t, "cancelled")
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			cancel()
		}
		b.do("POST", "s", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"lost"}}`)
		var got []string
		result, err := capture.Calls(b.rec.sequence())
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range result.Calls {
			got = append(got, call.Tool+" "+string(call.Outcome))
		}
		want := []string{"slow timeout", "gone cancelled", "lost transport_error"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestSubscription(t *testing.T) {
	t.Parallel()
	inBubble(t, 20*time.Second, func(t *testing.T, b *bench) {
		body, header := stateless("5", "subscriptions/listen", "")
		s := b.stream(t.Context(), "POST", body, header...)
		if got := s.next(); !strings.Contains(got, `subscriptionId":5`) {
			t.Fatalf("got %q", got)
		}
		late, header2 := stateless("6", "never", "")
		b.do("POST", "s", late, header2...) // takes as long as the time limit
		b.do("POST", "s", `{"jsonrpc":"2.0","method":"release"}`, header...)
		if got := s.next(); !strings.Contains(got, "released") {
			t.Errorf("it did not outlive the time limit: %q", got)
		}
	})
}

func TestStatelessProcessIsRestarted(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	body, header := stateless("1", "exit", "")
	if r := b.do("POST", "s", body, header...); !strings.Contains(r.body, "exited with code 3") {
		t.Errorf("got %q", r.body)
	}
	b.rec.event(t, "server_exit")
	body, header = stateless("1", "echo", `"x":1`)
	if r := b.do("POST", "s", body, header...); r.status != 200 || !strings.Contains(r.body, `"x":1`) {
		t.Errorf("got %d %q", r.status, r.body)
	}
	frames := b.rec.all()
	if conn := frames[len(frames)-1].Conn; conn != "s/2" {
		t.Errorf("conn %s", conn)
	}
}

// A process that has rejected all requests without a session becomes that of the next session; one
// that has answered any, or that is a session's, does not.
func TestRejectedDiscovery(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	last := func() string {
		frames := b.rec.all()
		return frames[len(frames)-1].Conn
	}
	discover := func() {
		t.Helper()
		body, header := stateless("1", "server/discover", "")
		if r := b.do("POST", "s", body, header...); r.status != 404 || r.header.Get("Mcp-Session-Id") != "" {
			t.Fatalf("got %d %q", r.status, r.body)
		}
	}
	discover()
	session := b.open()
	if got := last(); got != "s/1" {
		t.Errorf("initialize went to %s", got)
	}
	if r := b.post(session, `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"x":1}}`); !strings.Contains(r.body, `"x":1`) || last() != "s/1" {
		t.Errorf("%s: got %q", last(), r.body)
	}
	b.open()
	if got := last(); got != "s/2" {
		t.Errorf("the second session is of %s", got)
	}
	discover()
	if got := last(); got != "s/3" {
		t.Errorf("the second discovery went to %s", got)
	}
	body, header := stateless("2", "echo", "")
	if r := b.do("POST", "s", body, header...); r.status != 200 || last() != "s/3" {
		t.Errorf("%s: got %d %q", last(), r.status, r.body)
	}
	b.open()
	if got := last(); got != "s/4" {
		t.Errorf("the third session is of %s", got)
	}
	if r := b.do("DELETE", "s", "", "Mcp-Session-Id", session); r.status != 204 {
		t.Errorf("DELETE: %d", r.status)
	}
	exit := b.rec.event(t, "server_exit")
	if exit.Data["conn"] != "s/1" {
		t.Errorf("the process that ended is %v", exit.Data)
	}
}

// mirroring is an input schema with arguments that clients repeat in headers.
const mirroring = `{"type":"object","properties":{
	"region":{"type":"string","x-mcp-header":"Region"},
	"level":{"type":"integer","x-mcp-header":"Level"},
	"dry":{"type":"boolean","x-mcp-header":"Dry"},
	"where":{"type":"object","properties":{"zone":{"type":"string","x-mcp-header":"Zone"}}},
	"plain":{"type":"string"},
	"odd":{"x-mcp-header":7}},
	"allOf":[{"properties":{"hidden":{"x-mcp-header":"Hidden"}}}]}`

// Arguments that clients repeat in headers are compared with the body.
func TestParamHeadersAreChecked(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	call := func(region string) reply {
		body, header := stateless("2", "tools/call", `"name":"t","arguments":{"region":"eu"}`)
		header = append(header, "Mcp-Name", "t")
		if region != "" {
			header = append(header, "Mcp-Param-Region", region)
		}
		return b.do("POST", "s", body, header...)
	}
	if r := call(""); r.status != 404 { // the server knows no tools/call
		t.Errorf("before the list was seen: %d %s", r.status, r.body)
	}
	body, header := stateless("1", "tools/list", `"tools":[{"name":"t","inputSchema":`+mirroring+`}]`)
	if r := b.do("POST", "s", body, header...); r.status != 200 {
		t.Fatalf("the list: %d %s", r.status, r.body)
	}
	if r := call(""); r.status != 400 || !strings.Contains(r.body, "-32020") {
		t.Errorf("missing: %d %s", r.status, r.body)
	}
	if r := call("us"); r.status != 400 || !strings.Contains(r.body, "-32020") {
		t.Errorf("another: %d %s", r.status, r.body)
	}
	if r := call("eu"); r.status != 404 {
		t.Errorf("as it should be: %d %s", r.status, r.body)
	}
}
