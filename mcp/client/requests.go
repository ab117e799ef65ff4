package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
)

// answerer gets answers to the requests of an agent's servers from the runner.
type answerer struct {
	input.Answers
	http *http.Client

	mu    sync.Mutex
	unmet string // how the first wrong request violates its schema; guarded by mu
}

// answers reports whether any requests of a server have an answer. A nil answerer has none.
func (a *answerer) answers(server string) bool { return a != nil && len(a.Kinds[server]) > 0 }

// capabilities returns the client's capabilities for a server: the kinds of requests that have an
// answer. An answer to elicitations covers both modes.
func (a *answerer) capabilities(server string) params {
	declared := params{}
	if !a.answers(server) {
		return declared
	}
	for _, kind := range a.Kinds[server] {
		declared[kind] = params{}
		if kind == input.KindElicitation {
			declared[kind] = params{"form": params{}, "url": params{}}
		}
	}
	return declared
}

// reply returns the answer to a request from a server, or false if requests of its kind have none.
func (a *answerer) reply(ctx context.Context, server string, m jsonrpc.Message) (input.Reply, bool) {
	kind := input.KindOf(m.Method)
	if !a.answers(server) || !slices.Contains(a.Kinds[server], kind) {
		return input.Reply{}, false
	}
	r, err := a.ask(ctx, input.Question{Server: server, Kind: kind, Params: m.Params})
	if err != nil {
		return input.Reply{Code: jsonrpc.InternalError, Message: "the answer is not known: " + err.Error()}, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unmet == "" {
		a.unmet = r.Unmet
	}
	return r, true
}

// ask gets the answer to a question from the runner.
func (a *answerer) ask(ctx context.Context, q input.Question) (r input.Reply, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return r, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL, bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	response, err := a.http.Do(post)
	if err != nil {
		return r, transport.WithoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	said, err := transport.ReadBody(response.Body, response.ContentLength, maxMessage, bounded.NewBudget(4*maxMessage))
	switch {
	case err != nil:
		return r, err
	case response.StatusCode != http.StatusOK:
		return r, fmt.Errorf("the runner answered with HTTP %d", response.StatusCode)
	}
	return r, jsontext.Unmarshal(said.Bytes, &r)
}

// Unmet returns how the first invalid request of a server violates its schema, or nil.
func (s *Servers) Unmet() error {
	if s.answerer == nil {
		return nil
	}
	s.answerer.mu.Lock()
	defer s.answerer.mu.Unlock()
	if s.answerer.unmet == "" {
		return nil
	}
	return errors.New(s.answerer.unmet)
}
