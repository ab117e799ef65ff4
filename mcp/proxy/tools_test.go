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
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
)

func TestCut(t *testing.T) {
	show := newToolFilter([]string{"a", "b"})
	all := func(jsonrpc.ID) bool { return true }
	for name, test := range map[string]struct{ in, want string }{
		"all stay":        {`{"id":1,"result":{"tools":[{"name":"a"}, {"name":"b"}]}}`, ""},
		"the first":       {`{"result":{"tools":[ {"name":"x"} , {"name":"a"} ]}}`, `{"result":{"tools":[ {"name":"a"} ]}}`},
		"the last":        {`{"result":{"tools":[ {"name":"a"} , {"name":"x"} ]}}`, `{"result":{"tools":[ {"name":"a"} ]}}`},
		"the middle":      {`{"result":{"tools":[{"name":"a"},{"name":"x"} ,{"name":"b","n":1.0}]}}`, `{"result":{"tools":[{"name":"a"} ,{"name":"b","n":1.0}]}}`},
		"all go":          {`{"result":{"tools":[ {"name":"x"},{"name":"y"}	]}}`, `{"result":{"tools":[ 	]}}`},
		"one goes":        {`{"result":{"tools":[{"name":"x"}]}}`, `{"result":{"tools":[]}}`},
		"the rest stays":  {`{"result":{"_meta":{"n":1e2},"tools":[{"name":"x"}],"nextCursor":"c"},"id":1.0,"jsonrpc":"2.0"}`, `{"result":{"_meta":{"n":1e2},"tools":[],"nextCursor":"c"},"id":1.0,"jsonrpc":"2.0"}`},
		"two names":       {`{"result":{"tools":[{"name":"x","name":"a"},{"name":"a","Name":"x"},{"name":"a"}]}}`, `{"result":{"tools":[{"name":"a"}]}}`},
		"an escaped name": {`{"result":{"tools":[{"name":"\u0061"},{"name":"\u0078"}]}}`, `{"result":{"tools":[{"name":"\u0061"}]}}`},
		"no tool":         {`{"result":{"tools":[1,"a",null,{},{"name":7},{"name":"a"}]}}`, `{"result":{"tools":[{"name":"a"}]}}`},
		"keys in case":    {`{"Result":{"TOOLS":[{"NAME":"x"}]}}`, `{"Result":{"TOOLS":[]}}`},
		"keys twice":      {`{"result":{"tools":[{"name":"x"}],"tools":[{"name":"y"}]},"result":{"tools":[{"name":"z"}]}}`, `{"result":{"tools":[],"tools":[]},"result":{"tools":[]}}`},
		"no list":         {`{"result":{"tools":{"name":"x"}}}`, ""},
		"an error":        {`{"id":1,"error":{"code":1,"message":"m","tools":[{"name":"x"}]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want == "" {
				test.want = test.in
			}
			if got := string(show.cut([]byte(test.in), false, all)); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	batch := `[{"id":1,"result":{"tools":[{"name":"x"}]}}, {"id":2,"result":{"tools":[{"name":"x"}]}}]`
	got := show.cut([]byte(batch), true, func(key jsonrpc.ID) bool { return key.Key == "n2e0" })
	if want := `[{"id":1,"result":{"tools":[{"name":"x"}]}}, {"id":2,"result":{"tools":[]}}]`; string(got) != want {
		t.Errorf("batch: %s", got)
	}
}

// FuzzCut holds that what is left is JSON, has no hidden tool, and that a message
// without one is not touched.
func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"x"}, {"name":"a"} ,{"name":"y"}]}}`))
	f.Add([]byte(`{"result":{"tools":[1,{"name":"a"},[]]},"Result":{"toolſ":[{"nAme":"x"}]}}`))
	show := newToolFilter([]string{"a"})
	f.Fuzz(func(t *testing.T, in []byte) {
		if !json.Valid(in) {
			return
		}
		in = slices.Clip(in)
		out := show.cut(in, false, func(jsonrpc.ID) bool { return true })
		if !json.Valid(out) {
			t.Fatalf("%s became %s", in, out)
		}
		var left struct {
			Result struct {
				Tools []struct{ Name *string }
			}
		}
		if json.Unmarshal(out, &left) != nil {
			return
		}
		for _, tool := range left.Result.Tools {
			if tool.Name != nil && *tool.Name != "a" {
				t.Errorf("%s became %s", in, out)
			}
		}
		if again := show.cut(out, false, func(jsonrpc.ID) bool { return true }); string(again) != string(out) {
			t.Errorf("%s became %s and then %s", in, out, again)
		}
	})
}

