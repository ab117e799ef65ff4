package script_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/strictyaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a place to run scripts at: a workspace and an mcp.json with the server
// "stock" (both protocol eras) and the server "old" (initialize only).
type desk struct {
	workspace string
	config    string
	early     []string // servers that do not answer server/discover
	answers   *input.Answers
	stock     *recorded
	old       *recorded
	broken    *httptest.Server
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{workspace: t.TempDir(), stock: newRecorded(t, false), old: newRecorded(t, true)}
	d.broken = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of order", http.StatusInternalServerError)
	}))
	t.Cleanup(d.broken.Close)
	d.config = filepath.Join(t.TempDir(), "mcp.json")
	writeConfig(t, d.config, map[string]string{"stock": d.stock.URL, "old": d.old.URL, "broken": d.broken.URL})
	return d
}

func writeConfig(t *testing.T, path string, urls map[string]string) {
	t.Helper()
	servers := map[string]any{}
	for name, url := range urls {
		servers[name] = map[string]string{"type": "http", "url": url + "/mcp"}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// recorded is an MCP server that keeps the bodies it was sent.
type recorded struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string // guarded by mu
}

func newRecorded(t *testing.T, legacy bool) *recorded {
	t.Helper()
	streamable := server.NewStreamableHTTPServer(stockServer())
	r := &recorded{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Lock()
		r.bodies = append(r.bodies, string(body))
		r.mu.Unlock()
		if legacy && strings.Contains(string(body), `"server/discover"`) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}`)
			return
		}
		streamable.ServeHTTP(w, req)
	}))
	t.Cleanup(r.Close)
	return r
}

// sent returns the bodies that contain part.
func (r *recorded) sent(part string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []string
	for _, body := range r.bodies {
		if strings.Contains(body, part) {
			found = append(found, body)
		}
	}
	return found
}

func stockServer() *server.MCPServer {
	s := server.NewMCPServer("stock", "1", server.WithElicitation(), server.WithRoots())
	s.EnableSampling()
	s.AddTool(mcp.NewTool("ask"), askingTool)
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("gives back its arguments")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(fmt.Sprintf("%s", r.GetRawArguments())), nil
	})
	s.AddTool(mcp.NewTool("list"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		items := json.RawMessage(`{"items":[{"id":9007199254740993,"price":1.0},{"id":7,"price":2.50}]}`)
		return mcp.NewToolResultStructured(items, string(items)), nil
	})
	s.AddTool(mcp.NewTool("refuse"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultError("no such item"), nil
	})
	s.AddTool(mcp.NewTool("hang"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	return s
}

// outcome is what a run leaves.
type outcome struct {
	err    error
	output string
	events []evidence.TranscriptEvent
}

// asJSON returns a value that is written as YAML.
func asJSON(t testing.TB, text string) (raw json.RawMessage) {
	t.Helper()
	doc, err := strictyaml.Parse("script", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	doc.Decode(&raw)
	if err := doc.Err(); err != nil {
		t.Fatal(err)
	}
	return raw
}

func parseYAML(t testing.TB, text string) (script.Script, error) {
	t.Helper()
	return script.Parse(asJSON(t, text))
}

func (d *desk) run(ctx context.Context, t *testing.T, text string) outcome {
	t.Helper()
	raw := asJSON(t, text)
	t.Setenv("COLOUR", "red")
	var stdout, transcript bytes.Buffer
	var o outcome
	o.err = script.Run(ctx, input.Input{
		Script: raw, MCPConfig: d.config, Early: d.early, Answers: d.answers, Workspace: d.workspace,
		Prompt: "count the bolts", Context: json.RawMessage(`{"shelf":"A","serial":9007199254740993}`),
	}, &stdout, &transcript)
	o.output = stdout.String()
	for lines := json.NewDecoder(&transcript); lines.More(); {
		var event evidence.TranscriptEvent
		if err := lines.Decode(&event); err != nil {
			t.Fatal(err)
		}
		o.events = append(o.events, event)
	}
	return o
}

// mustRun is run for a script that must succeed.
func (d *desk) mustRun(t *testing.T, text string) outcome {
	t.Helper()
	o := d.run(t.Context(), t, text)
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o
}
