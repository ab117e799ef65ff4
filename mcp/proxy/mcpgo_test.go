package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mark3labs/mcp-go/client"
	mcptransport "github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

// host answers what servers ask a client for.
type host struct{ asked atomic.Int32 }

func (h *host) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	h.asked.Add(1)
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"name": "Ada"},
	}}, nil
}

func (h *host) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	h.asked.Add(1)
	return &mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent("hi")},
		Model:           "tiny",
	}, nil
}

func connect(t *testing.T, b *bench, name, version string, options ...mcptransport.StreamableHTTPCOption) *client.Client {
	t.Helper()
	way, err := mcptransport.NewStreamableHTTP("http://"+name+"/mcp", append(options, mcptransport.WithHTTPBasicClient(b.client))...)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{}
	c := client.NewClient(way, client.WithElicitationHandler(h), client.WithSamplingHandler(h), client.WithProtocolVersion(version))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var request mcp.InitializeRequest
	request.Params.ClientInfo = mcp.Implementation{Name: "test", Version: "1"}
	result, err := c.Initialize(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if result.ServerInfo.Name != "inventory" || result.ProtocolVersion != version {
		t.Fatalf("initialize: %+v", result)
	}
	return c
}

func callTool(t *testing.T, c *client.Client, tool string, arguments map[string]any) string {
	t.Helper()
	var request mcp.CallToolRequest
	request.Params.Name = tool
	request.Params.Arguments = arguments
	if tool == "count" {
		request.Params.Meta = &mcp.Meta{ProgressToken: "token"}
	}
	result, err := c.CallTool(t.Context(), request)
	if err != nil {
		t.Errorf("%s: %v", tool, err)
		return ""
	}
	return result.Content[0].(mcp.TextContent).Text
}

func TestRealClientAndServer(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			b := newBench(t, quick(), proxy.Server{Server: transport.Server{Name: "inventory", Launch: launching(t, "mcpgo")}})
			c := connect(t, b, "inventory", version)
			var progress atomic.Int32
			c.OnNotification(func(n mcp.JSONRPCNotification) {
				if n.Method == "notifications/progress" {
					progress.Add(1)
				}
			})
			tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
			if err != nil || len(tools.Tools) != 5 {
				t.Fatalf("tools: %v %v", tools, err)
			}
			if got := callTool(t, c, "echo", map[string]any{"text": "x\u00a0y"}); got != "x\u00a0y" {
				t.Errorf("echo: %q", got)
			}
			counted := make(chan string, 1)
			go func() { counted <- callTool(t, c, "count", map[string]any{"to": 3}) }()
			b.rec.wait(t, "progress", hasFrame(evidence.ToClient, "", `"progress":3`))
			callTool(t, c, "finish", nil)
			if got := <-counted; got != "3" || progress.Load() != 3 {
				t.Errorf("count: %q and %d of progress", got, progress.Load())
			}
			if got := callTool(t, c, "greet", nil); got != "hello Ada" {
				t.Errorf("greet: %q", got)
			}
			if version == "2026-07-28" {
				return // this era has no requests of the server's
			}
			if got := callTool(t, c, "sample", nil); got != "model tiny" {
				t.Errorf("sample: %q", got)
			}
		})
	}
}

func TestRealClientsSideBySide(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick(), proxy.Server{Server: transport.Server{Name: "inventory", Launch: launching(t, "mcpgo")}})
	var clients []*client.Client
	for _, version := range []string{"2025-11-25", "2025-11-25", "2026-07-28", "2026-07-28"} {
		clients = append(clients, connect(t, b, "inventory", version))
	}
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			for n := range 10 {
				want := fmt.Sprintf("%d-%d", i, n)
				if got := callTool(t, c, "echo", map[string]any{"text": want}); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
	wg.Wait()
	for _, f := range b.rec.all() {
		if f.Synthetic != "" || !strings.HasPrefix(f.Conn, "inventory/") {
			t.Errorf("frame: %s %s %s", f.Conn, f.Synthetic, f.Raw)
		}
	}
}