const toolsResult = `{"tools":[{"name":"open","n":1.0}, {"name":"hidden"}],"nextCursor":"more"}`

// TestToolsThatTheAgentDoesNotSee holds the same for every transport.
func TestToolsThatTheAgentDoesNotSee(t *testing.T) {
	t.Parallel()
	overHTTP := func(stream bool) Server {
		return Server{Server: transport.Server{Upstream: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			raw := readAll(r.Body)
			if strings.Contains(string(raw), `"tools/call"`) && strings.Contains(string(raw), `"hidden"`) {
				t.Error("the server saw a hidden call")
			}
			env, err := parse(raw)
			if err != nil || len(env.of(request)) == 0 {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			result := `{"content":[]}`
			switch env.messages[0].method {
			case "initialize":
				w.Header().Set("Mcp-Session-Id", "s1")
				result = `{"protocolVersion":"2025-11-25"}`
			case "tools/list":
				result = toolsResult
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
	for name, server := range map[string]Server{
		"stdio": {Server: transport.Server{Launch: launching(t, "scripted")}}, "JSON": overHTTP(false), "stream": overHTTP(true),
	} {
		t.Run(name, func(t *testing.T) {
			server.Name, server.Tools = "s", []string{"open"}
			b := newBench(t, quick(), server)
			session := b.open()
			list := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":` + toolsResult + `}`
			if r := b.post(session, list); !strings.Contains(r.body, `"result":{"tools":[{"name":"open","n":1.0}],"nextCursor":"more"}}`) {
				t.Errorf("the agent got %s", r.body)
			}
			for _, call := range []string{
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hidden"}}`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hidden","name":"open"}}`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"open","Name":"hidden"}}`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name\u0000":"hidden","name":"open"}}`,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call\u0000","params":{"name":"hidden"}}`,
				"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/c\xffall\",\"params\":{\"name\":\"hidden\"}}",
				"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"na\xffme\":\"hidden\",\"name\":\"open\"}}",
			} {
				if r := b.post(session, call); r.status != 200 || !strings.Contains(r.body, `"id":2,"error":{"code":-32602,"message":"Unknown tool: `) {
					t.Errorf("the agent got %d %s", r.status, r.body)
				}
			}
			twice := `{"jsonrpc":"2.0","id":2,"method":"x","method":"tools/call","params":{"name":"hidden"}}`
			if r := b.post(session, twice); r.status != 400 {
				t.Errorf("a method twice: %d %s", r.status, r.body)
			}
			broken := "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"x\",\"meth\xffod\":\"tools/call\",\"params\":{\"name\":\"hidden\"}}"
			if r := b.post(session, broken); r.status != 400 {
				t.Errorf("a broken key: %d %s", r.status, r.body)
			}
			b.post(session, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"open"}}`)

			result, err := capture.Calls(b.rec.sequence())
			if err != nil {
				t.Fatal(err)
			}
			var outcomes []evidence.Outcome
			for _, call := range result.Calls {
				outcomes = append(outcomes, call.Outcome)
			}
			if len(outcomes) < 4 || outcomes[0] != evidence.OutcomeProtocolError || result.Calls[0].Tool != "hidden" {
				t.Errorf("calls: %+v", result.Calls)
			}
			if tools := result.Catalog["s"]; len(tools) != 2 || tools[0].Hidden || !tools[1].Hidden {
				t.Errorf("catalogue: %+v", tools)
			}
			sides := map[evidence.Side]int{}
			for _, f := range b.rec.all() {
				sides[f.Side]++
			}
			if sides[evidence.SideServer] != 1 || sides[evidence.SideAgent] != 15 {
				t.Errorf("sides: %v", sides)
			}
		})
	}
}

func TestHiddenCallsInABatch(t *testing.T) {
	t.Parallel()
	b := newBench(t, Limits{}, Server{Server: transport.Server{Name: "s", Upstream: upstreamOf(t, func(http.ResponseWriter, *http.Request) {
		t.Error("the server was asked")
	})}, Tools: []string{}})
	r := b.do("POST", "s", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}]`)
	var answers []json.RawMessage
	if err := json.Unmarshal([]byte(r.body), &answers); err != nil || len(answers) != 2 {
		t.Errorf("got %s", r.body)
	}
}
