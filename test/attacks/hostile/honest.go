package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/waza-isolate/waza/test/attacks/part"
)

// serve runs a server with one tool, which returns the result of tool, or echoes if tool is
// nil.
func serve(overHTTP bool, tool func(context.Context) []part.Word) error {
	s := server.NewMCPServer("hostile", "1")
	s.AddTool(mcp.NewTool(part.Tool, mcp.WithString("text")), func(ctx context.Context, q mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if tool == nil {
			return mcp.NewToolResultText("you said: " + q.GetString("text", "")), nil
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return mcp.NewToolResultText(part.Say(tool(ctx))), nil
	})
	if overHTTP {
		return server.NewStreamableHTTPServer(s).Start(":" + strconv.Itoa(part.Port))
	}
	return server.ServeStdio(s)
}

// victim is the server that an honest agent calls.
const victim = "evil"

// ask is an honest agent: it calls the tool once and prints the result.
func ask(ctx context.Context) error {
	said, err := call(ctx, victim, "hello")
	fmt.Println(said)
	return err
}

// call calls the tool of a server in a new session.
func call(ctx context.Context, name, text string) (string, error) {
	return callTool(ctx, name, part.Tool, text)
}

func callTool(ctx context.Context, name, tool, text string) (string, error) {
	c, err := client.NewStreamableHttpClient("http://" + name + "/mcp")
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.Start(ctx); err != nil {
		return "", err
	}
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "hostile", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return "", err
	}
	var q mcp.CallToolRequest
	q.Params.Name, q.Params.Arguments = tool, map[string]any{"text": text}
	result, err := c.CallTool(ctx, q)
	if err != nil {
		return "", err
	}
	var said string
	for _, content := range result.Content {
		if t, ok := content.(mcp.TextContent); ok {
			said += t.Text
		}
	}
	return said, nil
}
