package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/model/dialect"
)

// turn is a call that a model answered with a stream. The conversation has the messages, each a text.
func turn(seq int, stream string, messages ...string) evidence.ModelCall {
	list := make([]any, len(messages))
	for i, text := range messages {
		list[i] = map[string]any{"role": "user", "content": text}
	}
	request := jsontext.Encode(map[string]any{
		"model": "m", "stream": true, "system": strings.Repeat("Be helpful. ", 1000), "messages": list,
		"tools": []any{map[string]any{"name": "pay", "input_schema": map[string]any{"type": "object"}}},
	})
	return evidence.ModelCall{
		Seq: seq, Provider: "p", Method: "POST", Path: "/v1/messages?beta=true", Dialect: dialect.Messages, Request: []byte(request),
		Status: 200, ContentType: sse.ContentType, Response: []byte(stream), Outcome: evidence.ModelOK,
	}
}

const (
	first  = "event: message_start\ndata: {\"n\":1}\n\n: ping\n\nevent: message_stop\ndata: {}\n\n"
	second = "data: two\r\n\r\n"
	third  = "data: three\n\n"
)

// conversation has two turns, one of which was asked twice, and a list of models, which ended first.
func conversation() []evidence.ModelCall {
	list := evidence.ModelCall{
		Seq: 1, Provider: "p", Method: "GET", Path: "/v1/models?limit=9", Status: 200, ContentType: "application/json",
		Response: []byte(`{"data":[]}`), Outcome: evidence.ModelOK,
	}
	again := list
	again.Seq = 5
	failed := turn(6, "", "x")
	failed.Outcome, failed.Error = evidence.ModelTransport, "it broke"
	return []evidence.ModelCall{
		turn(3, second, "Pay for B-1 on 2026-11-29.", "It is paid."),
		turn(2, first, "Pay for B-1 on 2026-11-29."),
		list,
		turn(4, third, "Pay for B-1 on 2026-11-29.", "It is paid."),
		again, failed,
	}
}

