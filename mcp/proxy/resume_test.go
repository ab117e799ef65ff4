package proxy_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
)

// sseEvent is an event of a stream as an SSE client reads it.
type sseEvent struct{ id, retry, data string }

// eventsOf reads a stream event by event; nil at its end. Comments are left out.
func eventsOf(t *testing.T, response *http.Response) func() *sseEvent {
	t.Helper()
	if kind := response.Header.Get("Content-Type"); response.StatusCode != 200 || kind != "text/event-stream" {
		t.Fatalf("no stream but %d %s", response.StatusCode, kind)
	}
	t.Cleanup(func() { response.Body.Close() })
	in := bufio.NewReader(response.Body)
	return func() *sseEvent {
		var e sseEvent
		seen := false
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return nil
			}
			line = strings.TrimSuffix(line, "\n")
			field, value, _ := strings.Cut(line, ": ")
			switch field {
			case "id":
				e.id = value
			case "retry":
				e.retry = value
			case "data":
				e.data, seen = value, true
			case "":
				if seen {
					return &e
				}
			}
		}
	}
}

// holding starts a request that is answered on "release", and returns the id of
// the first event on its stream and what breaks the connection.
func (b *bench) holding(t *testing.T, session, id string) (first string, leave func()) {
	t.Helper()
	return b.held(t, session, `{"jsonrpc":"2.0","id":`+id+`,"method":"hold"}`)
}

// held is holding with any request that the server holds.
func (b *bench) held(t *testing.T, session, request string) (first string, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	next := eventsOf(t, b.request(ctx, "POST", "s", request, "Mcp-Session-Id", session))
	e := next()
	if e == nil || e.id == "" || e.retry == "" || !strings.Contains(e.data, "notifications/held") {
		t.Fatalf("first event: %+v", e)
	}
	return e.id, func() { cancel(); next() }
}

func (b *bench) again(session, event string) *http.Response {
	return b.request(b.t.Context(), "GET", "s", "", "Mcp-Session-Id", session, "Last-Event-ID", event)
}

const release = `{"jsonrpc":"2.0","method":"release"}`

func (b *bench) released(t *testing.T, session string) {
	t.Helper()
	b.post(session, release)
	b.rec.wait(t, "the answer", hasFrame(evidence.ToClient, "", `"released":true`))
}

func TestResumeGetsWhatWasMissed(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	first, leave := b.holding(t, session, "1")
	leave()
	b.released(t, session)
	for range 2 { // as often as the agent likes
		next := eventsOf(t, b.again(session, first))
		e := next()
		if e == nil || !strings.Contains(e.data, `"id":1,"result":{"released":true}`) || e.id == first {
			t.Fatalf("resumed: %+v", e)
		}
		if extra := next(); extra != nil {
			t.Errorf("more: %+v", extra)
		}
		if end := eventsOf(t, b.again(session, e.id))(); end != nil {
			t.Errorf("after the last: %+v", end)
		}
	}
}

func TestResumeGoesOnLive(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	first, leave := b.holding(t, session, "1")
	leave()
	next := eventsOf(t, b.again(session, first))
	b.post(session, release)
	if e := next(); e == nil || !strings.Contains(e.data, `"released":true`) {
		t.Errorf("live: %+v", e)
	}
	if e := next(); e != nil {
		t.Errorf("the stream did not end: %+v", e)
	}
}

func TestResumeTakesOverFromAConnectionThatSeemsAlive(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	old := eventsOf(t, b.request(ctx, "POST", "s", `{"jsonrpc":"2.0","id":1,"method":"hold"}`, "Mcp-Session-Id", session))
	first := old()
	next := eventsOf(t, b.again(session, first.id))
	if e := old(); e != nil {
		t.Errorf("the old connection got %+v", e)
	}
	b.post(session, release)
	if e := next(); e == nil || !strings.Contains(e.data, `"released":true`) {
		t.Errorf("the new one got %+v", e)
	}
}

func TestResumeAfterSilence(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, b *bench) {
		session := b.open()
		ctx, cancel := context.WithCancel(t.Context())
		next := eventsOf(t, b.request(ctx, "POST", "s", `{"jsonrpc":"2.0","id":1,"method":"late"}`, "Mcp-Session-Id", session))
		primer := next()
		if primer == nil || primer.id == "" || primer.retry == "" || primer.data != "" {
			t.Fatalf("first event: %+v", primer)
		}
		cancel()
		next()
		b.released(t, session)
		if e := eventsOf(t, b.again(session, primer.id))(); e == nil || !strings.Contains(e.data, `"released":true`) {
			t.Errorf("resumed: %+v", e)
		}
	})
}

