package proxy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

func TestHTTPRules(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, limits{message: 1 << 20}, 0)
	session := b.open()
	tests := []struct {
		name         string
		method, host string
		body         string
		header       []string
		status       int
		says         string
	}{
		{"unknown host", "POST", "nobody", initialize, nil, 421, `"nobody"`},
		{"other port", "POST", "s:8080", initialize, nil, 421, ""},
		{"port of http", "DELETE", "s:80", "", nil, 400, ""},
		{"other case", "DELETE", "S", "", nil, 400, ""},
		{"foreign origin", "POST", "s", initialize, []string{"Origin", "http://evil"}, 403, ""},
		{"https origin", "POST", "s", initialize, []string{"Origin", "https://s"}, 403, ""},
		{"null origin", "POST", "s", initialize, []string{"Origin", "null"}, 403, ""},
		{"own origin", "DELETE", "s", "", []string{"Origin", "http://s"}, 400, ""},
		{"method", "PUT", "s", "", nil, 405, ""},
		{"encoding", "POST", "s", initialize, []string{"Content-Encoding", "gzip"}, 415, ""},
		{"accepts neither", "POST", "s", initialize, []string{"Accept", "image/png"}, 406, ""},
		{"GET accepts no stream", "GET", "s", "", []string{"Accept", "application/json", "Mcp-Session-Id", session}, 406, ""},
		{"no session", "POST", "s", `{"jsonrpc":"2.0","id":1,"method":"echo"}`, nil, 400, "Mcp-Session-Id"},
		{"GET without session", "GET", "s", "", nil, 400, ""},
		{"unknown session", "POST", "s", `{"jsonrpc":"2.0","id":1,"method":"echo"}`, []string{"Mcp-Session-Id", "x"}, 404, `"id":1`},
		{"unknown session deleted", "DELETE", "s", "", []string{"Mcp-Session-Id", "x"}, 404, ""},
		{"other version", "POST", "s", `{"jsonrpc":"2.0","id":1,"method":"echo"}`, []string{"Mcp-Session-Id", session, "Mcp-Protocol-Version", "1999-01-01"}, 400, "1999-01-01"},
		{"GET without sessions", "GET", "s", "", []string{"Mcp-Protocol-Version", "2026-07-28"}, 405, ""},
		{"not JSON", "POST", "s", `{"jsonrpc":`, []string{"Mcp-Session-Id", session}, 400, `-32700`},
		{"empty", "POST", "s", ``, []string{"Mcp-Session-Id", session}, 400, `-32700`},
		{"not JSON-RPC", "POST", "s", `{"hello":1}`, []string{"Mcp-Session-Id", session}, 400, `-32600`},
		{"null id", "POST", "s", `{"jsonrpc":"2.0","id":null,"method":"echo"}`, []string{"Mcp-Session-Id", session}, 400, `-32600`},
		{"method twice", "POST", "s", `{"jsonrpc":"2.0","id":1,"method":"echo","method":"exit"}`, []string{"Mcp-Session-Id", session}, 400, `-32600`},
		{"method in other case", "POST", "s", `{"jsonrpc":"2.0","id":1,"method":"echo","Method":"exit"}`, []string{"Mcp-Session-Id", session}, 400, `-32600`},
		{"one id twice", "POST", "s", `[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":1.0,"method":"b"}]`, []string{"Mcp-Session-Id", session}, 400, `-32600`},
		{"too large", "POST", "s", `"` + strings.Repeat("x", 1<<20) + `"`, []string{"Mcp-Session-Id", session}, 413, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := b.do(tt.method, tt.host, tt.body, tt.header...)
			if r.status != tt.status || !strings.Contains(r.body, tt.says) {
				t.Errorf("got %d %q, want %d and %q", r.status, r.body, tt.status, tt.says)
			}
		})
	}
	other, err := b.client.Get("http://s/other")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Body.Close()
	if other.StatusCode != 404 {
		t.Errorf("unknown path: %d", other.StatusCode)
	}
	if r := b.post(session, `{"jsonrpc":"2.0","id":1,"method":"echo","params":{"ok":1}}`); r.status != 200 {
		t.Errorf("the session did not survive: %d %s", r.status, r.body)
	}
}

