package proxy_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	mcptransport "github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
)

// person is an agent's side of sampling and elicitation that answers with its own
// name, and knows when it is asked what another was meant to be.
type person struct {
	name   string
	asked  atomic.Int32
	strays atomic.Int32
}

func (p *person) hears(text string) {
	p.asked.Add(1)
	if !strings.HasPrefix(text, p.name+"-") {
		p.strays.Add(1)
	}
}

func (p *person) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	p.hears(r.Params.Message)
	return &mcp.ElicitationResult{ElicitationResponse: mcp.ElicitationResponse{
		Action: mcp.ElicitationResponseActionAccept, Content: map[string]any{"name": p.name + " to " + r.Params.Message},
	}}, nil
}

func (p *person) CreateMessage(_ context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	text := r.Messages[0].Content.(mcp.TextContent).Text
	p.hears(text)
	return &mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent("said")},
		Model:           p.name + " to " + text,
	}, nil
}

// TestTwoAgentsWithRequestsOfTheServer has two agents use one stdio server at
// once, which asks each of them for samples and for answers all the time.
func TestTwoAgentsWithRequestsOfTheServer(t *testing.T) {
	t.Parallel()
	b := newBench(t, quick(), proxy.Server{Server: transport.Server{Name: "inventory", Launch: launching(t, "asking")}})
	const rounds = 25
	people := []*person{{name: "ada"}, {name: "bob"}}
	var wg sync.WaitGroup
	for _, p := range people {
		c := p.connect(t, b)
		b.listens(t, c.GetSessionId())
		for _, tool := range []string{"sample", "elicit"} {
			wg.Go(func() {
				for n := range rounds {
					text := fmt.Sprintf("%s-%s-%d", p.name, tool, n)
					if got, want := callTool(t, c, tool, map[string]any{"text": text}), p.name+" to "+text; got != want {
						t.Errorf("%s got %q, want %q", p.name, got, want)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, p := range people {
		if asked, strays := p.asked.Load(), p.strays.Load(); asked != 2*rounds || strays != 0 {
			t.Errorf("%s was asked %d times, %d of them for another", p.name, asked, strays)
		}
	}
	checkConnsAreApart(t, b.rec.all(), people)
}

func (p *person) connect(t *testing.T, b *bench) *client.Client {
	t.Helper()
	//lint:ignore SA1019 sessions up to 2025-11-25 have this stream, and clients use it
	listening := mcptransport.WithContinuousListening()
	way, err := mcptransport.NewStreamableHTTP("http://inventory/mcp", mcptransport.WithHTTPBasicClient(b.client), listening)
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewClient(way, client.WithElicitationHandler(p), client.WithSamplingHandler(p), client.WithProtocolVersion("2025-11-25"))
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	var request mcp.InitializeRequest
	request.Params.ClientInfo = mcp.Implementation{Name: p.name, Version: "1"}
	if _, err := c.Initialize(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	return c
}

// listens waits until a session's own stream is open.
func (b *bench) listens(t *testing.T, session string) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		if b.proxy.Listens("inventory", session) {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-deadline:
			t.Fatal("the client does not listen")
		}
	}
}

// checkConnsAreApart checks that the messages of one agent are recorded as one conversation
// without those of another.
func checkConnsAreApart(t *testing.T, frames []evidence.Frame, people []*person) {
	t.Helper()
	of := map[string]string{}
	for _, f := range frames {
		for _, p := range people {
			if !strings.Contains(string(f.Raw), p.name+"-") {
				continue
			}
			if had := of[f.Conn]; had != "" && had != p.name {
				t.Fatalf("%s is %s's and has %s", f.Conn, had, f.Raw)
			}
			of[f.Conn] = p.name
		}
		if f.Synthetic != "" {
			t.Errorf("the proxy said %s", f.Raw)
		}
	}
	if len(of) != len(people) {
		t.Errorf("conversations: %v", of)
	}
}
