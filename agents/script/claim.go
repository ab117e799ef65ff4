package script

import (
	"context"

	"github.com/waza-isolate/waza/evidence"
)

// claimStep puts a call into the transcript that was not made.
type claimStep struct {
	server    text // empty: a tool of no server
	tool      text
	arguments value
	result    value
}

func (p *parser) claim(n node) action {
	f := p.fields(n, "server", "tool", "arguments", "result")
	return claimStep{
		server:    p.text(f.get("server")),
		tool:      p.filledText(f.need("tool")),
		arguments: p.arguments(f),
		result:    p.value(f.get("result")),
	}
}

func (s claimStep) run(_ context.Context, r *runner) (any, error) {
	target, err := r.target(s.server, s.tool, s.arguments)
	if err != nil {
		return nil, err
	}
	result, err := s.result.eval(r.variables)
	if err != nil {
		return nil, err
	}
	raw, err := evidence.Marshal(result)
	if err != nil {
		return nil, err
	}
	r.transcript.Start(target.name(), target.arguments).Complete(true, raw)
	return nil, nil
}
