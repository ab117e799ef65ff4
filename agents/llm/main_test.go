package llm_test

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
	"github.com/waza-isolate/waza/agents/llm"
	"github.com/waza-isolate/waza/evidence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a model that answers in turn, and keeps what it was asked.
type scripted struct {
	*httptest.Server
	answers []http.HandlerFunc

	mu     sync.Mutex
	asked  []asked  // guarded by mu
	bodies []string // guarded by mu
}

// asked is a request as the model sees it.
type asked struct {
	Model    string `json:"model"`
	Messages []struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID string `json:"id"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
	Temperature         *float64 `json:"temperature"`
	MaxTokens           int      `json:"max_tokens"`
	MaxCompletionTokens int      `json:"max_completion_tokens"`
}

// results are the contents of the messages of a role, in order.
func (a asked) results(role string) (all []string) {
	for _, m := range a.Messages {
		if m.Role == role {
			var text string
			if json.Unmarshal(m.Content, &text) != nil {
				text = string(m.Content)
			}
			all = append(all, text)
		}
	}
	return all
}

func (a asked) tool(name string) (description, parameters string, ok bool) {
	for _, t := range a.Tools {
		if t.Function.Name == name {
			return t.Function.Description, string(t.Function.Parameters), true
		}
	}
	return "", "", false
}

// newModel answers with each of answers once, and then with the last again.
func newModel(t *testing.T, answers ...http.HandlerFunc) *scripted {
	t.Helper()
	s := &scripted{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var a asked
		if err := json.Unmarshal(body, &a); err != nil || r.URL.Path != "/v1/chat/completions" {
			http.Error(w, "no such thing", http.StatusNotFound)
			return
		}
		s.mu.Lock()
		turn := len(s.asked)
		s.asked = append(s.asked, a)
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
		s.answers[min(turn, len(s.answers)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) requests() []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]asked(nil), s.asked...)
}

func (s *scripted) last() asked {
	all := s.requests()
	return all[len(all)-1]
}

func raw(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

func says(text string) http.HandlerFunc {
	quoted, _ := json.Marshal(text)
	return raw(`{"choices":[{"finish_reason":"stop","message":{"role":"assistant","content":` + string(quoted) + `}}]}`)
}

// use is a tool that the model asks for: id, name and arguments.
type use [3]string

func asks(uses ...use) http.HandlerFunc {
	var calls []string
	for _, u := range uses {
		arguments, _ := json.Marshal(u[2])
		calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, u[0], u[1], arguments))
	}
	return raw(`{"choices":[{"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[` + strings.Join(calls, ",") + `]}}]}`)
}

func fails(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// desk is a place for an agent to work at.
type desk struct {
	input input.Input
	calls *callLog
}

// callLog is what the server stock was called with.
type callLog struct {
	mu   sync.Mutex
	list []string // guarded by mu
}

func (c *callLog) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, text)
}

func (c *callLog) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.list...)
}

func newDesk(t *testing.T, model *scripted) *desk {
	t.Helper()
	d := &desk{calls: &callLog{}}
	stock := httptest.NewServer(server.NewStreamableHTTPServer(stockServer(d.calls)))
	t.Cleanup(stock.Close)
	d.input = input.Input{
		LLM:      &input.LLM{},
		ModelURL: model.URL + "/v1", Model: "m-1", Prompt: "count the bolts",
		Workspace: t.TempDir(), MCPConfig: filepath.Join(t.TempDir(), "mcp.json"),
	}
	d.servers(t, map[string]string{"stock": stock.URL + "/mcp"})
	return d
}

func (d *desk) servers(t *testing.T, urls map[string]string) {
	t.Helper()
	servers := map[string]any{}
	for name, url := range urls {
		servers[name] = map[string]string{"type": "http", "url": url}
	}
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.input.MCPConfig, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func stockServer(calls *callLog) *server.MCPServer {
	s := server.NewMCPServer("stock", "1", server.WithElicitation())
	s.AddTool(mcp.NewTool("ask"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer := server.ElicitationResponse(r.Params.InputResponses, "e"); answer != nil {
			return mcp.NewToolResultText(fmt.Sprintf("%s %v", answer.Action, answer.Content)), nil
		}
		return server.NewInputRequestBuilder("s").Elicit("e", mcp.ElicitationParams{Message: "How many?", RequestedSchema: map[string]any{"type": "object"}}).ToolResult(), nil
	})
	s.AddTool(mcp.NewTool("echo", mcp.WithDescription("gives back its arguments"), mcp.WithNumber("id")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		calls.add(fmt.Sprintf("echo %s for %s", r.GetRawArguments(), r.Params.Meta.AdditionalFields[input.MetaToolUse]))
		return mcp.NewToolResultText(fmt.Sprintf("%s", r.GetRawArguments())), nil
	})
	s.AddTool(mcp.NewTool("refuse"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		calls.add("refuse")
		return mcp.NewToolResultError("no such item"), nil
	})
	s.AddTool(mcp.NewTool("count"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: json.RawMessage(`{"bolts":9007199254740993}`), Content: []mcp.Content{mcp.NewTextContent("counted")}}, nil
	})
	s.AddTool(mcp.NewTool("twice"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultStructured(json.RawMessage(`{"bolts":1}`), "{\"bolts\": 1}"), nil
	})
	s.AddTool(mcp.NewTool("look"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			mcp.NewImageContent(dot, "image/png"), mcp.NewImageContent("<not base64>", "image/png"), mcp.NewAudioContent(dot, "audio/wav"),
			mcp.NewEmbeddedResource(mcp.TextResourceContents{URI: "stock://shelf", Text: "shelf A"}),
			mcp.NewResourceLink("stock://b", "shelf-b", "", ""),
		}}, nil
	})
	s.AddTool(mcp.NewTool("flood"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(strings.Repeat("flood ", 1<<20)), nil
	})
	s.AddTool(mcp.NewTool("a.tool/with spaces"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("odd"), nil
	})
	for _, end := range []string{"one", "two"} {
		s.AddTool(mcp.NewTool(strings.Repeat("very_long_", 8)+end), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("long " + end), nil
		})
	}
	return s
}

// outcome is what a run leaves.
type outcome struct {
	err         error
	output, log string
	events      []evidence.TranscriptEvent
}

func (d *desk) run(t *testing.T) outcome {
	t.Helper()
	var stdout, transcript, log bytes.Buffer
	o := outcome{err: llm.Run(t.Context(), d.input, &stdout, &log, &transcript)}
	o.output, o.log = stdout.String(), log.String()
	for lines := json.NewDecoder(&transcript); lines.More(); {
		var event evidence.TranscriptEvent
		if err := lines.Decode(&event); err != nil {
			t.Fatal(err)
		}
		o.events = append(o.events, event)
	}
	return o
}

// mustRun is run for what must succeed.
func (d *desk) mustRun(t *testing.T) outcome {
	t.Helper()
	o := d.run(t)
	if o.err != nil {
		t.Fatal(o.err)
	}
	return o
}