func TestRefusedRequestsAreRecordedWithTheirAnswer(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, limits{}, 0)
	b.do("POST", "s", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}}`, "User-Agent", "curl/8")
	frames := b.rec.all()
	if len(frames) != 2 || frames[0].Conn != "s/0" || frames[0].Peer.UserAgent != "curl/8" ||
		frames[1].Synthetic != evidence.SyntheticTransport || !strings.Contains(string(frames[1].Raw), `"id":5`) {
		t.Errorf("frames: %+v", frames)
	}
}

func TestSessionLifetime(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	if r := b.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.status != 202 || r.body != "" {
		t.Errorf("notification: %d %q", r.status, r.body)
	}
	r := b.post(session, `{"jsonrpc":"2.0","id":"a","method":"echo","params":{"x":1}}`)
	if want := `{"jsonrpc":"2.0","id":"a","result":{"x":1}}`; r.body != want || r.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("got %q (%s)", r.body, r.header.Get("Content-Type"))
	}
	if r := b.do("DELETE", "s", "", "Mcp-Session-Id", session); r.status != 204 {
		t.Errorf("DELETE: %d", r.status)
	}
	if r := b.post(session, `{"jsonrpc":"2.0","id":2,"method":"echo"}`); r.status != 404 {
		t.Errorf("after DELETE: %d", r.status)
	}
	exit := b.rec.event(t, "server_exit")
	if exit.Data["asked"] != true || exit.Data["code"] != 0 || exit.Data["conn"] != "s/1" {
		t.Errorf("exit: %+v", exit)
	}
}

func TestTwoSessionsDoNotMix(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			session := b.open()
			for n := range 20 {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"echo","params":{"from":%d}}`, n, i)
				want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"from":%d}}`, n, i)
				if got := b.post(session, body).body; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	wg.Wait()
	conns := map[string]string{}
	for _, f := range b.rec.all() {
		if f.Dir != evidence.ToServer {
			continue
		}
		if f.Peer.Session == "" || f.Peer.Addr == "" {
			t.Fatalf("no peer: %+v", f)
		}
		if had := conns[f.Conn]; had != "" && had != f.Peer.Session {
			t.Fatalf("%s holds two sessions", f.Conn)
		}
		conns[f.Conn] = f.Peer.Session
	}
	if len(conns) != 4 {
		t.Errorf("conns: %v", conns)
	}
}

func TestProgressMakesAStream(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	r := b.post(b.open(), `{"jsonrpc":"2.0","id":1,"method":"progress","params":{"_meta":{"progressToken":"p"}}}`)
	events := r.events()
	if r.header.Get("Content-Type") != "text/event-stream" || len(events) != 2 ||
		!strings.Contains(events[0], "notifications/progress") || !strings.Contains(events[1], `"id":1`) {
		t.Errorf("got %s %q", r.header.Get("Content-Type"), r.body)
	}
}

func TestAnAgentThatTakesNoStreamGetsTheAnswerOnly(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	r := b.do("POST", "s", `{"jsonrpc":"2.0","id":1,"method":"progress","params":{"_meta":{"progressToken":"p"}}}`,
		"Mcp-Session-Id", session, "Accept", "application/json")
	if r.body != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("got %q", r.body)
	}
}

func TestServerRequestIsAnsweredByPOST(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	s := b.stream(t.Context(), "POST", `{"jsonrpc":"2.0","id":1,"method":"ask"}`, "Mcp-Session-Id", session)
	if got := s.next(); !strings.Contains(got, "sampling/createMessage") {
		t.Fatalf("first event %q", got)
	}
	answer := `{"jsonrpc":"2.0","id":77,"result":{"model":"m"}}`
	if r := b.post(session, answer); r.status != 202 {
		t.Fatalf("answer: %d", r.status)
	}
	if got, want := s.next(), `{"jsonrpc":"2.0","id":1,"result":`+answer+`}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := s.next(); got != "" {
		t.Errorf("the stream did not end: %q", got)
	}
}

func TestMessagesThatBelongToNoRequest(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	announce := `{"jsonrpc":"2.0","method":"announce"}`
	b.post(session, announce) // waits until a stream opens
	b.rec.wait(t, "two announcements", func(frames []evidence.Frame, _ []evidence.Event) bool {
		n := 0
		for _, f := range frames {
			if f.Dir == evidence.ToClient && strings.Contains(string(f.Raw), "list_changed") {
				n++
			}
		}
		return n == 2 // one was in front of initialize's answer
	})
	first := b.stream(t.Context(), "GET", "", "Mcp-Session-Id", session)
	if got := first.next(); !strings.Contains(got, "list_changed") {
		t.Fatalf("buffered: %q", got)
	}
	second := b.stream(t.Context(), "GET", "", "Mcp-Session-Id", session)
	if got := first.next(); got != "" {
		t.Errorf("the first stream got %q and not its end", got)
	}
	// with a stream of its own, what is about no request keeps out of requests
	held := b.stream(t.Context(), "POST", `{"jsonrpc":"2.0","id":1,"method":"hold"}`, "Mcp-Session-Id", session)
	if got := held.next(); !strings.Contains(got, "notifications/held") {
		t.Fatalf("held: %q", got)
	}
	b.post(session, announce)
	if got := second.next(); !strings.Contains(got, "list_changed") {
		t.Errorf("second stream: %q", got)
	}
	b.post(session, `{"jsonrpc":"2.0","method":"release"}`)
	if got := held.next(); !strings.Contains(got, "released") {
		t.Errorf("held: %q", got)
	}
}

func TestSilenceTurnsIntoAStream(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, b *bench) {
		session := b.open()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		response := b.request(ctx, "POST", "s", `{"jsonrpc":"2.0","id":1,"method":"never"}`, "Mcp-Session-Id", session)
		defer response.Body.Close()
		buf := make([]byte, 64)
		n, _ := response.Body.Read(buf)
		if got := string(buf[:n]); response.Header.Get("Content-Type") != "text/event-stream" || !strings.HasPrefix(got, "id: ") || !strings.HasSuffix(got, "\ndata: \n\n") {
			t.Errorf("got %s %q", response.Header.Get("Content-Type"), got)
		}
	})
}

