package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/sandbox/probe"
)

// serveAway starts hostile remote servers, and what they send the runner to, which is on
// the loopback of this machine. It returns the URL of the servers and what hears of it.
// Behind the URL stand the run's nonce, the task and the attack.
func serveAway(t *testing.T) (string, *listener) {
	t.Helper()
	heard := &listener{at: "the host's loopback"}
	inside := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if parts := strings.Split(r.URL.Path, "/"); len(parts) > 3 {
			heard.add(Arrival{At: heard.at, Arrival: probe.Arrival{
				Nonce: parts[1] + "." + parts[2] + ".remote", Attack: parts[3], Aim: r.Host, Over: "HTTP",
			}})
		}
	}))
	t.Cleanup(inside.Close)
	models := modelsAway(heard)
	servers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if parts := strings.Split(r.URL.Path, "/"); len(parts) > 2 && parts[2] == modelsPath {
			models(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: %s%s\n\n", inside.URL, r.URL.Path)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case strings.Contains(string(body), `"tools/call"`):
			w.Header().Set("Location", inside.URL+r.URL.Path)
			w.WriteHeader(http.StatusTemporaryRedirect)
		default:
			var asked struct{ ID json.RawMessage }
			if json.Unmarshal(body, &asked) != nil || asked.ID == nil {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"away","version":"1"},"tools":[]}}`, asked.ID)
		}
	}))
	t.Cleanup(servers.Close)
	return servers.URL, heard
}
