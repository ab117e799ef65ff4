package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/sandbox"
)

const (
	// maxLooked is how many bytes of a server's file are kept.
	maxLooked = 1 << 20
	// maxReply is how many bytes of a server's answer to a call of ours are kept.
	maxReply = 1 << 20
)

// asker is the phase in which graders ask servers.
type asker struct{ *stage }

// askAll does what graders ask of servers, in their order, after the agent has
// stopped and its sessions are over.
func (a *asker) askAll(ctx context.Context) error {
	talks := map[string]*serverSession{}
	defer func() {
		for _, talk := range talks {
			talk.close()
		}
		a.servers.closeKeepers()
	}()
	for _, ask := range a.asks(evidence.StepCall, evidence.StepFiles) {
		var answer any
		var unanswered error
		switch what := ask.What.(type) {
		case evidence.FileAsk:
			answer, unanswered = a.lookAt(ctx, what)
		case evidence.CallAsk:
			if talks[what.Server] == nil {
				talks[what.Server] = &serverSession{}
			}
			answer, unanswered = a.ask(ctx, talks[what.Server], what)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := a.foreignEnding(ctx); err != nil {
			return err
		}
		if err := a.step(ask, answer, unanswered); err != nil {
			return err
		}
	}
	return nil
}

// serverSession is what the runner has to do with one server on its own account.
type serverSession struct {
	talk    *client.Session // nil before it is opened, and where that failed
	process string
	failed  error // why it could not be opened
}

func (q *serverSession) close() {
	if q.talk != nil {
		q.talk.Close()
	}
}

// open begins the conversation: with the process of the agent's last session where the
// server has processes for sessions, else in a session of the runner's.
func (q *serverSession) open(ctx context.Context, keepers map[string]*retainer, server proxy.Server) {
	if q.talk != nil || q.failed != nil {
		return
	}
	q.process = evidence.ProcessServer
	if k := keepers[server.Name]; k != nil {
		if kept := k.take(); kept != nil {
			q.process = evidence.ProcessLast
			q.talk, q.failed = k.resume(ctx, kept)
			return
		}
		q.process, server = evidence.ProcessNew, k.server
	}
	q.talk, q.failed = client.Open(ctx, server.Server)
}

// ask makes one call.
func (a *asker) ask(ctx context.Context, q *serverSession, what evidence.CallAsk) (*evidence.CallAnswer, error) {
	i := slices.IndexFunc(a.servers.proxied, func(s proxy.Server) bool { return s.Name == what.Server })
	if i < 0 {
		return nil, fmt.Errorf("%w: the trial has no server %q", errUnanswered, what.Server)
	}
	q.open(ctx, a.servers.retainers, a.servers.proxied[i])
	if q.failed != nil {
		return &evidence.CallAnswer{Process: q.process, Outcome: evidence.OutcomeTransportError, Message: q.failed.Error()}, nil
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration(what.Seconds)*time.Second)
	defer cancel()
	reply, err := q.talk.Call(limited, what.Tool, what.Arguments)
	answer := &evidence.CallAnswer{Process: q.process, Result: reply.Result, Error: reply.Error}
	switch {
	case err != nil && limited.Err() != nil:
		answer.Outcome, answer.Message = evidence.OutcomeTimeout, fmt.Sprintf("the server did not answer within %d s", what.Seconds)
	case err != nil:
		answer.Outcome, answer.Message = evidence.OutcomeTransportError, err.Error()
	case len(reply.Result)+len(reply.Error) > maxReply:
		return nil, fmt.Errorf("%w: server %q answered to %s with %d bytes, and at most %d are kept",
			errUnanswered, what.Server, what.Tool, len(reply.Result)+len(reply.Error), maxReply)
	case len(reply.Error) > 0:
		answer.Outcome = evidence.OutcomeProtocolError
	case isToolError(reply.Result):
		answer.Outcome = evidence.OutcomeToolError
	default:
		answer.Outcome = evidence.OutcomeOK
	}
	return answer, nil
}

func isToolError(result json.RawMessage) bool {
	return string(jsontext.Member(result, "isError")) == "true"
}

// lookAt looks at one path of a server's container.
func (a *asker) lookAt(ctx context.Context, what evidence.FileAsk) (*evidence.FileAnswer, error) {
	i := slices.IndexFunc(a.servers.hosts, func(h *host) bool { return h.plan.Name == what.Server })
	if i < 0 {
		return nil, fmt.Errorf("%w: the trial has no server %q", errUnanswered, what.Server)
	}
	finder, ok := a.servers.hosts[i].sandbox.(sandbox.Finder)
	if !ok || a.servers.hosts[i].plan.Remote {
		return nil, fmt.Errorf("%w: server %q has no container to look into", errUnanswered, what.Server)
	}
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	var found bytes.Buffer
	err := finder.Find(ctx, what.Server, what.Path, &bounded.Head{W: &found, Limit: maxLooked + 64<<10, Fail: errTooLarge})
	if err != nil && !errors.Is(err, errTooLarge) {
		return nil, fmt.Errorf("%w: %s in the container of server %q: %w", errUnanswered, what.Path, what.Server, err)
	}
	return readFound(&found, what)
}

// readFound reads the answer to one look, which is hostile.
func readFound(found io.Reader, what evidence.FileAsk) (*evidence.FileAnswer, error) {
	e, err := tree.First(found)
	if errors.Is(err, io.EOF) {
		return &evidence.FileAnswer{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: what came of it cannot be read: %w", errUnanswered, what.Path, err)
	}
	a := &evidence.FileAnswer{Kind: e.Kind(), Size: e.Size}
	if at := path.Clean("/" + e.Name); at != path.Clean(what.Path) {
		a.At = at
	}
	switch {
	case !what.Content:
	case a.Kind != tree.File:
		a.Unread = "it is not a file"
	case e.Size > maxLooked:
		a.Unread = fmt.Sprintf("it has %d bytes, and at most %d are looked into", e.Size, maxLooked)
	default:
		content, err := io.ReadAll(io.LimitReader(e.Content, maxLooked))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %s: %w", errUnanswered, what.Path, err)
		case !utf8.Valid(content):
			a.Unread = "it is not UTF-8 text"
		default:
			text := string(content)
			a.Content = &text
		}
	}
	return a, nil
}
