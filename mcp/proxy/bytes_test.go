package proxy_test

import (
	"strconv"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/heavytest"
)

func TestNewlinesInABodyBecomeSpaces(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	sent := "{\r\n \"jsonrpc\":\"2.0\",\n\"id\":1,\"method\":\"echo\",\"params\":{\n\"a\":\r\"x\\n\"}}\n"
	want := `{"jsonrpc":"2.0","id":1,"result":{ "a": "x\n"}}`
	if r := b.post(b.open(), sent); r.body != want {
		t.Errorf("got %q", r.body)
	}
	if !hasFrame(evidence.ToServer, "", sent)(b.rec.all(), nil) {
		t.Error("the record has other bytes than the agent sent")
	}
}

func TestBytesOnAStream(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	params := "{\"_meta\":{\"progressToken\":\"p\"}}"
	r := b.do("POST", "s", `{"jsonrpc":"2.0","id":1.0,"method":"progress","params":`+params+`}`, "Mcp-Session-Id", session)
	if events := r.events(); len(events) != 2 || events[1] != `{"jsonrpc":"2.0","id":1.0,"result":{}}` {
		t.Errorf("events: %q", events)
	}
}

// A stream of one answer has a length; one with messages before the answer has none.
func TestLengthOfAStream(t *testing.T) {
	t.Parallel()
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	r := b.post(session, ping)
	if got := r.header.Get("Content-Length"); got != strconv.Itoa(len(r.raw)) || r.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("an answer of %d bytes: %q", len(r.raw), r.header)
	}
	r = b.post(session, `{"jsonrpc":"2.0","id":1,"method":"progress","params":{"_meta":{"progressToken":"p"}}}`)
	if got := r.header.Get("Content-Length"); got != "" || len(r.events()) != 2 {
		t.Errorf("a message and an answer: length %q: %q", got, r.raw)
	}
}

func Test50MB(t *testing.T) {
	heavytest.Mark(t)
	if testing.Short() {
		t.Skip("50 MB")
	}
	b := scriptedBench(t, quick(), 0)
	r := b.post(b.open(), `{"jsonrpc":"2.0","id":1,"method":"big","params":{"size":50000000}}`)
	if len(r.body) != 50000000+len(`{"jsonrpc":"2.0","id":1,"result":""}`) {
		t.Errorf("%d bytes: %.100q", len(r.body), r.body)
	}
}
