package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/sandbox/process"
)

// keyResultType says of a result of 2026-07-28 what it is.
const keyResultType = "resultType"

// ClientSession is a conversation that the runner has with a server on its own account: when
// the agent has stopped, or where there is no agent.
type ClientSession struct {
	*prober
	talk  talk
	era   Era
	info  ServerInfo
	calls int
	close func()
}

// OpenClientSession opens a session with a server: in a process of its own, or over HTTP. Errors
// are of type [*ProbeError]. The caller closes it. Nothing of it is recorded as frames or
// events: it is no part of what the agent did.
func OpenClientSession(ctx context.Context, limits Limits, s Server) (*ClientSession, error) {
	p, err := newInquirer(nobody{}, limits, s)
	if err != nil {
		return nil, err
	}
	p.refusal = "the agent has stopped, and nobody answers in its place"
	return p.inquire(ctx)
}

func (p *prober) inquire(ctx context.Context) (*ClientSession, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.server.Start, fmt.Errorf("%v have passed", p.server.Start))
	defer cancel()
	q, err := p.begin(ctx, EraSessions)
	if errors.Is(err, ErrRefused) {
		var second error
		if q, second = p.begin(ctx, EraStateless); second == nil {
			return q, nil
		}
	}
	return q, err
}

// Continue goes on in a conversation that somebody else began with a process of the
// server's, and has left.
func Continue(ctx context.Context, limits Limits, s Server, proc process.Process, era Era) (*ClientSession, error) {
	p, err := newInquirer(nobody{}, limits, s)
	if err != nil {
		return nil, err
	}
	p.refusal = "the agent has stopped, and nobody answers in its place"
	t, leave, err := p.converse(ctx, func(context.Context) (process.Process, error) { return proc, nil })
	if err != nil {
		return nil, err
	}
	return &ClientSession{prober: p, talk: t, era: era, close: leave}, nil
}

func newInquirer(rec Recorder, limits Limits, s Server) (*prober, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	if !limits.valid() {
		return nil, errors.New("proxy: a limit is negative")
	}
	s.Tools = nil // the runner sees all
	return newProber(rec, limits.withDefaults(), s), nil
}

// nobody takes frames and events and keeps none.
type nobody struct{}

func (nobody) Frame(evidence.Frame) int64 { return 0 }
func (nobody) Event(evidence.Event)       {}

// begin opens a session of an era.
func (p *prober) begin(ctx context.Context, era Era) (*ClientSession, error) {
	q := &ClientSession{prober: p, era: era}
	if p.server.passes() {
		h := &httpProbe{prober: p, up: p.server.Upstream, era: era}
		q.talk, q.close = h, func() { h.leave(context.WithoutCancel(ctx)) }
	} else {
		t, leave, err := p.converse(ctx, p.server.launcher(p.message(), p.budget()))
		if err != nil {
			return nil, err
		}
		q.talk, q.close = t, leave
	}
	var err error
	if q.info, err = p.handshake(ctx, era, q.talk); err != nil {
		q.close()
		return nil, err
	}
	if era == EraSessions {
		if err := q.talk.tell(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
			q.close()
			return nil, err
		}
	}
	return q, nil
}

// Reply is what a server answered to a call: a result or an error, as it wrote them.
type Reply struct {
	Result, Error json.RawMessage
}

// Call calls a tool. What the server wants to know meanwhile it is refused. Errors are
// of type [*ProbeError], or say that the answer is none.
func (q *ClientSession) Call(ctx context.Context, tool string, arguments json.RawMessage) (Reply, error) {
	name, _ := json.Marshal(tool)
	params := []string{`"name":` + string(name)}
	if len(arguments) > 0 {
		params = append(params, `"arguments":`+string(arguments))
	}
	return q.put(ctx, methodCallTool, params...)
}

// put makes a request of the given parameters.
func (q *ClientSession) put(ctx context.Context, method string, params ...string) (Reply, error) {
	q.calls++
	raw, err := q.talk.ask(ctx, requestText(q.era, inquiryID+strconv.Itoa(q.calls), method, params), false)
	if err != nil {
		return Reply{}, err
	}
	f, _ := jsonrpc.Read(raw)
	if q.era == EraStateless && jsontext.Word(jsontext.Member(f.Result, keyResultType)) == "input_required" {
		return Reply{}, errors.New("the server wants input before it answers, and nobody gives it any")
	}
	return Reply{Result: f.Result, Error: f.Error}, nil
}

// Close ends the session, and the process where it was the session's own.
func (q *ClientSession) Close() { q.close() }

// inquiryID begins the ids of the runner's calls.
const inquiryID = "waza-state-"

// requestText is a request of an era.
func requestText(era Era, id, method string, params []string) string {
	if era == EraStateless {
		params = append(params, statelessMeta)
	}
	return `{"jsonrpc":"2.0","id":"` + id + `","method":"` + method + `","params":{` + strings.Join(params, ",") + `}}`
}

// refusalOf is the answer to what a server asks of the runner; nil where it asks
// nothing, or nobody answers. A ping it gets an answer to, all else it is refused.
func (p *prober) refusalOf(raw []byte) []byte {
	if p.refusal == "" {
		return nil
	}
	env, err := parse(raw)
	if err != nil || env.batch || env.messages[0].kind != request {
		return nil
	}
	id := env.messages[0].id.Raw
	if env.messages[0].method == "ping" {
		return append(append([]byte(`{"jsonrpc":"2.0","id":`), id...), `,"result":{}}`...)
	}
	return errorResponse(id, codeNoMethod, p.refusal)
}
