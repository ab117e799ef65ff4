package trial

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"time"
	"unicode/utf8"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/sandbox"
)

// maxAnswer is how many bytes of a file of a server, or of its answer to a grader's call, are
// kept.
const maxAnswer = 1 << 20

// asker calls servers and reads their files for graders.
type asker struct {
	servers    *servers
	proxy      *proxy.Proxy // nil if servers cannot be called
	containers []member     // of the trial
	rec        *evidence.Recorder
}

// askServers makes the calls and reads the files that graders ask for. It makes no calls if the
// stage has no endpoints.
func askServers(ctx context.Context, s *stage) error {
	a := asker{servers: s.servers, containers: s.withAgent(), rec: s.log.Recorder}
	if s.endpoints != nil {
		a.proxy = s.endpoints.proxy
	}
	return a.askAll(ctx, asksOf(s.plan, evidence.StepCall, evidence.StepFiles))
}

// askAll makes the calls and reads the files that graders ask for, in order. It runs after the
// agent has stopped and its sessions are closed.
func (a asker) askAll(ctx context.Context, asks []grading.Ask) error {
	sessions := map[string]*serverSession{}
	defer func() {
		for _, session := range sessions {
			session.close()
		}
	}()
	for _, ask := range asks {
		var answer any
		var unanswered error
		switch what := ask.What.(type) {
		case evidence.FileAsk:
			answer, unanswered = a.readPath(ctx, what)
		case evidence.CallAsk:
			if sessions[what.Server] == nil {
				sessions[what.Server] = &serverSession{}
			}
			answer, unanswered = a.ask(ctx, sessions[what.Server], what)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		call, _ := answer.(*evidence.CallAnswer)
		if err := foreignEnding(ctx, a.containers, unanswered != nil || call != nil && call.Outcome.Unanswered()); err != nil {
			return err
		}
		if err := recordStep(a.rec, ask, answer, unanswered); err != nil {
			return err
		}
	}
	return nil
}

// serverSession is the runner's own session with a server. It is opened by the first call.
type serverSession struct {
	session *client.Session // nil if it could not be opened
	process string
	failed  error // the error of opening it
}

func (q *serverSession) close() {
	if q.session != nil {
		q.session.Close()
	}
}

// openSession opens the session. If the server starts a process per session, it continues with the
// process of the agent's last session.
func (q *serverSession) openSession(ctx context.Context, p *proxy.Proxy, to *server) {
	if q.session != nil || q.failed != nil {
		return
	}
	q.process = evidence.ProcessServer
	if to.proxied.Keep {
		q.process = evidence.ProcessNew
		if last, ok := p.Attach(to.plan.Name); ok {
			q.process = evidence.ProcessLast
			q.session = client.Attach(p.Own(to.plan.Name), last.Session, last.Version, last.LastID)
			return
		}
	}
	q.session, q.failed = client.Open(ctx, p.Own(to.plan.Name))
}

// ask makes one call.
func (a asker) ask(ctx context.Context, q *serverSession, what evidence.CallAsk) (*evidence.CallAnswer, error) {
	to := a.servers.find(what.Server)
	if to == nil || a.proxy == nil {
		return nil, fmt.Errorf("%w: the trial has no server %q", errUnanswered, what.Server)
	}
	q.openSession(ctx, a.proxy, to)
	if q.failed != nil {
		return &evidence.CallAnswer{Process: q.process, Outcome: evidence.OutcomeTransportError, Message: q.failed.Error()}, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(what.Seconds)*time.Second, fmt.Errorf("the server did not answer within %d s", what.Seconds))
	defer cancel()
	reply, err := q.session.Call(ctx, what.Tool, what.Arguments)
	if size := len(reply.Result) + len(reply.Error); err == nil && size > maxAnswer {
		return nil, fmt.Errorf("%w: server %q answered to %s with %d bytes, and at most %d are kept", errUnanswered, what.Server, what.Tool, size, maxAnswer)
	}
	answer := &evidence.CallAnswer{Process: q.process, Result: reply.Result, Error: reply.Error}
	answer.Outcome, answer.Message = outcomeOf(ctx, q.session, reply, err)
	return answer, nil
}

// outcomeOf returns the outcome of a request of the runner in a session, and a message unless the
// answer contains it. ctx is the request's context.
func outcomeOf(ctx context.Context, q *client.Session, reply jsonrpc.Message, err error) (outcome evidence.Outcome, why string) {
	switch {
	case err != nil && ctx.Err() != nil:
		return evidence.OutcomeTimeout, context.Cause(ctx).Error()
	case err != nil:
		return evidence.OutcomeTransportError, err.Error()
	}
	outcome, why = q.Outcome(reply)
	if len(reply.Error) > 0 {
		why = ""
	}
	return outcome, why
}

// readPath reads one path in a server's container.
func (a asker) readPath(ctx context.Context, what evidence.FileAsk) (*evidence.FileAnswer, error) {
	at := a.servers.find(what.Server)
	if at == nil {
		return nil, fmt.Errorf("%w: the trial has no server %q", errUnanswered, what.Server)
	}
	if at.played != nil {
		return playedFile(at, what)
	}
	contained, ok := at.sandbox.(sandbox.Contained)
	if !ok || at.plan.Remote {
		return nil, fmt.Errorf("%w: server %q has no container to look into", errUnanswered, what.Server)
	}
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	var found bytes.Buffer
	err := contained.Find(ctx, what.Server, what.Path, &bounded.Head{W: &found, Limit: maxAnswer + 64<<10, Fail: errTooLarge})
	if err != nil && !errors.Is(err, errTooLarge) {
		return nil, fmt.Errorf("%w: %s in the container of server %q: %w", errUnanswered, what.Path, what.Server, err)
	}
	return readFound(&found, what)
}

// playedFile returns a file of a played server from the cassette.
func playedFile(at *server, what evidence.FileAsk) (*evidence.FileAnswer, error) {
	found, err := at.played.File(what.Path, what.Content)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnanswered, err)
	}
	answer := &evidence.FileAnswer{}
	if err := jsontext.Unmarshal(found, answer); err != nil {
		return nil, fmt.Errorf("%w: %s of server %q in the cassette: %w", errUnanswered, what.Path, what.Server, err)
	}
	return answer, nil
}

// readFound parses the tar of one path. Its content is not trusted.
func readFound(found io.Reader, what evidence.FileAsk) (*evidence.FileAnswer, error) {
	e, err := tree.First(found)
	if errors.Is(err, io.EOF) {
		return &evidence.FileAnswer{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: its result cannot be read: %w", errUnanswered, what.Path, err)
	}
	a := &evidence.FileAnswer{Kind: e.Kind(), Size: e.Size}
	if at := path.Clean("/" + e.Name); at != path.Clean(what.Path) {
		a.At = at
	}
	switch {
	case !what.Content:
	case e.Cut() != "":
		a.Unread = "it " + e.Cut()
	case a.Kind != tree.File:
		a.Unread = "it is not a file"
	case e.Size > maxAnswer:
		a.Unread = fmt.Sprintf("it has %d bytes, and at most %d are looked into", e.Size, maxAnswer)
	default:
		content, err := io.ReadAll(io.LimitReader(e.Content, maxAnswer))
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
