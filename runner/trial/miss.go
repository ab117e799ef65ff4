package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/mock"
	"github.com/waza-isolate/waza/mcp/proxy"
)

// missError is a request without an answer in the trial's cassette.
type missError struct {
	where string // server, command or provider that was asked
	why   error
}

func (e *missError) Error() string {
	return fmt.Sprintf("%s: %v; record the run again if the change is meant", e.where, e.why)
}

func (e *missError) Unwrap() error { return e.why }

// misses keeps the first request of a trial that its cassette has no answer for.
type misses struct {
	known chan struct{} // closed when there is one

	mu    sync.Mutex
	first failure // guarded by mu
}

func newMisses() *misses { return &misses{known: make(chan struct{})} }

// get returns the first miss, whose error is a [*missError], or a zero failure.
func (m *misses) get() failure {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.first
}

func (m *misses) add(at time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first.err == nil {
		m.first = failure{at, err}
		close(m.known)
	}
}

// missed records a request that the cassette has no answer for, which ends the trial.
func (o observer) missed(where string, why error) {
	o.Event(evidence.Event{Kind: "miss", Where: where, Message: why.Error()})
	o.misses.add(o.Now(), &missError{where, why})
}

// liveServer is the real server behind a played one, in a session of the runner.
type liveServer struct {
	server *runningServer
	log    observer
	proxy  *proxy.Proxy

	mu      sync.Mutex
	session *client.Session // nil before the first request; guarded by mu
}

// ask sends the server a request that the cassette has no answer for, and returns the result or the
// error of the response. It records the request.
func (l *liveServer) ask(ctx context.Context, method string, params json.RawMessage) (result, failure json.RawMessage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.server.plan.Timeout)
	defer cancel()
	asked := jsontext.Encode(mock.Request(method, params))
	l.log.Event(evidence.Event{Kind: "live", Where: l.server.plan.Name, Message: "was asked what the cassette has no answer to: " + beginning(asked, maxAsked, l.log.calls.secrets)})
	failed := func(err error) (json.RawMessage, json.RawMessage) {
		failure, _ := jsontext.Marshal(map[string]any{"code": jsonrpc.InternalError, "message": err.Error()}) // a map of strings and numbers always marshals
		return nil, failure
	}
	if l.session == nil {
		session, err := client.Open(ctx, l.proxy.Own(l.server.plan.Name))
		if err != nil {
			return failed(err)
		}
		l.session = session
	}
	reply, err := l.session.Forward(ctx, method, params)
	switch {
	case err != nil:
		return failed(err)
	case reply.Error == nil && reply.Result == nil:
		return failed(errors.New("the server's answer is none"))
	}
	return bytes.Clone(reply.Result), bytes.Clone(reply.Error)
}

// maxAsked is how many bytes of a request to a real server an event shows.
const maxAsked = 1000

func (l *liveServer) close(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.session.Close()
	}
	_ = closeProxy(ctx, l.proxy)
}