// TestResumeOfOneStreamOnly checks that no message of one stream comes on another.
func TestResumeOfOneStreamOnly(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	first, leave := b.holding(t, session, "1")
	other, leaveOther := b.holding(t, session, "2")
	leave()
	leaveOther()
	b.released(t, session)
	for id, event := range map[string]string{"1": first, "2": other} {
		e := eventsOf(t, b.again(session, event))()
		if e == nil || !strings.Contains(e.data, `"id":`+id+`,`) {
			t.Errorf("stream %s: %+v", id, e)
		}
	}
}

func TestResumeOfTheSessionsOwnStream(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, b *bench) {
		session := b.open()
		ctx, cancel := context.WithCancel(t.Context())
		next := eventsOf(t, b.request(ctx, "GET", "s", "", "Mcp-Session-Id", session))
		first := next() // says after what to resume, since nothing was sent
		b.post(session, `{"jsonrpc":"2.0","method":"announce"}`)
		second := next()
		if first == nil || second == nil {
			t.Fatalf("%+v %+v", first, second)
		}
		cancel()
		next()
		again := eventsOf(t, b.again(session, first.id))
		if e := again(); e == nil || e.id != second.id || e.data != second.data {
			t.Errorf("missed: %+v, want %+v", e, second)
		}
		b.post(session, `{"jsonrpc":"2.0","method":"announce"}`)
		if e := again(); e == nil || !strings.Contains(e.data, "list_changed") || e.id == second.id {
			t.Errorf("live: %+v", e)
		}
	})
}

func TestResumeRefuses(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session, other := b.open(), b.open()
	first, leave := b.holding(t, session, "1")
	leave()
	unknown := strings.Split(first, "-")[0] + "-77"
	for _, tt := range []struct{ name, session, event string }{
		{"no id", session, "x"},
		{"number", session, "7"},
		{"negative", session, "-1-1"},
		{"spelt otherwise", session, "0" + first},
		{"no such stream", session, "99-0"},
		{"not sent yet", session, unknown},
		{"nothing sent on it", session, "0-0"},
		{"another session's", other, first},
		{"too long", session, strings.Repeat("9", 4096) + "-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			response := b.again(tt.session, tt.event)
			response.Body.Close()
			if response.StatusCode != 400 {
				t.Errorf("status %d", response.StatusCode)
			}
		})
	}
	b.do("DELETE", "s", "", "Mcp-Session-Id", session)
	if response := b.again(session, first); response.StatusCode != 404 {
		t.Errorf("after the session: %d", response.StatusCode)
	}
}

// TestJournalIsBounded checks that the buffer for resumption stays within its limits, and
// that a stream with a gap is not resumed.
func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	within := quick()
	within.Replay = 1 << 10
	b := scriptedBench(t, within, 0)
	session := b.open()
	first, leave := b.holding(t, session, "1")
	leave()
	b.released(t, session)
	if e := eventsOf(t, b.again(session, first))(); e == nil { // the replay buffer has it by then
		t.Fatal("the answer is not kept")
	}
	if r := b.post(session, `{"jsonrpc":"2.0","id":3,"method":"big","params":{"size":100000}}`); len(r.body) < 100000 {
		t.Fatalf("%d bytes", len(r.body))
	}
	response := b.again(session, first)
	response.Body.Close()
	if response.StatusCode != 400 {
		t.Errorf("status %d", response.StatusCode)
	}
	b.do("DELETE", "s", "", "Mcp-Session-Id", session)
	b.rec.event(t, "server_exit")
	if lost := b.proxy.ReplayUsed(); lost != 0 {
		t.Errorf("%d bytes of the replay buffer are lost", lost)
	}
}

// TestResumeWhileItFlows breaks connections again and again and holds that every
// message comes once and in order.
func TestResumeWhileItFlows(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	announce := `{"jsonrpc":"2.0","method":"announce"}`
	b.post(session, announce)
	ctx, cancel := context.WithCancel(t.Context())
	last := eventsOf(t, b.request(ctx, "GET", "s", "", "Mcp-Session-Id", session))()
	seen := map[string]bool{last.id: true}
	for range 30 {
		b.post(session, announce)
		b.post(session, announce)
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		next := eventsOf(t, b.request(ctx, "GET", "s", "", "Mcp-Session-Id", session, "Last-Event-ID", last.id))
		for range 2 {
			e := next()
			if e == nil || seen[e.id] {
				t.Fatalf("after %s: %+v", last.id, e)
			}
			seen[e.id], last = true, e
		}
	}
	cancel()
	if last.id != "0-61" {
		t.Errorf("the last is %s", last.id)
	}
}
