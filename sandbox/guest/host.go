package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/waza-isolate/waza/sandbox/process"
)

// Guest is the runner's end of the session with one container's process 1.
type Guest struct {
	pipe    *yamux.Session // over the container's stdin and stdout; the container ends with it
	sockets *sockets       // that carry the requests; nil where pipe does
	hello   Hello
	inbound chan struct{} // holds a value for each stream that the guest may open or has opened

	mu       sync.Mutex
	accepts  map[uint64]*listener // guarded by mu
	lastID   uint64               // guarded by mu
	reason   error                // why the session ended; guarded by mu
	closed   bool                 // by us, before it ended; guarded by mu
	done     chan struct{}        // closed once there is a reason
	incoming sync.WaitGroup

	listening sync.Once // begins serveSpares
}

// Connect starts the session over pipe, the container's stdin and stdout, and waits until the
// guest has said hello. If the guest has connected to ln, which may be nil, the runner hands it a
// socket for each request over that connection from then on, and over the pipe go only pings, so
// that the container still ends with an engine that died or stands still. Connect owns both from
// the beginning, even if it fails.
func Connect(ctx context.Context, pipe io.ReadWriteCloser, ln *net.UnixListener) (*Guest, error) {
	if ln != nil {
		defer func() { _ = ln.Close() }()
	}
	g := &Guest{accepts: make(map[uint64]*listener), inbound: make(chan struct{}, inboundLimit()), done: make(chan struct{})}
	session, err := yamux.Client(newGuard(&whole{ReadWriteCloser: pipe}, g.ended), muxConfig(patience))
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	g.pipe = session
	g.incoming.Go(func() { g.serveIncoming(session) })
	g.incoming.Go(func() { watchPulse(session, g.giveUp) })
	err = g.greet(ctx)
	if err == nil && g.hello.Socket {
		err = g.useSocket(ctx, ln)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("guest does not answer: %w", err), g.Close(), g.Err())
	}
	return g, nil
}

const (
	// patience is how long a guest may take nothing in.
	patience = 8 * time.Second
	// acceptTimeout bounds the wait for a guest that says it has connected.
	acceptTimeout = 5 * time.Second
)

// useSocket has sockets carry the requests, which the guest gets over the first connection to ln.
// They end with the pipe, and the pipe with that connection.
func (g *Guest) useSocket(ctx context.Context, ln *net.UnixListener) error {
	if ln == nil {
		return fmt.Errorf("%w: connected to a socket that it was not given", ErrProtocol)
	}
	if err := ln.SetDeadline(time.Now().Add(acceptTimeout)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = ln.SetDeadline(time.Now()) })()
	conn, err := ln.AcceptUnix()
	if err != nil {
		return causeOf(ctx, err)
	}
	g.sockets = newSockets(conn)
	g.incoming.Go(func() { g.ended(g.sockets.watch()) })
	g.incoming.Go(func() {
		<-g.done
		_, _ = g.sockets.Close(), g.pipe.Close()
	})
	return nil
}

func (g *Guest) greet(ctx context.Context) error {
	r, err := g.call(ctx, request{Verb: "hello"})
	if err != nil {
		return err
	}
	if r.Hello == nil {
		return fmt.Errorf("%w: empty hello", ErrProtocol)
	}
	g.hello = *r.Hello
	return nil
}

// Hello returns what the guest said of itself when it was connected.
func (g *Guest) Hello() Hello { return g.hello }

// Done returns a channel that is closed when the session ends, and with it the container. If the
// guest broke a rule, it is closed before anything else that uses the session fails.
func (g *Guest) Done() <-chan struct{} { return g.done }

// Err returns why the session ended on its own: the guest went away, or broke a rule, which is
// an [ErrProtocol]. It is nil until then, and after [Guest.Close].
func (g *Guest) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	return g.reason
}

// ended keeps the first reason.
func (g *Guest) ended(reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == nil {
		g.reason = reason
		close(g.done)
	}
}

// giveUp ends the session of a guest that broke a rule or is not there any more.
func (g *Guest) giveUp(err error) {
	g.ended(err)
	_ = g.pipe.Close()
}

