package proxy_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/heavytest"
)

// oddValues are JSON that decoding and encoding again would change.
func oddValues() map[string]string {
	return map[string]string{
		"integers":       `[9007199254740993,-9007199254740993,123456789012345678901234567890]`,
		"fractions":      `[1.0,1e2,1E+2,-0.0,0.10,1e400]`,
		"raw unicode":    "\"\u00a0\u3000a\u200db\ufffd\u2028\u2029\U0001f600\ufeff\"",
		"escapes":        `"\u00a0\u3000\u200d\ufffd\u2028\ud83d\ude00\ud800\/\u0041\u0000<>&\u007f"`,
		"duplicate keys": `{"a":1,"a":2,"A":3,"\u0061":4}`,
		"key order":      `{"z":1,"a":2,"10":3,"9":4,"":5}`,
		"white space":    "[ 1 ,\t{ \"a\" :\t2 } ]",
		"invalid UTF-8":  "\"\xff\xfe\xc0\x80\"",
		"10 MB":          `"` + strings.Repeat("0123456789abcde\u200d\\u200d\u3000", 10<<20/27) + `"`,
	}
}

// odd is a message with value at every level. The fields that mean something are
// among unknown ones.
func odd(version, method, value string) string {
	small := onlyOnce(value)
	return `{"first":` + small + `,"jsonrpc":"2.0","id":"g\u0061te","x":{"y":[` + small + `]},"method":"` + method + `","params":{` +
		`"p":` + value + `,"_meta":{"u":` + small + `,"io.modelcontextprotocol/protocolVersion":"` + version + `",` +
		`"io.modelcontextprotocol/clientCapabilities":{"c":` + small + `}},"deep":[[{"d":` + small + `}]]},"last":` + small + `}`
}

// onlyOnce is value for the places of a message where a large one need not be too.
func onlyOnce(value string) string {
	if len(value) > 1<<20 {
		return `"once is enough"`
	}
	return value
}

// TestBytes sends unusual values at every level of requests, and has them returned in
// results and notifications. The server, the agent and the record must all have exactly the
// bytes that were sent.
func TestBytes(t *testing.T) {
	heavytest.Mark(t)
	for _, era := range []string{"sessions", "stateless"} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			t.Run(era+"/"+accept, func(t *testing.T) {
				b := scriptedBench(t, quick(), 0)
				dir := filepath.Join(t.TempDir(), "trial")
				disk, err := evidence.Create(dir, &secret.Set{}, nil)
				if err != nil {
					t.Fatal(err)
				}
				version, header := "2026-07-28", []string{"Accept", accept, "Mcp-Protocol-Version", "2026-07-28"}
				if era == "sessions" {
					version, header = "2025-11-25", []string{"Accept", accept, "Mcp-Session-Id", b.open()}
				}
				b.rec.also = disk
				want := b.passGate(t, version, header)
				if err := disk.Close(); err != nil {
					t.Fatal(err)
				}
				compareFrames(t, dir, want)
			})
		}
	}
}

// passGate sends everything and returns the expected records.
func (b *bench) passGate(t *testing.T, version string, header []string) (want []string) {
	t.Helper()
	const answer = `{"jsonrpc":"2.0","id":"g\u0061te","result":`
	for name, value := range oddValues() {
		if name == "10 MB" && (header[1] == "application/json" || version != "2025-11-25") {
			continue // the same way for all: once is enough
		}
		sent := odd(version, "whole", value)
		if r := b.do("POST", "s", sent, append(header, "Mcp-Method", "whole")...); r.body != answer+sent+"}" {
			t.Errorf("%s: the agent got other bytes than the server, or that than was sent: %d %.300q", name, r.status, r.body)
		}
		want = append(want, sent, answer+sent+"}")
	}
	return want
}

// TestBytesOfNotifications sends unusual values in notifications of the server.
func TestBytesOfNotifications(t *testing.T) {
	heavytest.Mark(t)
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	for name, value := range oddValues() {
		said := `{"odd":` + onlyOnce(value) + `,"method":"notifications/odd","jsonrpc":"2.0","params":{"v":` + value + `,"_meta":{"v":[` + onlyOnce(value) + `]}}}`
		r := b.post(session, `{"jsonrpc":"2.0","id":1,"method":"emit","params":`+said+`}`)
		if events := r.events(); len(events) != 2 || events[0] != said {
			t.Errorf("%s: the agent got %.300q", name, events)
		}
		if !hasFrame(evidence.ToClient, "", said)(b.rec.all(), nil) {
			t.Errorf("%s: the record has other bytes", name)
		}
	}
}

// TestBytesOfAnswers sends unusual values in the agent's response to a request of the
// server.
func TestBytesOfAnswers(t *testing.T) {
	heavytest.Mark(t)
	b := scriptedBench(t, quick(), 0)
	session := b.open()
	for name, value := range oddValues() {
		s := b.stream(t.Context(), "POST", `{"jsonrpc":"2.0","id":1,"method":"ask"}`, "Mcp-Session-Id", session)
		if got := s.next(); !strings.Contains(got, "sampling/createMessage") {
			t.Fatalf("%s: %.300q", name, got)
		}
		answer := `{"odd":` + onlyOnce(value) + `,"jsonrpc":"2.0","result":{"v":` + value + `},"id":77}`
		if r := b.post(session, answer); r.status != 202 {
			t.Fatalf("%s: %d", name, r.status)
		}
		if got := s.next(); got != `{"jsonrpc":"2.0","id":1,"result":`+answer+`}` {
			t.Errorf("%s: the server got %.300q", name, got)
		}
		if !hasFrame(evidence.ToServer, "", answer)(b.rec.all(), nil) {
			t.Errorf("%s: the record has other bytes", name)
		}
	}
}

// compareFrames reads the frames on disk.
func compareFrames(t *testing.T, dir string, want []string) {
	t.Helper()
	var problems []error
	n := 0
	for frame, err := range evidence.Dir(dir).Frames() {
		switch {
		case err != nil:
			t.Fatal(err)
		case n >= len(want):
			problems = append(problems, fmt.Errorf("frame %d was not expected: %.300q", n, frame.Raw))
		case string(frame.Raw) != want[n] || frame.Truncated > 0 || frame.Redacted > 0:
			problems = append(problems, fmt.Errorf("frame %d has other bytes: %.300q", n, frame.Raw))
		}
		n++
	}
	if n != len(want) {
		problems = append(problems, fmt.Errorf("%d frames, want %d", n, len(want)))
	}
	if err := errors.Join(problems...); err != nil {
		t.Error(err)
	}
}
