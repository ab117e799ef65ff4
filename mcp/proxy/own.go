package proxy

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/waza-isolate/waza/mcp/transport"
)

// Own returns a server for the runner's own sessions, which reach it over streamable HTTP within
// this process, whatever the server's transport. Frames have the sender runner. Hidden tools,
// injections and the agent's limits do not apply. If a request cannot be answered, the transport
// returns the proxy's error, not a response.
func (p *Proxy) Own(name string) transport.Server {
	s := p.own[name]
	server := s.Server.Server
	up := transport.Upstream{URL: &url.URL{Scheme: "http", Host: s.hostKey(), Path: endpoint}}
	if server.Upstream != nil {
		up = *server.Upstream
	}
	up.Transport, up.Events, up.Running = ownTransport{s}, false, func() *transport.Program { return running(s) }
	server.Launch, server.Upstream = nil, &up
	return server
}

// running returns the program that the runner's own session with a server talks to, or nil.
func running(s *server) *transport.Program {
	if b, ok := s.handler.(*bridge); ok && s.Upstream == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.last == nil {
			return nil
		}
		return &b.last.lines.Program
	}
	if s.Upstream != nil && s.Upstream.Process != nil {
		return &s.Upstream.Process.Program
	}
	return nil
}

// Conversation is a conversation of the agent with a process that the runner continues.
type Conversation struct {
	Session string // empty if the protocol revision has no sessions
	Version string // negotiated by initialize
	LastID  int64  // the largest integer id of its requests, or 0
}

// Attach makes the agent's last conversation with a server on stdio one of the runner, which
// continues where the agent stopped. It returns false if there is none. It must be called after
// [Proxy.Release], for a server with Keep.
func (p *Proxy) Attach(name string) (c Conversation, ok bool) {
	to, ok := p.own[name].handler.(*bridge)
	if !ok {
		return c, false
	}
	from := p.named(name).handler.(*bridge)
	from.mu.Lock()
	s := from.last
	from.last = nil
	from.mu.Unlock()
	if s == nil || !from.Keep {
		return c, false
	}
	conn, err := to.nextConn()
	if err != nil {
		return c, false
	}
	s.mu.Lock()
	s.bridge, s.conversation = to, conversation{to.server, conn}
	s.own.queue = newQueue(p.limits.Queue, p.memory)
	c = Conversation{Session: s.name(), Version: s.version, LastID: s.lastID}
	s.mu.Unlock()
	to.mu.Lock()
	defer to.mu.Unlock()
	to.last = s
	if s.isShared() {
		to.shared = s
	} else {
		to.sessions[s.id] = s
	}
	return c, true
}

// ownTransport passes requests of the runner to a server's handler.
type ownTransport struct{ server *server }

// RoundTrip implements http.RoundTripper.
func (t ownTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	in, out := io.Pipe()
	w := &ownResponse{body: out, begun: make(chan struct{}), header: http.Header{}}
	w.response = &http.Response{Proto: r.Proto, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: -1, Body: &ownBody{in, cancel}}
	forwarded := r.Clone(ctx)
	forwarded.Host = t.server.hostKey()
	go func() {
		defer context.AfterFunc(ctx, func() { _ = out.CloseWithError(context.Cause(ctx)) })()
		t.server.handler.ServeHTTP(w, forwarded)
		w.WriteHeader(http.StatusOK)
		_ = out.Close()
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		cancel()
		return nil, context.Cause(ctx)
	}
	if w.err != nil {
		cancel()
		return nil, w.err
	}
	return w.response, nil
}

// ownBody is the body of a response to the runner. Closing it ends the request.
type ownBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *ownBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// ownResponse writes a response to the runner.
type ownResponse struct {
	body     *io.PipeWriter
	header   http.Header
	once     sync.Once
	begun    chan struct{} // closed when response or err is set
	response *http.Response
	err      error
}

func (w *ownResponse) Header() http.Header { return w.header }

func (w *ownResponse) WriteHeader(status int) {
	w.once.Do(func() {
		w.response.StatusCode, w.response.Status = status, http.StatusText(status)
		w.response.Header = w.header.Clone()
		close(w.begun)
	})
}

func (w *ownResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// FlushError, SetReadDeadline and SetWriteDeadline are for [http.ResponseController]. The request
// ends with its context.
func (w *ownResponse) FlushError() error                { return nil }
func (w *ownResponse) SetReadDeadline(time.Time) error  { return nil }
func (w *ownResponse) SetWriteDeadline(time.Time) error { return nil }

// fails ends a response to the runner with an error, unless it has begun. It reports whether the
// response is to the runner.
func fails(w http.ResponseWriter, err error) bool {
	own, ok := w.(*ownResponse)
	if !ok || err == nil {
		return false
	}
	own.once.Do(func() {
		own.err = err
		close(own.begun)
	})
	return true
}
