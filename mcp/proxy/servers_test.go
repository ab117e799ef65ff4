package proxy_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// scripted is a stdio server whose methods are what a test wants it to do. It
// copies bytes and never encodes.
type scripted struct {
	mu  sync.Mutex
	out io.Writer // guarded by mu

	errs  io.Writer         // stderr
	held  []jsonrpc.Message // requests that wait for "release"
	asked map[string][]byte // our request's id to the raw id of the one it is for
}

func scriptedServer(in io.Reader, out, errs io.Writer) {
	s := &scripted{out: out, errs: errs, asked: map[string][]byte{}}
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			s.handle(bytes.TrimSuffix(line, []byte("\n")))
		}
		if err != nil {
			return
		}
	}
}

func (s *scripted) say(parts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, part := range parts {
		io.WriteString(s.out, part)
	}
	io.WriteString(s.out, "\n")
}

func (s *scripted) answer(id []byte, result string) {
	s.say(`{"jsonrpc":"2.0","id":`, string(id), `,"result":`, result, `}`)
}

func (s *scripted) handle(line []byte) {
	sent, batch, err := jsonrpc.Parse(line)
	if err != nil {
		fmt.Fprintf(s.errs, "scripted: %v: %q\n", err, line)
		return
	}
	if batch {
		s.batch(sent)
		return
	}
	m := sent[0]
	if m.Method == "" {
		s.answer(s.asked[m.ID.Key], string(line))
		return
	}
	params := "{}"
	for key, value := range jsontext.Members(line) {
		if key == "params" {
			params = string(value)
		}
	}
	s.do(m, line, params)
}

func (s *scripted) batch(sent []jsonrpc.Message) {
	var answers []string
	for _, m := range sent {
		if !m.IsRequest() {
			continue
		}
		answers = append(answers, `{"jsonrpc":"2.0","id":`+string(m.ID.Raw)+`,"result":{}}`)
	}
	if sent[0].Method == "split" {
		for _, a := range answers {
			s.say(a)
		}
		return
	}
	s.say("[", joined(answers), "]")
}

func joined(parts []string) string {
	var b bytes.Buffer
	for i, p := range parts {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p)
	}
	return b.String()
}

func (s *scripted) do(m jsonrpc.Message, line []byte, params string) {
	size := 0
	for key, value := range jsontext.Members([]byte(params)) {
		if key == "size" {
			size, _ = strconv.Atoi(string(value))
		}
	}
	do := m.Method
	if name(m) == "hold" || name(m) == "verbatim" {
		do = name(m)
	}
	switch do {
	case "initialize":
		s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		s.answer(m.ID.Raw, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"scripted","version":"9"}}`)
	case "echo", methodListTools:
		s.answer(m.ID.Raw, params)
	case "emit":
		s.say(params)
		s.answer(m.ID.Raw, `{}`)
	case "whole":
		s.answer(m.ID.Raw, string(line))
	case "noise":
		s.say("listening on stdio")
		s.say(`{"level":"info","msg":"hello"}`)
		s.say("")
		s.answer(m.ID.Raw, `{}`)
	case "chatter":
		s.say(strings.Repeat("not a message\n", size))
		s.answer(m.ID.Raw, `{}`)
	case "verbatim":
		s.say(strings.ReplaceAll(jsontext.Text(jsontext.Member([]byte(params), "line")), "@ID@", string(m.ID.Raw)))
	case "never":
	case "exit":
		os.Exit(3)
	case "closeout":
		os.Stdout.Close()
	case "wrongid":
		s.say(`{"jsonrpc":"2.0","id":"nobody","result":{}}`)
	case "twice":
		s.answer(m.ID.Raw, `{"n":1}`)
		s.answer(m.ID.Raw, `{"n":2}`)
	case "flood":
		chunk := bytes.Repeat([]byte("e"), 1<<16)
		for range size / len(chunk) {
			s.errs.Write(chunk)
		}
		s.answer(m.ID.Raw, `{}`)
	case "big":
		s.answer(m.ID.Raw, `"`+string(bytes.Repeat([]byte("x"), size))+`"`)
	case "progress":
		s.say(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`, string(jsontext.Member(jsontext.Member(m.Params, "_meta"), "progressToken")), `,"progress":1}}`)
		s.answer(m.ID.Raw, `{}`)
	case "ask":
		s.asked["n77e0"] = m.ID.Raw
		s.say(`{"jsonrpc":"2.0","id":77,"method":"sampling/createMessage","params":{}}`)
	case "announce":
		s.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	case "hold", "subscriptions/listen":
		s.held = append(s.held, m)
		s.say(`{"jsonrpc":"2.0","method":"notifications/held","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`, string(m.ID.Raw), `}}}`)
	case "server/discover":
		if os.Getenv(serverEnv) != "ignoring" {
			s.refuse(m)
		}
	case "late":
		s.held = append(s.held, m)
	case "release":
		for _, h := range s.held {
			s.answer(h.ID.Raw, `{"released":true}`)
		}
		s.held = nil
	case "notifications/cancelled":
		fmt.Fprintf(s.errs, "cancelled %s\n", jsontext.Member(m.Params, "requestId"))
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		s.answer(m.ID.Raw, `{}`)
		hang()
	default:
		switch {
		case !m.IsRequest() || name(m) == "slow" || name(m) == "gone":
		case m.Method == methodCallTool && jsontext.Member([]byte(params), "content") != nil:
			s.answer(m.ID.Raw, params)
		default:
			s.refuse(m)
		}
	}
}