func TestDisconnectDoesNotCancelASession(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	ctx, cancel := context.WithCancel(t.Context())
	s := b.stream(ctx, "POST", `{"jsonrpc":"2.0","id":1,"method":"hold"}`, "Mcp-Session-Id", session)
	s.next()
	cancel()
	s.next()
	b.post(session, `{"jsonrpc":"2.0","method":"release"}`)
	b.rec.wait(t, "the answer", hasFrame(evidence.ToClient, "", `"released":true`))
	if r := b.post(session, `{"jsonrpc":"2.0","id":1,"method":"echo"}`); !strings.Contains(r.body, `"result"`) {
		t.Errorf("its id is not free again: %s", r.body)
	}
	if strings.Contains(b.stderr.String(), "cancelled") {
		t.Error("the server was told to cancel")
	}
}

// A call whose client has gone when the answer comes is abandoned, unless the client comes
// back for it; so is one that is in flight when the client ends its session.
func TestAbandonedCalls(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	hold := func(id string) (string, func()) {
		return b.held(t, session, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":"hold"}}`)
	}
	_, leave1 := hold("1")
	first2, leave2 := hold("2")
	first3, leave3 := hold("3")
	for id, leave := range map[string]func(){"1": leave1, "2": leave2, "3": leave3} {
		leave()
		b.rec.wait(t, "that it left "+id, hasFrame(evidence.ToServer, evidence.SyntheticAbandoned, `"requestId":`+id))
	}
	live := eventsOf(t, b.again(session, first3))
	b.post(session, release)
	if e := live(); e == nil || !strings.Contains(e.data, `"id":3,"result"`) {
		t.Errorf("who came back got %+v", e)
	}
	for range 2 {
		if e := eventsOf(t, b.again(session, first2))(); e == nil || !strings.Contains(e.data, `"id":2,"result"`) {
			t.Errorf("who came back late got %+v", e)
		}
	}
	_, _ = hold("4")
	b.do("DELETE", "s", "", "Mcp-Session-Id", session)
	b.rec.event(t, "server_exit")
	var got []string
	result, err := capture.Calls(b.rec.sequence())
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range result.Calls {
		got = append(got, fmt.Sprintf("%s %s %q", call.ID, call.Outcome, call.Notes))
	}
	want := []string{`1 abandoned ["late_response: frame 14"]`, `2 ok ["late_response: frame 15"]`, `3 ok []`, `4 abandoned []`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	frames := slices.DeleteFunc(b.rec.all(), func(f evidence.Frame) bool { return !strings.Contains(string(f.Raw), `"id":2,"result"`) })
	if len(frames) != 2 || frames[0].Side != evidence.SideServer || frames[1].Side != evidence.SideAgent {
		t.Errorf("the answer for which the client came back is %+v", frames)
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	batch := `[{"jsonrpc":"2.0","id":1,"method":"x"} , {"jsonrpc":"2.0","method":"n"},{"jsonrpc":"2.0","id":"1","method":"y"}]`
	want := `[{"jsonrpc":"2.0","id":1,"result":{}}, {"jsonrpc":"2.0","id":"1","result":{}}]`
	if r := b.post(session, batch); r.body != want {
		t.Errorf("got %s", r.body)
	}
	split := strings.Replace(batch, `"x"`, `"split"`, 1)
	if events := b.post(session, split).events(); len(events) != 2 {
		t.Errorf("split: %q", events)
	}
	r := b.do("POST", "s", split, "Mcp-Session-Id", session, "Accept", "application/json")
	if want := strings.ReplaceAll(want, ", {", ",{"); r.body != want {
		t.Errorf("split for an agent without streams: %s", r.body)
	}
	if r := b.post(session, `[{"jsonrpc":"2.0","method":"n"}]`); r.status != 202 {
		t.Errorf("notifications only: %d", r.status)
	}
}

func TestCloseAnswersWhatIsInFlight(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	s := b.stream(t.Context(), "POST", `{"jsonrpc":"2.0","id":1,"method":"hold"}`, "Mcp-Session-Id", session)
	s.next()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.proxy.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.proxy.Close(ctx); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if got := s.next(); !strings.Contains(got, `"id":1,"error"`) || !strings.Contains(got, `\"s\"`) {
		t.Errorf("got %q", got)
	}
	if !hasFrame(evidence.ToClient, evidence.SyntheticTransport, `"id":1`)(b.rec.all(), nil) {
		t.Error("the answer is not on record")
	}
}

func TestCloseKillsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	b.post(session, `{"jsonrpc":"2.0","id":1,"method":"stubborn"}`)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := b.proxy.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if exit := b.rec.event(t, "server_exit"); exit.Data["signal"] != "SIGKILL" {
		t.Errorf("exit: %+v", exit)
	}
}
