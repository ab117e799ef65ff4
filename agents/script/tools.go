package script

import (
	"context"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
)

// toolsStep lists a server's tools.
type toolsStep struct {
	server  text
	timeout time.Duration
}

func (p *parser) tools(n node) action {
	f := p.fields(n, "server", "timeout")
	return toolsStep{server: p.filledText(f.need("server")), timeout: p.timeout(f)}
}

func (s toolsStep) run(ctx context.Context, r *runner) (any, error) {
	server, err := s.server.string(r.variables)
	if err != nil {
		return nil, err
	}
	url, err := r.sessions.url(server)
	if err != nil {
		return nil, err
	}
	return r.builtin("list_tools", map[string]any{"server": server}, func() (any, error) {
		tools, err := r.sessions.tools(ctx, server, url, s.timeout)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return tools, err
	})
}

func (s *sessions) tools(ctx context.Context, server, url string, timeout time.Duration) (any, error) {
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	result, err := s.listTools(ctx, server, url)
	if err != nil {
		a := failed(ctx, err)
		return nil, fmt.Errorf("%w: expected the tools of %s, got %s: %s", ErrUnexpected, server, a.outcome, excerpt(a.message))
	}
	tools := make([]any, len(result.Tools))
	for i, tool := range result.Tools {
		tools[i] = map[string]any{"name": tool.Name, "description": tool.Description}
	}
	return tools, nil
}

func (s *sessions) listTools(ctx context.Context, server, url string) (*mcp.ListToolsResult, error) {
	have, err := s.get(ctx, server, url)
	if err != nil {
		return nil, err
	}
	return have.client.ListTools(ctx, mcp.ListToolsRequest{})
}
