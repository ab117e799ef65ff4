package record

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/evidence/secret"
)

// trial writes the evidence of a trial with the frames of server shop, each a line with its
// conversation, its direction and its bytes.
func trial(t *testing.T, of evidence.Trial, lines ...string) evidence.Dir {
	t.Helper()
	dir := evidence.Dir(t.TempDir())
	of.Servers = append(of.Servers, evidence.ServerRecord{Name: "shop"})
	if err := dir.WriteTrial(of); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(string(dir), evidence.FramesDir), 0o755); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for i, line := range lines {
		conn, rest, _ := strings.Cut(line, " ")
		way, raw, _ := strings.Cut(rest, " ")
		f := evidence.Frame{Seq: int64(i + 1), Server: "shop", Conn: conn, Dir: evidence.ToServer, Raw: []byte(raw)}
		if way == "<" {
			f.Dir = evidence.ToClient
		}
		if strings.HasPrefix(conn, "runner/") {
			f.Sender = evidence.SenderRunner
		}
		if at := strings.Index(raw, "******"); at >= 0 {
			f.Redacted, f.Spans = 1, []secret.Span{{At: at, Bytes: 6, Secrets: []string{"TOKEN"}}}
			f.Secrets = map[string]int{"TOKEN": 1}
		}
		if strings.HasSuffix(raw, "...") {
			f.Truncated = 7
		}
		if _, kind, ok := strings.Cut(raw, `"data":{"waza":"`); ok {
			kind, _, _ = strings.Cut(kind, `"`)
			f.Synthetic = evidence.Synthetic(kind)
		}
		data, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, data...), '\n')
	}
	if err := os.WriteFile(filepath.Join(string(dir), evidence.FramesOf("shop")), all, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// hello are the frames in which a client begins a conversation.
func hello(conn, version string) []string {
	return []string{
		conn + ` > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `"}}`,
		conn + ` < {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"` + version + `","capabilities":{"tools":{}}}}`,
		conn + ` > {"jsonrpc":"2.0","method":"notifications/initialized"}`,
		conn + ` > {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"progressToken":1}}}`,
		conn + ` < {"jsonrpc":"2.0","id":2,"result": {"tools": []}}`,
	}
}

// pay are the frames of a call.
func pay(conn string, id int, arguments, answer string) []string {
	return []string{
		fmt.Sprintf(`%s > {"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"pay","arguments":%s}}`, conn, id, arguments),
		fmt.Sprintf(`%s < {"jsonrpc":"2.0","id":%d,%s}`, conn, id, answer),
	}
}

func frames(all ...[]string) (lines []string) {
	for _, some := range all {
		lines = append(lines, some...)
	}
	return lines
}

// What trials show of a server is one side for each task, and one for all of them with what the server says of
// itself. Repeats of a call are one entry, and trials that differ have entries of their own.
func TestServers(t *testing.T) {
	const done = `"result":{"content":[]}`
	dirs := []evidence.Dir{
		trial(t, evidence.Trial{Task: "buy", Number: 2}, frames(
			hello("runner/shop/1", "2025-11-25"), hello("shop/1", "2025-06-18"), pay("shop/1", 3, `{"n":1}`, done), pay("shop/1", 4, `{"n":1}`, done))...),
		trial(t, evidence.Trial{Task: "buy", Number: 1}, frames(
			hello("shop/1", "2025-06-18"), pay("shop/1", 3, `{"n":1}`, done), pay("shop/1", 4, `{"n":1}`, done))...),
		trial(t, evidence.Trial{Task: "ask", Number: 1}, frames(
			hello("shop/1", "2025-06-18"), pay("shop/1", 3, `{}`, `"error":{"code":-1,"message":"no"}`), pay("runner/shop/1", 3, `{}`, done))...),
		trial(t, evidence.Trial{Task: "ask", Number: 2}, frames(
			hello("shop/1", "2025-06-18"), pay("shop/1", 3, `{}`, `"error":{"code":-2,"message":"no"}`), pay("runner/shop/1", 3, `{}`, done))...),
		trial(t, evidence.Trial{Task: "ask", Number: 3, Class: evidence.ClassInfra}, hello("shop/1", "2025-06-18")...),
	}
	c, left, err := Trials(dirs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"ask/3 ended as infra"}, left); diff != "" {
		t.Error(diff)
	}
	at := filepath.Join(t.TempDir(), "cassette")
	if err := c.Write(at); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"cassette.yaml": "version: 1\n",
		"servers/shop.yaml": `entries:
- kind: {method: initialize}
  answer: {value: {result: {protocolVersion: "2025-11-25", capabilities: {tools: {}}}}}
- {kind: {method: tools/list}, answer: {value: {result: {tools: []}}}}
`,
		"tasks/buy/servers/shop.yaml": `entries:
- kind: {tool: pay}
  match: {arguments: {equals: {"n": 1}}}
  times: 2
  answer: {value: {result: {content: []}}}
`,
		"tasks/ask/servers/shop.yaml": `entries:
- kind: {sender: agent, tool: pay, trial: 1}
  match: {arguments: {equals: {}}}
  times: 1
  answer: {value: {error: {code: -1, message: "no"}}}
- kind: {sender: runner, tool: pay, trial: 1}
  match: {arguments: {equals: {}}}
  times: 1
  answer: {value: {result: {content: []}}}
- kind: {sender: agent, tool: pay, trial: 2}
  match: {arguments: {equals: {}}}
  times: 1
  answer: {value: {error: {code: -2, message: "no"}}}
- kind: {sender: runner, tool: pay, trial: 2}
  match: {arguments: {equals: {}}}
  times: 1
  answer: {value: {result: {content: []}}}
`,
	}
	got := map[string]string{}
	read, err := cassette.Read(at)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range read.Files {
		content, err := os.ReadFile(filepath.Join(at, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = schemaLine.ReplaceAllString(string(content), "")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// schemaLine is the comment that names the schema of a side.
var schemaLine = regexp.MustCompile("^# yaml-language-server: .*\n")

// A list that changes is recorded as it changed, and stays as it was in the end.
func TestChangedList(t *testing.T) {
	lines := hello("shop/1", "2025-06-18")
	for i, tools := range []string{`[]`, `[{"name":"a"}]`, `[{"name":"b"}]`, `[{"name":"b"}]`} {
		lines = append(lines,
			fmt.Sprintf(`shop/1 > {"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i+3),
			fmt.Sprintf(`shop/1 < {"jsonrpc":"2.0","id":%d,"result":{"tools":%s}}`, i+3, tools))
	}
	c, _, err := Trials([]evidence.Dir{trial(t, evidence.Trial{Task: "a", Number: 1}, lines...)})
	if err != nil {
		t.Fatal(err)
	}
	side, err := c.Side(cassette.Servers, "a", "shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := side.Compile(); err != nil {
		t.Fatal(err)
	}
	play := side.Play()
	for _, want := range []string{`[]`, `[]`, `[{"name":"a"}]`, `[{"name":"b"}]`, `[{"name":"b"}]`, `[{"name":"b"}]`} {
		given, miss := play.Ask("", map[string]any{"method": "tools/list"})
		if want := `{"result":{"tools":` + want + `}}`; miss != nil || string(given.Value) != want {
			t.Errorf("it lists %s, %v, want %s", given.Value, miss, want)
		}
	}
}

// What cannot be played is refused by name, and what is not played is told.
func TestLeftOut(t *testing.T) {
	const done = `"result":{"content":[]}`
	for want, lines := range map[string][]string{
		`a/1: server "shop": the call of "pay" (frame 6) cannot be played: it was sent the secret TOKEN`: frames(hello("shop/1", "2025-06-18"), pay("shop/1", 3, `{"key":"******"}`, done)),
		`a/1: server "shop": frame 7 cannot be played: 7 bytes of it were not kept`:                      frames(hello("shop/1", "2025-06-18"), pay("shop/1", 3, `{}`, done)[:1], []string{`shop/1 < {"jsonrpc":"2.0",...`}),
		"no trial of the run shows anything to record":                                                   nil,
	} {
		if _, _, err := Trials([]evidence.Dir{trial(t, evidence.Trial{Task: "a", Number: 1}, lines...)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	lines := frames(hello("shop/1", "2025-06-18"), pay("shop/1", 3, `{}`, `"result":{"content":"******"}`),
		pay("shop/1", 4, `{}`, `"error":{"code":-32000,"message":"HTTP 404","data":{"waza":"session_expired"}}`),
		[]string{`shop/1 < {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`})
	_, left, err := Trials([]evidence.Dir{trial(t, evidence.Trial{Task: "a", Number: 1}, lines...)})
	want := []string{
		`a/1: server "shop": in the answer to the call of "pay" (frame 6), marks stand for the secret TOKEN`,
		`a/1: server "shop": the call of "pay" (frame 8) got no answer (session_expired)`,
		`a/1: server "shop": 1 message that it sent without being asked`,
	}
	if diff := cmp.Diff(want, left); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// Answers that are given many times are compared by how often.
func TestDrift(t *testing.T) {
	side := func(entries ...string) *cassette.Cassette {
		s := &cassette.Side{}
		if err := json.Unmarshal([]byte(`{"entries":[`+strings.Join(entries, ",")+`]}`), s); err != nil {
			t.Fatal(err)
		}
		c := &cassette.Cassette{}
		c.Add(cassette.Servers, "shop", s)
		return c
	}
	pay := func(times int, answer string) string {
		return fmt.Sprintf(`{"kind":{"tool":"pay"},"times":%d,"answer":{"value":{"result":%q}}}`, times, answer)
	}
	const always = `{"kind":{"tool":"look"},"answer":{"value":{"result":1}}}`
	for _, c := range []struct {
		name     string
		from, to *cassette.Cassette
		want     []string
	}{
		{"the same", side(pay(1000000, "a"), always), side(pay(1000000, "a"), always), nil},
		{"the same in two entries", side(pay(1000000, "a")), side(pay(1, "a"), pay(999999, "a")), nil},
		{"other answers", side(pay(3, "a"), pay(999997, "b")), side(pay(1000000, "a")), []string{`answered otherwise: {"tool":"pay"}: answer.result was "b", is "a", 999997 times`}},
		{"more", side(pay(1, "a")), side(pay(1000000, "a"), always), []string{`asked anew: {"tool":"pay"}, 999999 times`, `asked anew: {"tool":"look"}`}},
		{"fewer", side(pay(1, "a"), pay(999999, "b"), always), side(pay(2, "a")), []string{
			`answered otherwise: {"tool":"pay"}: answer.result was "b", is "a"`, `not asked any more: {"tool":"pay"}, 999998 times`, `not asked any more: {"tool":"look"}`,
		}},
	} {
		var want []string
		for _, line := range c.want {
			want = append(want, "servers shop: "+line)
		}
		if diff := cmp.Diff(want, Drift(c.from, c.to)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
