package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/waza-isolate/waza/internal/jsontext"

	"github.com/waza-isolate/waza/evidence"
)

// Bounds of what a server may list.
const (
	maxTools = 4096
	maxPages = 256
)

// Tool is a tool as its server lists it.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"` // as it came
}

// ListError is that a server's tools could not be had.
type ListError struct {
	Outcome evidence.Outcome
	Message string
}

func (e *ListError) Error() string { return e.Message }

// Tools lists a server's tools, which may take as long as timeout, but for those that
// cannot be called over HTTP. Its errors are a [*ListError] each.
func (s *Servers) Tools(ctx context.Context, server string, timeout time.Duration) ([]Tool, error) {
	ctx, cancel := withTimeout(ctx, timeout)
	defer cancel()
	tools, err := s.list(ctx, server)
	if err != nil {
		a := failed(ctx, err)
		return nil, &ListError{Outcome: a.Outcome, Message: a.Message}
	}
	return tools, nil
}

func (s *Servers) list(ctx context.Context, server string) ([]Tool, error) {
	have, err := s.get(ctx, server)
	if err != nil {
		return nil, err
	}
	var tools []Tool
	var request mcp.ListToolsRequest
	for seen := map[mcp.Cursor]bool{}; ; {
		page, err := have.client.ListToolsByPage(ctx, request)
		if err != nil {
			return nil, err
		}
		more, err := have.page(page)
		if err != nil {
			return nil, err
		}
		if tools = append(tools, more...); len(tools) > maxTools {
			return nil, fmt.Errorf("the server lists more than %d tools", maxTools)
		}
		seen[request.Params.Cursor] = true
		if page.NextCursor == "" {
			return tools, nil
		}
		if request.Params.Cursor = page.NextCursor; seen[page.NextCursor] || len(seen) == maxPages {
			return nil, errors.New("the server's list of tools does not end")
		}
	}
}

// page is the tools of the page that came last, as they came: the client's types lose
// the digits of numbers.
func (c conversation) page(usable *mcp.ListToolsResult) ([]Tool, error) {
	var raw struct {
		Tools []Tool `json:"tools"`
	}
	if err := jsontext.Unmarshal(c.wire.answer.Result, &raw); err != nil {
		return nil, err
	}
	can := map[string]bool{}
	for _, tool := range usable.Tools {
		can[tool.Name] = true
	}
	var tools []Tool
	for _, tool := range raw.Tools {
		if can[tool.Name] {
			tools = append(tools, tool)
		}
	}
	return tools, nil
}
