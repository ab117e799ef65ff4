package gateway

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// InProcess is a transport on which h answers, without any port.
func InProcess(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper. The handler ends when its answer has been read
// or closed, or with the request's context.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	body, out := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = body.CloseWithError(context.Cause(ctx)) })
	answer := &answering{header: http.Header{}, out: out, begun: make(chan struct{})}
	answer.begin = sync.OnceFunc(func() { close(answer.begun) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answer.play(p.handler, r.WithContext(ctx))
	}()
	end := func() {
		cancel()
		_ = body.Close()
		<-ended
		stop()
	}
	select {
	case <-answer.begun:
	case <-ctx.Done():
		end()
		return nil, context.Cause(ctx)
	}
	if answer.status == 0 {
		end()
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: answer.status, Header: answer.sent, Body: closing{body, end}, ContentLength: -1, Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// closing is a body whose Close ends who writes it.
type closing struct {
	io.Reader
	end func()
}

func (c closing) Close() error {
	c.end()
	return nil
}

// answering is what a handler in process writes to.
type answering struct {
	header, sent http.Header
	status       int // 0 until there is one; sent and status are set before begun is closed
	out          *io.PipeWriter
	begun        chan struct{}
	begin        func() // closes it
}

// play has the handler answer. One that panics breaks its answer off, as a server does.
func (a *answering) play(h http.Handler, r *http.Request) {
	defer func() {
		var err error
		if recover() != nil {
			err = io.ErrUnexpectedEOF
		} else {
			a.WriteHeader(http.StatusOK)
		}
		_ = a.out.CloseWithError(err) // nil is the answer's end
		a.begin()
	}()
	h.ServeHTTP(a, r)
}

// Header implements http.ResponseWriter.
func (a *answering) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answering) WriteHeader(status int) {
	if a.status == 0 && status >= 200 {
		a.sent, a.status = a.header.Clone(), status
		a.begin()
	}
}

// Write implements http.ResponseWriter.
func (a *answering) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.out.Write(p)
}

// Flush implements http.Flusher: what is written is read at once.
func (a *answering) Flush() { a.WriteHeader(http.StatusOK) }
