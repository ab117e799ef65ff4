package script

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waza-isolate/waza/agents/internal/session"
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
	if err := r.known(server); err != nil {
		return nil, err
	}
	return r.builtin("list_tools", map[string]any{"server": server}, func() (any, error) {
		tools, err := r.tools(ctx, server, s.timeout)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return tools, err
	})
}

func (r *runner) tools(ctx context.Context, server string, timeout time.Duration) (any, error) {
	listed, err := r.servers.Tools(ctx, server, timeout)
	if err != nil {
		var failed *session.ListError
		errors.As(err, &failed)
		return nil, fmt.Errorf("%w: expected the tools of %s, got %s: %s", ErrUnexpected, server, failed.Outcome, excerpt(failed.Message))
	}
	tools := make([]any, len(listed))
	for i, tool := range listed {
		tools[i] = map[string]any{"name": tool.Name, "description": tool.Description}
	}
	return tools, nil
}
