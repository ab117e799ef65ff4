package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/sandbox/process"
)

// maxEndpoint is the maximum size of an endpoint event in bytes.
const maxEndpoint = 8 << 10

// deliveryTimeout is the time within which a server must accept a message without a
// response.
const deliveryTimeout = 30 * time.Second

var (
	errNoStream = errors.New("its event stream ended")
	errHungUp   = errors.New("the session is closed")
)

var _ process.Process = (*eventSession)(nil)

// launchEvents returns a launcher of sessions over the HTTP+SSE transport; 2024-11-05
// basic/transports. Each behaves like a process: a line written to stdin is sent with POST,
// and each event of the stream is a line of stdout.
func launchEvents(up *Upstream, message int64, memory *bounded.Budget, timeout time.Duration) Launcher {
	return func(ctx context.Context) (process.Process, error) {
		s := &eventSession{up: up, memory: memory, timeout: timeout, gone: make(chan struct{})}
		s.ctx, s.cancel = context.WithCancelCause(ctx)
		if err := s.open(message); err != nil {
			s.cancel(err)
			return nil, err
		}
		return s, nil
	}
}

// eventSession is an event stream with its endpoint. It implements process.Process without
// stderr.
type eventSession struct {
	up      *Upstream
	memory  *bounded.Budget
	timeout time.Duration
	ctx     context.Context // ends with the session
	cancel  context.CancelCauseFunc

	endpoint *url.URL
	stdout   *io.PipeReader
	gone     chan struct{} // closed when the stream has ended

	mu    sync.Mutex
	over  bool           // guarded by mu
	posts sync.WaitGroup // Add guarded by mu
}

// open requests the stream and waits for its endpoint event.
func (s *eventSession) open(message int64) error {
	r := s.up.Request(s.ctx, http.MethodGet)
	r.Header.Set("Accept", sse.ContentType)
	response, err := s.up.Send(r, nil)
	if err != nil {
		return WithoutURL(err)
	}
	in := NewEventReader(response.Body, message, s.memory)
	if err := s.greet(response, in); err != nil {
		_ = response.Body.Close()
		return err
	}
	reader, writer := io.Pipe()
	s.stdout = reader
	go s.read(response.Body, in, writer)
	return nil
}

func (s *eventSession) greet(response *http.Response, in *EventReader) error {
	switch {
	case response.StatusCode != http.StatusOK:
		return HTTPError{response.StatusCode, fmt.Sprintf("HTTP %d %s to the request for an event stream", response.StatusCode, http.StatusText(response.StatusCode))}
	case web.IsEncoded(response.Header):
		return ErrEncoded
	case !sse.IsContentType(response.Header.Get("Content-Type")):
		return HTTPError{response.StatusCode, "the response is not an event stream"}
	}
	for {
		e, err := in.Next()
		if err != nil {
			return fmt.Errorf("no endpoint event: %w", err)
		}
		found, where := string(e.Type) == "endpoint", string(e.Data[:min(len(e.Data), maxEndpoint)])
		e.Release()
		if found {
			return s.meet(response.Request.URL, where)
		}
	}
}

// meet sets the endpoint that the server names: a path, or a URL of the same origin.
func (s *eventSession) meet(stream *url.URL, where string) error {
	next, err := stream.Parse(where)
	if err != nil {
		return fmt.Errorf("%w: its URL is invalid", ErrEndpoint)
	}
	next.User, next.Fragment = nil, ""
	if !s.up.sameOrigin(stream, next) {
		return fmt.Errorf("%w: %s names another origin, %s", ErrEndpoint, Origin(stream), Clip([]byte(Origin(next))))
	}
	s.endpoint = next
	return nil
}

