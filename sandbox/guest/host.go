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

// Guest is the runner's end of the session with process 1 of a container.
type Guest struct {
	pipe    *yamux.Session // over the container's stdin and stdout; the container ends with it
	sockets *sockets       // for requests; nil if they use pipe
	hello   Hello
	inbound chan struct{} // semaphore for streams opened by the guest, and for spare sockets
	pulse   pulse         // of pipe

	mu       sync.Mutex
	accepts  map[uint64]*listener // guarded by mu
	lastID   uint64               // guarded by mu
	reason   error                // why the session ended; guarded by mu
	closed   bool                 // Close was called before it ended; guarded by mu
	done     chan struct{}        // closed when reason is set
	incoming sync.WaitGroup

	listening sync.Once // starts serveSpares
}

// Connect starts the session over pipe, the container's stdin and stdout, and waits for the
// guest's hello. If the guest has connected to ln, which may be nil, the runner passes it a
// socket for each request over that connection. The pipe then only carries pings, so that the
// container still ends if the engine dies or freezes. Connect takes ownership of both, even if
// it fails.
func Connect(ctx context.Context, pipe io.ReadWriteCloser, ln *net.UnixListener) (*Guest, error) {
	if ln != nil {
		defer func() { _ = ln.Close() }()
	}
	g := &Guest{accepts: make(map[uint64]*listener), inbound: make(chan struct{}, inboundLimit()), done: make(chan struct{})}
	session, err := yamux.Client(newGuard(&frameJoiner{ReadWriteCloser: pipe}, g.ended), muxConfig(patience))
	if err != nil {
		return nil, errors.Join(err, pipe.Close())
	}
	g.pipe, g.pulse.last = session, time.Now()
	g.incoming.Go(func() { g.serveIncoming(session) })
	g.incoming.Go(func() { watchPulse(session, g.pulse.beat, g.giveUp) })
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
	// patience is how long a guest may block writes.
	patience = 8 * time.Second
	// acceptTimeout bounds waiting for the connection of a guest that claims to have connected.
	acceptTimeout = 5 * time.Second
)

// useSocket uses sockets for requests. They are passed over the first connection to ln. The
// sockets, the pipe and that connection are all closed when one of them ends.
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

// Hello returns the guest's description of its container when it was connected.
func (g *Guest) Hello() Hello { return g.hello }

// Done returns a channel that is closed when the session, and with it the container, ends.
// After a protocol violation, it is closed before other uses of the session fail.
func (g *Guest) Done() <-chan struct{} { return g.done }

// Err returns why the session ended by itself: the guest exited, or violated the protocol,
// which is [ErrProtocol]. It returns nil before that, and after [Guest.Close].
func (g *Guest) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	return g.reason
}

// ended sets the reason, unless it is set.
func (g *Guest) ended(reason error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == nil {
		g.reason = reason
		close(g.done)
	}
}

// giveUp ends the session of a guest that violated the protocol or does not answer.
func (g *Guest) giveUp(err error) {
	g.ended(err)
	_ = g.pipe.Close()
}

// Ping waits for an answer of process 1.
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

// StoodStill reports whether the pipe, which passes through the engine, has recently stood still
// for so long that other guests may have exited because of it.
func (g *Guest) StoodStill() bool { return g.pulse.stoodStill() }

// Close ends the session. The guest exits when that happens.
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

// openLink opens a stream for req. The stream is closed when ctx is done, until release is called.
func (g *Guest) openLink(ctx context.Context, req request) (*link, func() bool, error) {
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

// openStream opens a stream, or returns when ctx is done: both yamux and the socket block if
// the guest does not accept streams.
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
		return g.sockets.openStream(useRequest)
	}
	opened, err := g.pipe.OpenStream()
	return muxStream{opened}, err
}

// causeOf returns the error of ctx instead of an error that it caused.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// begin opens a stream for req and reads the reply. The stream stays open.
func (g *Guest) begin(ctx context.Context, req request) (*link, reply, error) {
	l, release, err := g.openLink(ctx, req)
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

// call sends a request whose stream ends with the reply.
func (g *Guest) call(ctx context.Context, req request) (reply, error) {
	l, r, err := g.begin(ctx, req)
	if err != nil {
		return r, err
	}
	return r, l.stream.Close()
}

// Dial connects to address ("host:port") from inside the container.
func (g *Guest) Dial(ctx context.Context, address string) (net.Conn, error) {
	l, r, err := g.begin(ctx, request{Verb: "dial", Addr: address})
	if err != nil {
		return nil, err
	}
	return newConn(l, r.Addr, address), nil
}

// Put unpacks a tar into the directory dir of the container. The guest rejects names that lead
// out of dir.
func (g *Guest) Put(ctx context.Context, dir string, tar io.Reader) error {
	l, release, err := g.openLink(ctx, request{Verb: "put", Dir: dir})
	if err != nil {
		return err
	}
	defer release()
	answer := make(chan error, 1)
	go func() {
		_, err := l.reply()
		l.stopWriting() // the guest reads no more
		answer <- err
	}()
	out := dataWriter{link: l, data: kindData, eof: kindEOF}
	_, copyErr := io.CopyBuffer(&out, onlyReader{tar}, make([]byte, maxPayload))
	copyErr = errors.Join(copyErr, out.Close())
	if copyErr != nil {
		_ = l.stream.SetReadDeadline(time.Now().Add(time.Second)) // for the guest's error, if it sent one
	}
	err = causeOf(ctx, errors.Join(<-answer, copyErr))
	_ = l.stream.Close()
	var why Refused
	switch {
	case errors.As(err, &why): // other errors are consequences
		return fmt.Errorf("put %s: %w", dir, why)
	case err != nil:
		return fmt.Errorf("put %s: %w", dir, err)
	}
	return nil
}

// Get writes the tree at dir in the container to w as a tar. Symbolic links are not followed.
// Links to a path in omit, and directories that contain nothing else, are left out. The tar is
// not trusted.
func (g *Guest) Get(ctx context.Context, dir string, omit []string, w io.Writer) error {
	return g.fetch(ctx, request{Verb: "get", Dir: dir, Omit: omit}, w)
}

// fetch writes the tar that a request returns to w.
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

// Find writes what is at an absolute path of the container to w, as a tar with that one entry,
// or an empty tar if there is nothing. Links are not followed: a link on the path is returned
// itself. The tar is not trusted.
func (g *Guest) Find(ctx context.Context, path string, w io.Writer) error {
	return g.fetch(ctx, request{Verb: "find", Dir: path}, w)
}

// receive copies data messages to w until EOF.
func receive(l *link, w io.Writer) error {
	for {
		k, p, err := l.message()
		switch {
		case err != nil:
			return err
		case k == kindEOF:
			return nil
		case k == kindError:
			return Refused(p)
		case k != kindData:
			return l.breach(fmt.Errorf("%w: message kind %d in data", ErrProtocol, k))
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
}

// Exec starts a program in the container. If sole is set, everything else in the container is
// killed when the program exits. The program does not end with ctx; use Signal.
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

// onlyReader hides WriterTo, which may write chunks of any size.
type onlyReader struct{ io.Reader }
