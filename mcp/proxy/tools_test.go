package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

const toolsResult = `{"tools":[{"name":"open","n":1.0}, {"name":"hidden"}],"nextCursor":"more"}`

// TestToolsThatTheAgentDoesNotSee holds the same for every transport.
func TestToolsThatTheAgentDoesNotSee(t *testing.T) {
	t.Parallel()
	overHTTP := func(stream bool) proxy.Server {
		return proxy.Server{Server: transport.Server{Upstream: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			raw := readAll(r.Body)
			if strings.Contains(string(raw), `"tools/call"`) && strings.Contains(string(raw), `"hidden"`) {
				t.Error("the server saw a hidden call")
			}
			sent, err := parse(raw)
			if err != nil || !asks(sent) {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			result := `{"content":[]}`
			switch sent[0].Method {
			case "initialize":
				w.Header().Set("Mcp-Session-Id", "s1")
				result = `{"protocolVersion":"2025-11-25"}`
			case "tools/list":
				result = toolsResult
			}
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, sent[0].ID.Raw, result)
			if stream {
				written(w, "id: 5\ndata: "+answer+"\n\n")
				return
			}
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(answer))
		})}}
	}
	for name, server := range map[string]proxy.Server{
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
			if tools := result.Catalogs[0].Tools; len(tools) != 2 || tools[0].Hidden || !tools[1].Hidden {
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
	b := newBench(t, limits{}, proxy.Server{Server: transport.Server{Name: "s", Upstream: upstreamOf(t, func(http.ResponseWriter, *http.Request) {
		t.Error("the server was asked")
	})}, Tools: []string{}})
	r := b.do("POST", "s", `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"x"}}]`)
	var answers []json.RawMessage
	if err := json.Unmarshal([]byte(r.body), &answers); err != nil || len(answers) != 2 {
		t.Errorf("got %s", r.body)
	}
}
