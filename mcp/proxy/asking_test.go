package proxy_test

import (
	"context"
	"fmt"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
)

// askingServer is a real server whose tools ask the client, and answer with what
// the client said.
func askingServer() {
	s := mcpserver.NewMCPServer("inventory", "1", mcpserver.WithToolCapabilities(false), mcpserver.WithElicitation())
	s.EnableSampling()
	s.AddTool(mcp.NewTool("sample", mcp.WithString("text")), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		//lint:ignore SA1019 sessions up to 2025-11-25 have it, and servers use it
		result, err := s.RequestSampling(ctx, mcp.CreateMessageRequest{CreateMessageParams: mcp.CreateMessageParams{
			Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(r.GetString("text", ""))}},
			MaxTokens: 5,
		}})
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		return mcp.NewToolResultText(result.Model), nil
	})
	s.AddTool(mcp.NewTool("elicit", mcp.WithString("text")), func(ctx context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		result, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: mcp.ElicitationParams{
			Message:         r.GetString("text", ""),
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
		}})
		if err != nil {
			return mcp.NewToolResultError(err.Error()), nil
		}
		content, _ := result.Content.(map[string]any)
		return mcp.NewToolResultText(fmt.Sprint(content["name"])), nil
	})
	if err := mcpserver.NewStdioServer(s).Listen(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
