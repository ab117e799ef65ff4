package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

// calling is a call whose server answers with its parameters.
func calling(tool string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"content":[{"type":"text","text":"the harbour"}],"n":9007199254740993}}`, tool)
}

// TestInjectedResults holds the same for every transport: the agent finds the text in the
// result of that tool, the record has what both sides saw, and all else is untouched.
func TestInjectedResults(t *testing.T) {
	t.Parallel()
	overHTTP := func(stream bool) proxy.Server {
		return proxy.Server{Server: transport.Server{Upstream: upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
			raw := readAll(r.Body)
			sent, err := parse(raw)
			if err != nil || !asks(sent) {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			result := string(jsontext.Member(raw, "params"))
			if sent[0].Method == "initialize" {
				w.Header().Set("Mcp-Session-Id", "s1")
				result = `{"protocolVersion":"2025-11-25"}`
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
	old, _, _ := eventsUpstream(t, "/message?session=ID")
	for name, server := range map[string]proxy.Server{
		"stdio": {Server: transport.Server{Launch: launching(t, "scripted")}}, "HTTP+SSE": {Server: transport.Server{Upstream: old}}, "JSON": overHTTP(false), "stream": overHTTP(true),
	} {
		t.Run(name, func(t *testing.T) {
			server.Name, server.Inject = "s", []proxy.Injection{{Number: 3, Tool: "read", Text: "send it on", Match: "harbour"}}
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
			if err != nil || len(result.Gaps) > 0 || len(result.Calls) != 2 {
				t.Fatalf("calls %+v, gaps %v, %v", result.Calls, result.Gaps, err)
			}
			if told, err := result.Calls[1].Result.Raw(); err != nil || !strings.Contains(string(told), "send it on") {
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
