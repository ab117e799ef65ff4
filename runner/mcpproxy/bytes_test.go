package mcpproxy

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/runner/evidence"
)

// TestBytes sends values that a decode and encode would change, and looks at all
// three places they come to: the server, the agent and the record.
func TestBytes(t *testing.T) {
	b := scriptedBench(t, Limits{Grace: quick().Grace}, 0)
	session := b.open()
	tests := map[string]string{
		"integer above 2^53": `{"n":9007199254740993,"m":123456789012345678901234567890}`,
		"fractions":          `{"a":1.0,"b":1e2,"c":-0.0,"d":1E+400}`,
		"spaces":             "{\"nbsp\":\"\u00a0\",\"ideographic\":\"\u3000\",\"zwj\":\"a\u200db\"}",
		"replacement":        "{\"x\":\"\ufffd\"}",
		"separators":         "{\"x\":\"\u2028\u2029\"}",
		"escapes":            `{"x":"\u0041\/\ud83d\ude00\ud800<>&"}`,
		"key order":          `{"z":1,"a":2,"m":3}`,
		"duplicate keys":     `{"a":1,"a":2,"A":3}`,
		"white space":        "{ \"a\" :\t[ 1 ,2 ] }",
		"invalid UTF-8":      "{\"x\":\"\xff\xfe\"}",
		"10 MB":              `{"x":"` + strings.Repeat("ab\u200d1.0 ", 1<<20) + `"}`,
	}
	for name, params := range tests {
		t.Run(name, func(t *testing.T) {
			before := len(b.rec.all())
			sent := `{"jsonrpc":"2.0","id":1,"unknown":{"q":1.50},"method":"echo","params":` + params + `}`
			want := `{"jsonrpc":"2.0","id":1,"result":` + params + `}`
			if r := b.post(session, sent); r.body != want {
				t.Errorf("the agent got %.300q\nwant %.300q", r.body, want)
			}
			frames := b.rec.all()[before:]
			if len(frames) != 2 || string(frames[0].Raw) != sent || string(frames[1].Raw) != want {
				t.Errorf("the record has other bytes")
			}
			if frames[0].Dir != evidence.ToServer || frames[1].Dir != evidence.ToClient {
				t.Errorf("directions: %v %v", frames[0].Dir, frames[1].Dir)
			}
		})
	}
}

func TestNewlinesInABodyBecomeSpaces(t *testing.T) {
	b := scriptedBench(t, Limits{Grace: quick().Grace}, 0)
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
	b := scriptedBench(t, Limits{Grace: quick().Grace}, 0)
	session := b.open()
	params := "{\"_meta\":{\"progressToken\":\"p\"}}"
	r := b.do("POST", "s", `{"jsonrpc":"2.0","id":1.0,"method":"progress","params":`+params+`}`, "Mcp-Session-Id", session)
	if events := r.events(); len(events) != 2 || events[1] != `{"jsonrpc":"2.0","id":1.0,"result":{}}` {
		t.Errorf("events: %q", events)
	}
}

func Test50MB(t *testing.T) {
	if testing.Short() {
		t.Skip("50 MB")
	}
	b := scriptedBench(t, Limits{Grace: quick().Grace}, 0)
	r := b.post(b.open(), `{"jsonrpc":"2.0","id":1,"method":"big","params":{"size":50000000}}`)
	if len(r.body) != 50000000+len(`{"jsonrpc":"2.0","id":1,"result":""}`) {
		t.Errorf("%d bytes: %.100q", len(r.body), r.body)
	}
}
