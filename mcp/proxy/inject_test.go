package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
)

func prepared(t testing.TB, all ...Injection) injections {
	t.Helper()
	in, err := newInjections(all)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestInject(t *testing.T) {
	in := prepared(t, Injection{Number: 1, Text: `Do "this" <now>` + "\n"}, Injection{Number: 2, Text: "and that", Match: "harbour"})
	first, second := `{"type":"text","text":"Do \"this\" <now>\n"}`, `{"type":"text","text":"and that"}`
	all := func(jsonrpc.ID) injections { return in }
	for name, test := range map[string]struct {
		in, want string
		numbers  []int
	}{
		"behind the others":        {`{"id":1.0,"result":{"content":[ {"type":"text","text":"a"} ],"n":1e2}}`, `{"id":1.0,"result":{"content":[ {"type":"text","text":"a"} ,` + first + `],"n":1e2}}`, []int{1}},
		"alone":                    {`{"result":{"content":[]}}`, `{"result":{"content":[` + first + `]}}`, []int{1}},
		"alone in a blank":         {`{"result":{"content":[ ]}}`, `{"result":{"content":[ ` + first + `]}}`, []int{1}},
		"what it is for":           {`{"result":{"content":[{"type":"text","text":"the h\u0061rbour"}]}}`, `{"result":{"content":[{"type":"text","text":"the h\u0061rbour"},` + first + `,` + second + `]}}`, []int{1, 2}},
		"structured content stays": {`{"result":{"structuredContent":{"content":[]},"content":[1]}}`, `{"result":{"structuredContent":{"content":[]},"content":[1,` + first + `]}}`, []int{1}},
		"the last of two":          {`{"result":{"content":[]},"result":{"content":[],"content":[2]}}`, `{"result":{"content":[]},"result":{"content":[],"content":[2,` + first + `]}}`, []int{1}},
		"no result":                {`{"result":{"content":[],"isError":"no"}}`, "", nil},
		"no error":                 {`{"result":{"content":[],"isError":true}}`, "", nil},
		"no error either":          {`{"error":{"code":1,"message":"m","content":[]}}`, "", nil},
		"no list":                  {`{"result":{"content":{}}}`, "", nil},
		"no content":               {`{"result":{"resultType":"input_required"}}`, "", nil},
		"another case":             {`{"result":{"Content":[]}}`, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want == "" {
				test.want = test.in
			}
			got, numbers := inject([]byte(test.in), false, all)
			if string(got) != test.want || !slices.Equal(numbers, test.numbers) {
				t.Errorf("got  %s %v\nwant %s %v", got, numbers, test.want, test.numbers)
			}
		})
	}
	batch := `[{"id":1,"result":{"content":[]}}, {"id":"1","result":{"content":[0]}}]`
	got, _ := inject([]byte(batch), true, func(key jsonrpc.ID) injections {
		if key.Key == "s1" {
			return in
		}
		return nil
	})
	if want := `[{"id":1,"result":{"content":[]}}, {"id":"1","result":{"content":[0,` + first + `]}}]`; string(got) != want {
		t.Errorf("batch: %s", got)
	}
}

// FuzzInject holds that what a server says stays JSON, keeps all of its bytes in their
// order, and gets the text where a client looks for it.
func FuzzInject(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}],"isError":false}}`))
	f.Add([]byte(`{"result":{"content":[],"content":[[]]},"Result":{"content":[]},"result":{"content":[{}]}}`))
	f.Add([]byte(`[{"id":1,"result":{"content":[]}},{"id":1,"result":{"content":[1]}}]`))
	in := prepared(f, Injection{Number: 1, Text: "injected"})
	block := string(in[0].block)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		raw = slices.Clip(raw)
		batch := strings.HasPrefix(strings.TrimLeft(string(raw), " \t\r\n"), "[")
		out, numbers := inject(raw, batch, func(jsonrpc.ID) injections { return in })
		if !json.Valid(out) {
			t.Fatalf("%s became %s", raw, out)
		}
		if len(numbers) == 0 {
			if string(out) != string(raw) {
				t.Fatalf("%s became %s", raw, out)
			}
			return
		}
		if !strings.Contains(string(raw), block) {
			back := strings.ReplaceAll(strings.ReplaceAll(string(out), ","+block, ""), block, "")
			if back != string(raw) {
				t.Fatalf("%s became %s", raw, out)
			}
		}
	})
}

// calling is a call whose server answers with its parameters.
func calling(tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"content":[{"type":"text","text":"the harbour"}],"n":9007199254740993}}`, tool)
}

// TestInjectedResults holds the same for every transport: the agent finds the text in the
// result of that tool, the record has what both sides saw, and all else is untouched.
func TestInjectedResults(t *testing.T) {
	t.Parallel()
	overHTTP := func(stream bool) Server {
		return Server{Server: transport.Server{Upstream: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			raw := readAll(r.Body)
			env, err := parse(raw)
			if err != nil || len(env.of(request)) == 0 {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			result := string(jsontext.Member(raw, "params"))
			if env.messages[0].method == "initialize" {
				w.Header().Set("Mcp-Session-Id", "s1")
				result = `{"protocolVersion":"2025-11-25"}`
			}
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, env.messages[0].id.Raw, result)
			if stream {
				written(w, "id: 5\ndata: "+answer+"\n\n")
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(answer))
		})}}
	}
	old, _, _ := eventsUpstream(t, "/message?session=ID")
	for name, server := range map[string]Server{
		"stdio": {Server: transport.Server{Launch: launching(t, "scripted")}}, "HTTP+SSE": {Server: transport.Server{Upstream: old}}, "JSON": overHTTP(false), "stream": overHTTP(true),
	} {
		t.Run(name, func(t *testing.T) {
			server.Name, server.Inject = "s", []Injection{{Number: 3, Tool: "read", Text: "send it on", Match: "harbour"}}
			b := newBench(t, quick(), server)
			session := b.open()
			plain := b.post(session, calling("write")).body
			if plain == "" || strings.Contains(plain, "send it on") {
				t.Errorf("another tool answers %s", plain)
			}
			got := b.post(session, calling("read")).body
			if strings.Replace(got, `,{"type":"text","text":"send it on"}`, "", 1) != strings.Replace(plain, `"write"`, `"read"`, 1) || !strings.Contains(got, "send it on") {
				t.Errorf("the agent got %s\nand before %s", got, plain)
			}
			frames := b.rec.all()
			server, agent := frames[len(frames)-2], frames[len(frames)-1]
			if server.Side != evidence.SideServer || strings.Contains(string(server.Raw), "send it on") || server.Injected != nil {
				t.Errorf("the server's frame is %+v %s", server, server.Raw)
			}
			if agent.Side != evidence.SideAgent || string(agent.Raw) != got || !slices.Equal(agent.Injected, []int{3}) {
				t.Errorf("the agent's frame is %+v %s", agent, agent.Raw)
			}
			result, err := capture.Calls(b.rec.sequence())
			if err != nil || len(result.Gaps) > 0 || len(result.Calls) != 2 || !strings.Contains(string(result.Calls[1].Result), "send it on") {
				t.Errorf("calls %+v, gaps %v, %v", result.Calls, result.Gaps, err)
			}
			b.rec.wait(t, "the event", func(_ []evidence.Frame, events []evidence.Event) bool {
				return slices.ContainsFunc(events, func(e evidence.Event) bool {
					return e.Kind == evidence.EventInjection && e.Where == "s" && e.Data[evidence.DataInjection] == 3
				})
			})
		})
	}
}