// read copies the messages of the stream to stdout.
func (s *eventSession) read(body io.ReadCloser, in *EventReader, out *io.PipeWriter) {
	defer close(s.gone)
	defer func() { _ = body.Close() }()
	defer context.AfterFunc(s.ctx, func() { _ = out.Close() })()
	var others, size int64 // events that are not messages
	for {
		e, err := in.Next()
		if err != nil {
			s.cancel(fmt.Errorf("%w: %w", errNoStream, WithoutURL(err)))
			_ = out.Close()
			return
		}
		if e.IsMessage() {
			err = writeLine(out, e.Data)
		} else {
			others, size = others+1, size+int64(len(e.Raw))
		}
		e.Release()
		switch {
		case defence.CountedMessages && (others > DefaultFrames || size > DefaultTraffic):
			s.cancel(ErrFlooded)
			_ = out.Close()
			return
		case err != nil:
			s.cancel(errHungUp)
			return
		}
	}
}

// writeLine writes body, which it modifies, as a line.
func writeLine(w io.Writer, body []byte) error {
	unbreak(body)
	_, err := w.Write(body)
	if err == nil {
		_, err = w.Write([]byte("\n"))
	}
	return err
}

// Write posts a line. For a request it returns when the line has been sent; otherwise when
// the server has accepted it, so that messages stay in order.
func (s *eventSession) Write(line []byte) (int, error) {
	size := int64(len(line)) // the connection may hold it longer than the caller
	if !s.memory.Take(size) {
		return 0, ErrNoMemory
	}
	body := bytes.Clone(jsontext.TrimSpace(line))
	accepted, written := make(chan error, 1), make(chan struct{})
	timeout, sent := s.timeout, sync.OnceFunc(func() { close(written) })
	if !hasRequest(body) {
		timeout, sent = min(timeout, deliveryTimeout), func() {}
	}
	if !s.begin() {
		s.memory.Give(size)
		return 0, errHungUp
	}
	go func() {
		defer s.posts.Done()
		defer s.memory.Give(size)
		accepted <- s.post(body, timeout, sent)
	}()
	select {
	case err := <-accepted:
		return len(line), err
	case <-written:
		return len(line), nil
	}
}

// hasRequest reports whether a message or batch contains a request.
func hasRequest(body []byte) bool {
	all, _, err := jsonrpc.Parse(body)
	return err == nil && slices.ContainsFunc(all, jsonrpc.Message.IsRequest)
}

// begin reports whether the session still accepts messages, and counts a post if so.
func (s *eventSession) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.posts.Add(1)
	return true
}

// post sends a message. If the server does not accept it the session ends, since a response
// would never arrive.
func (s *eventSession) post(body []byte, timeout time.Duration, sent func()) error {
	ctx, cancel := context.WithTimeout(s.ctx, timeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { sent() }})
	r := s.up.Request(ctx, http.MethodPost)
	there := *s.endpoint
	r.URL = &there
	r.Header.Set("Content-Type", "application/json")
	response, err := s.up.Send(r, body)
	if err == nil {
		_, _ = io.CopyN(io.Discard, response.Body, maxAcceptance)
		_ = response.Body.Close()
		if response.StatusCode >= 300 {
			err = fmt.Errorf("HTTP %d %s to a message", response.StatusCode, http.StatusText(response.StatusCode))
		}
	}
	if err != nil {
		err = WithoutURL(err)
		s.cancel(err)
	}
	return err
}

// maxAcceptance is the number of bytes read of the response to a POST so that the
// connection can be reused.
const maxAcceptance = 64 << 10

// Stdin returns a writer that posts lines. Closing it closes the session.
func (s *eventSession) Stdin() io.WriteCloser { return s }
func (s *eventSession) Stdout() io.Reader     { return s.stdout }
func (s *eventSession) Stderr() io.Reader     { return http.NoBody }

// Close closes the session.
func (s *eventSession) Close() error {
	s.cancel(errHungUp)
	return nil
}

// Signal closes the session, whatever the signal.
func (s *eventSession) Signal(process.Signal) error { return s.Close() }

// Wait waits for the end of the stream and returns its cause. There is no exit code.
func (s *eventSession) Wait() (process.Exit, error) {
	<-s.gone
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.posts.Wait()
	return process.Exit{}, context.Cause(s.ctx)
}