func (s *scripted) refuse(m jsonrpc.Message) {
	s.say(`{"jsonrpc":"2.0","id":`, string(m.ID.Raw), `,"error":{"code":-32601,"message":"no such method"}}`)
}

// statelessServer knows server/discover and refuses initialize.
func statelessServer(in io.Reader, out io.Writer) {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		sent, err := parse(line)
		if err != nil {
			continue
		}
		m := sent[0]
		if m.Method == "server/discover" {
			fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}}}`+"\n", m.ID.Raw)
			continue
		}
		fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"this server speaks 2026-07-28"}}`+"\n", m.ID.Raw)
	}
}

// mcpgoServer is a real server of both eras.
func mcpgoServer() {
	s := mcpserver.NewMCPServer("inventory", "1.2.3", mcpserver.WithToolCapabilities(true), mcpserver.WithElicitation(), mcpserver.WithLogging())
	s.EnableSampling()
	s.AddTool(mcp.NewTool("echo", mcp.WithString("text")), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText(r.GetString("text", "")), nil
	})
	finish := make(chan struct{}) // mcp-go writes results and progress side by side
	s.AddTool(mcp.NewTool("finish"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		finish <- struct{}{}
		return mcp.NewToolResultText("done"), nil
	})
	s.AddTool(mcp.NewTool("count", mcp.WithNumber("to")), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		to := r.GetInt("to", 0)
		for i := range to {
			if meta := r.Params.Meta; meta != nil && meta.ProgressToken != nil {
				_ = mcpserver.ServerFromContext(ctx).SendNotificationToClient(ctx, "notifications/progress",
					map[string]any{"progressToken": meta.ProgressToken, "progress": i + 1, "total": to})
			}
		}
		<-finish
		return mcp.NewToolResultText(fmt.Sprint(to)), nil
	})
	s.AddTool(mcp.NewTool("sample"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		//lint:ignore SA1019 sessions up to 2025-11-25 have it, and servers use it
		result, err := mcpserver.ServerFromContext(ctx).RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: mcp.CreateMessageParams{
			Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent("say")}},
			MaxTokens: 5,
		}})
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultText("model " + result.Model), nil
	})
	s.AddTool(mcp.NewTool("greet"), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer := mcpserver.ElicitationResponse(r.Params.InputResponses, "who"); answer != nil {
			content, _ := answer.Content.(map[string]any)
			return mcp.NewToolResultText(fmt.Sprintf("hello %v", content["name"])), nil
		}
		return mcpserver.NewInputRequestBuilder("awaiting").Elicit("who", mcp.ElicitationParams{
			Mode: mcp.ElicitationModeForm, Message: "Who?",
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
		}).ToolResult(), nil
	})
	if err := mcpserver.NewStdioServer(s).Listen(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