// Ping returns once process 1 of the container has answered, or with ctx.
func (g *Guest) Ping(ctx context.Context) error {
	if g.sockets != nil {
		_, err := g.call(ctx, request{Verb: "ping"})
		return err
	}
	answered := make(chan error, 1)
	go func() {
		_, err := g.pipe.Ping()
		answered <- err
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the session. The guest takes that for its own end.
func (g *Guest) Close() error {
	g.mu.Lock()
	g.closed = g.closed || g.reason == nil && !g.pipe.IsClosed()
	g.mu.Unlock()
	var err error
	if g.sockets != nil {
		err = g.sockets.Close()
	}
	err = errors.Join(err, g.pipe.Close())
	g.incoming.Wait()
	return err
}

// open opens a stream for req. The stream ends early when ctx does, until the
// returned release is called.
func (g *Guest) open(ctx context.Context, req request) (*link, func() bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	stream, err := g.openStream(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", req.Verb, err)
	}
	l := newLink(stream)
	l.breached = g.giveUp
	release := context.AfterFunc(ctx, func() { _ = stream.Close() })
	if err := l.writeJSON(kindRequest, req); err != nil {
		release()
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", req.Verb, err), stream.Close())
	}
	return l, release, nil
}

// openStream opens a stream, or gives up with ctx: yamux waits for as long as a
// guest likes where that has left many unanswered, and so does the socket.
func (g *Guest) openStream(ctx context.Context) (stream, error) {
	type result struct {
		stream stream
		err    error
	}
	opened := make(chan result)
	go func() {
		stream, err := g.newStream()
		select {
		case opened <- result{stream, err}:
		case <-ctx.Done():
			if err == nil {
				_ = stream.Close()
			}
		}
	}()
	select {
	case r := <-opened:
		return r.stream, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (g *Guest) newStream() (stream, error) {
	if g.sockets != nil {
		return g.sockets.open(useRequest)
	}
	opened, err := g.pipe.OpenStream()
	return muxStream{opened}, err
}

// causeOf names the end of ctx as the cause of an error that came after it.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// begin opens a stream for req and reads the reply; the stream goes on.
func (g *Guest) begin(ctx context.Context, req request) (*link, reply, error) {
	l, release, err := g.open(ctx, req)
	if err != nil {
		return nil, reply{}, err
	}
	r, err := l.reply()
	if stopped := release(); err == nil && !stopped {
		err = ctx.Err()
	}
	if err = causeOf(ctx, err); err != nil {
		return nil, r, errors.Join(fmt.Errorf("%s: %w", req.Verb, err), l.stream.Close())
	}
	return l, r, nil
}

// call is begin for verbs that are done with their reply.
func (g *Guest) call(ctx context.Context, req request) (reply, error) {
	l, r, err := g.begin(ctx, req)
	if err != nil {
		return r, err
	}
	return r, l.stream.Close()
}

// Dial connects to address ("host:port") as seen from inside the container.
func (g *Guest) Dial(ctx context.Context, address string) (net.Conn, error) {
	l, r, err := g.begin(ctx, request{Verb: "dial", Addr: address})
	if err != nil {
		return nil, err
	}
	return newConn(l, r.Addr, address), nil
}

// Put unpacks a tar into the directory dir of the container. Names that lead out
// of dir are refused by the guest.
func (g *Guest) Put(ctx context.Context, dir string, tar io.Reader) error {
	l, release, err := g.open(ctx, request{Verb: "put", Dir: dir})
	if err != nil {
		return err
	}
	defer release()
	answer := make(chan error, 1)
	go func() {
		_, err := l.reply()
		l.stopWriting() // the guest takes no more
		answer <- err
	}()
	out := dataWriter{link: l, data: kindData, eof: kindEOF}
	_, copyErr := io.CopyBuffer(&out, onlyReader{tar}, make([]byte, maxPayload))
	copyErr = errors.Join(copyErr, out.Close())
	if copyErr != nil {
		_ = l.stream.SetReadDeadline(time.Now().Add(time.Second)) // the guest's reason, if it gave one
	}
	err = causeOf(ctx, errors.Join(<-answer, copyErr))
	_ = l.stream.Close()
	var why refusal
	switch {
	case errors.As(err, &why): // the rest is only how the refusal came through
		return fmt.Errorf("put %s: %w", dir, why)
	case err != nil:
		return fmt.Errorf("put %s: %w", dir, err)
	}
	return nil
}

// Get writes the tree at dir of the container to w as tar. Symbolic links are written and not
// followed; those to a path of omit are left out, and so is a directory that holds nothing else.
// The guest may send any bytes: readers must treat the tar as hostile.
func (g *Guest) Get(ctx context.Context, dir string, omit []string, w io.Writer) error {
	return g.fetch(ctx, request{Verb: "get", Dir: dir, Omit: omit}, w)
}

// fetch writes the tar that a verb sends to w.
func (g *Guest) fetch(ctx context.Context, asked request, w io.Writer) error {
	l, _, err := g.begin(ctx, asked)
	if err != nil {
		return err
	}
	release := context.AfterFunc(ctx, func() { _ = l.stream.Close() })
	defer release()
	if err = causeOf(ctx, receive(l, w)); err != nil {
		err = fmt.Errorf("%s %s: %w", asked.Verb, asked.Dir, err)
	}
	return errors.Join(err, l.stream.Close())
}

// Find writes what is at an absolute path of the container to w, as a tar of that one entry, or
// an empty tar if nothing is there. No link is followed: a link on the way is written in place of
// what it leads to. The guest may send any bytes.
func (g *Guest) Find(ctx context.Context, path string, w io.Writer) error {
	return g.fetch(ctx, request{Verb: "find", Dir: path}, w)
}

// receive copies data messages to w until the end of data.
func receive(l *link, w io.Writer) error {
	for {
		k, p, err := l.message()
		switch {
		case err != nil:
			return err
		case k == kindEOF:
			return nil
		case k == kindError:
			return errors.New(string(p))
		case k != kindData:
			return l.breach(fmt.Errorf("%w: message kind %d in data", ErrProtocol, k))
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
}

// Exec starts a program in the container. With sole, everything else in the
// container ends when it does. It runs on when ctx ends; Signal ends it.
func (g *Guest) Exec(ctx context.Context, spec process.Spec, sole bool) (process.Process, error) {
	return g.exec(ctx, request{Args: spec.Args, Env: spec.Env, Dir: spec.Dir, First: spec.PathFirst, Sole: sole})
}

func (g *Guest) exec(ctx context.Context, req request) (process.Process, error) {
	req.Verb = "exec"
	l, r, err := g.begin(ctx, req)
	if err != nil {
		return nil, err
	}
	return newRemote(g, r.PID, l), nil
}

// onlyReader hides a WriterTo, whose chunks may be of any size.
type onlyReader struct{ io.Reader }