func seq(calls ...evidence.ModelCall) iter.Seq2[evidence.ModelCall, error] {
	return func(yield func(evidence.ModelCall, error) bool) {
		for _, c := range calls {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// written returns the side of the only provider of calls, as it is read from a cassette's directory.
func written(t *testing.T, calls ...evidence.ModelCall) *cassette.Side {
	t.Helper()
	sides, _, err := Record(seq(calls...))
	if err != nil || len(sides) != 1 {
		t.Fatalf("%v, %v", sides, err)
	}
	dir := filepath.Join(t.TempDir(), "cassette")
	c := &cassette.Cassette{}
	c.Add(cassette.Models, "p", sides["p"])
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	c, err = cassette.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return c.Sides[cassette.Models]["p"]
}

// played is a player with the misses of its side.
type played struct {
	*Player
	misses []string
}

func play(t testing.TB, side *cassette.Side) *played {
	t.Helper()
	p := &played{}
	var err error
	if p.Player, err = Play(side, Options{Missed: func(message string) { p.misses = append(p.misses, message) }}); err != nil {
		t.Fatal(err)
	}
	return p
}

// ask returns what a call's request is answered, read by read.
func (p *played) ask(t testing.TB, c evidence.ModelCall) (status int, reads []string) {
	t.Helper()
	answer, err := p.Answer(t.Context(), c.Method, c.Path, c.Request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	for buffer := make([]byte, 32<<10); ; {
		n, err := answer.Body.Read(buffer)
		if n > 0 {
			reads = append(reads, string(buffer[:n]))
		}
		if err != nil {
			return answer.StatusCode, reads
		}
	}
}

// Every request gets its own answer, whatever the order, event by event; what was asked twice gets both
// answers in their order. Dates do not matter.
func TestPlay(t *testing.T) {
	t.Parallel()
	p := play(t, written(t, conversation()...))
	list := conversation()[2]
	for _, test := range []struct {
		asked evidence.ModelCall
		want  []string
	}{
		{turn(0, "", "Pay for B-1 on 2027-01-01.", "It is paid."), []string{second}},
		{list, []string{`{"data":[]}`}},
		{turn(0, "", "Pay for B-1 on 2027-01-01."), []string{"event: message_start\ndata: {\"n\":1}\n\n", ": ping\n\n", "event: message_stop\ndata: {}\n\n"}},
		{turn(0, "", "Pay for B-1 on 2027-01-01.", "It is paid."), []string{third}},
		{list, []string{`{"data":[]}`}},
	} {
		status, got := p.ask(t, test.asked)
		if diff := cmp.Diff(test.want, got); status != 200 || diff != "" {
			t.Errorf("%s: %d\n%s", test.asked.Path, status, diff)
		}
	}
	if len(p.misses) > 0 {
		t.Errorf("%q", p.misses)
	}
}

// What a side does not answer is told with the first part that differs from the nearest request.
func TestMiss(t *testing.T) {
	t.Parallel()
	p := play(t, written(t, conversation()...))
	other := turn(0, "", "Pay for B-1 on 2026-11-29.")
	other.Path = "/v1/models"
	other.Method, other.Request = "GET", nil
	whole := turn(0, "", "Pay for B-1 on 2026-11-29.")
	whole.Request = []byte(strings.Replace(string(whole.Request), `"stream":true`, `"stream":false`, 1))
	tools := turn(0, "", "Pay for B-1 on 2026-11-29.")
	tools.Request = []byte(strings.Replace(string(tools.Request), `"object"`, `"string"`, 1))
	once := turn(0, "", "Pay for B-1 on 2026-11-29.")
	p.ask(t, once)
	for _, test := range []struct {
		asked evidence.ModelCall
		want  string
	}{
		{turn(0, "", "Pay for B-2 on 2026-11-29.", "It is paid."), `; the nearest is entries[3] of models/p.yaml, from which it differs in messages[0] - {"content":"Pay for B-1 on DATE.","role":"user"} + {"content":"Pay for B-2 on DATE.","role":"user"}; find: sequence would give it entries[2] of models/p.yaml`},
		{turn(0, "", "Pay for B-1 on 2026-11-29.", "It is paid.", "Thanks.", "Bye."), `; the nearest is entries[3] of models/p.yaml, from which it differs in messages[2] + {"content":"Thanks.","role":"user"}, and in 1 other part; find: sequence would give it entries[2] of models/p.yaml`},
		{once, `: entries[1] of models/p.yaml is the same request, and has given its answer; find: sequence would give it entries[2] of models/p.yaml`},
		{whole, `; the nearest is entries[1] of models/p.yaml, from which it differs in stream - true + false`},
		{tools, `; the nearest is entries[1] of models/p.yaml, from which it differs in tools[pay] - {"input_schema":{"type":"object"},"name":"pay"} + {"input_schema":{"type":"string"},"name":"pay"}; find: sequence would give it entries[2] of models/p.yaml`},
		{other, ``},
	} {
		p.misses = nil
		status, reads := p.ask(t, test.asked)
		var failure struct {
			Error struct{ Message string }
		}
		if err := json.Unmarshal([]byte(strings.Join(reads, "")), &failure); err != nil || status != 400 {
			t.Errorf("%d %s: %v", status, reads, err)
		}
		if !slices.Equal(p.misses, []string{failure.Error.Message}) || !strings.HasSuffix(failure.Error.Message, test.want) ||
			!strings.HasPrefix(failure.Error.Message, "no entry answers a request of the kind ") {
			t.Errorf("%s\n%q\nwant %s", failure.Error.Message, p.misses, test.want)
		}
	}
}

// In sequence, the answers of a kind are given in their order, whatever is asked.
func TestPlayInSequence(t *testing.T) {
	t.Parallel()
	side := written(t, conversation()...)
	side.Find = cassette.InSequence
	p := play(t, side)
	for _, want := range []string{first, second, third} {
		if _, got := p.ask(t, turn(0, "", "another prompt")); strings.Join(got, "") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if status, _ := p.ask(t, turn(0, "", "another prompt")); status != 400 || len(p.misses) != 1 {
		t.Errorf("%d, %q", status, p.misses)
	}
}

// A side is small: what a conversation repeats in each request is kept once, and no list twice.
func TestRecordIsSmall(t *testing.T) {
	t.Parallel()
	sides, notes, err := Record(seq(conversation()...))
	if err != nil {
		t.Fatal(err)
	}
	text := jsontext.Encode(jsontext.Decode(must(jsontext.Marshal(sides["p"]))))
	for _, once := range []string{`"system"`, "Pay for B-1", "It is paid."} {
		if n := strings.Count(text, once); len(sides["p"].Entries) != 4 || n != 1 {
			t.Errorf("%d entries, %s %d times:\n%s", len(sides["p"].Entries), once, n, text)
		}
	}
	if want := []string{`request 6 to the model provider "p" is left out, since the provider gave it no complete answer: it broke`}; !slices.Equal(notes, want) {
		t.Errorf("%q", notes)
	}
	cut := turn(1, first, "x")
	cut.Truncated = 7
	if _, _, err := Record(seq(cut)); err == nil || err.Error() != `request 1 to the model provider "p": 7 bytes of it are not in the record, so it cannot be played` {
		t.Errorf("%v", err)
	}
	secret := turn(1, first, "x")
	secret.Redacted = 1
	if _, notes, err := Record(seq(secret)); err != nil || len(notes) != 1 || !strings.HasPrefix(notes[0], `request 1 to the model provider "p" has lost secrets`) {
		t.Errorf("%q, %v", notes, err)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// An answer that an agent did not wait for ends where the agent left, when it leaves again.
func TestLeft(t *testing.T) {
	t.Parallel()
	left := turn(1, first, "x")
	left.Outcome = evidence.ModelCancelled
	p := play(t, written(t, left))
	ctx, leave := context.WithCancel(t.Context())
	answer, err := p.Answer(ctx, left.Method, left.Path, left.Request)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(first))
	if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != first {
		t.Errorf("%q, %v", got, err)
	}
	leave()
	if n, err := answer.Body.Read(got); n > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d, %v", n, err)
	}
}

// Sides that cannot be played are refused with a sentence.
func TestSidesThatCannotBePlayed(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"say":"x"}`: `entries[0]: status 0 is none that ends a request; write one from 200 to 599`,
		`{"status":301,"body":"x","events":["y"]}`:         `entries[0]: give it one of body, body_b64 and events`,
		`{"status":200,"content_type":"a\nb"}`:             `entries[0]: content_type has a line break or a NUL`,
		`{"status":200,"asked":{"like":"x","first":"no"}}`: `entries[0]: its value is no model's answer: json: cannot unmarshal string into Go struct field answer.asked.first of type int`,
	} {
		side := &cassette.Side{Entries: []cassette.Entry{{Answer: &cassette.Answer{Value: json.RawMessage(value)}}}}
		if err := side.Compile(); err != nil {
			t.Fatal(err)
		}
		if _, err := Play(side, Options{}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", value, err, want)
		}
	}
	bomb := &cassette.Side{}
	many := make([]map[string]json.RawMessage, 10_000)
	for i := range many {
		many[i] = map[string]json.RawMessage{"m": json.RawMessage("1")}
	}
	for i := range 200 {
		a := answer{Status: 200, Asked: asked{Like: "x", First: len(many)}}
		if i == 0 {
			a.Asked = asked{Request: "x", Then: many}
		}
		bomb.Entries = append(bomb.Entries, cassette.Entry{Answer: &cassette.Answer{Value: must(jsontext.Marshal(a))}})
	}
	if err := bomb.Compile(); err != nil {
		t.Fatal(err)
	}
	if _, err := Play(bomb, Options{}); err == nil || err.Error() != `entries[104]: the requests up to it have more than 1048576 parts` {
		t.Errorf("%v", err)
	}
}

// FuzzRecord records an exchange and plays it: the same request gets the same bytes, and no other is
// answered as if it were the same.
func FuzzRecord(f *testing.F) {
	f.Add("/v1/messages", []byte(`{"messages":[{"content":"at /tmp/waza-0/r/t-1/workspace on Sun Nov 29 2026"}],"b":1.0}`), []byte(`{"messages":[]}`), []byte(first), sse.ContentType)
	f.Add("/x?y=z", []byte(`{"":[[]],"a":null}`), []byte{}, []byte{0xff, '\n'}, "application/json")
	f.Add("/chat/completions", []byte(`[`), []byte(`[1`), []byte("data: \xff\n\n"), "text/event-stream; charset=x")
	f.Fuzz(func(t *testing.T, path string, request, other, response []byte, contentType string) {
		if strings.ContainsAny(contentType, "\r\n\x00") || !utf8.ValidString(path) {
			return
		}
		c := turn(1, "")
		c.Path, c.Request, c.Response, c.ContentType = path, request, response, contentType
		sides, _, err := Record(seq(c))
		if err != nil {
			t.Fatal(err)
		}
		p := play(t, sides["p"])
		missed := c
		missed.Request = other
		if same := Digest(asItIs, c.Method, path, request) == Digest(asItIs, c.Method, path, other); !same {
			if status, _ := p.ask(t, missed); status != 400 || len(p.misses) != 1 {
				t.Fatalf("%d for a request that was not recorded", status)
			}
		}
		if status, got := p.ask(t, c); status != 200 || strings.Join(got, "") != string(response) {
			t.Fatalf("%d %q, want %q", status, got, response)
		}
	})
}

// FuzzPlay plays values that anybody may have written.
func FuzzPlay(f *testing.F) {
	f.Add([]byte(`{"status":200,"events":["a"],"asked":{"request":"x","like":"x","first":-1,"then":[{"model":"m"}]}}`), []byte(`{"model":"n"}`))
	f.Add([]byte(`{"status":200,"body_b64":"AA=="}`), []byte(``))
	f.Fuzz(func(t *testing.T, value, body []byte) {
		side := &cassette.Side{Entries: []cassette.Entry{{Answer: &cassette.Answer{Value: value}, Times: 1}}}
		if side.Compile() != nil {
			return
		}
		p, err := Play(side, Options{})
		if err != nil || strings.Contains(string(value), "left") {
			return
		}
		c := turn(1, "")
		c.Request = body
		both := &played{Player: p}
		if status, _ := both.ask(t, c); status < 200 || status > 599 {
			t.Fatalf("%d", status)
		}
		if status, _ := both.ask(t, c); status != 400 {
			t.Fatalf("%d for one request more", status)
		}
	})
}
