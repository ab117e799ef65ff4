package client

import (
	"context"
	"errors"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// linesConn is a conversation with a process, or over HTTP+SSE.
type linesConn struct {
	*options
	lines  *transport.Lines
	stderr *bounded.Ends
	heard  chan []byte // what the server says
	left   chan struct{}
	end    transport.Ending // set before lines.Gone closes
	// release ends the process: it outlives the context that it was opened with by the time
	// that it takes to see it off.
	release context.CancelFunc
}

// openLines opens a conversation with what launch starts; nil is the server's own launcher. A
// server over HTTP+SSE is asked again while it may still be starting.
func openLines(ctx context.Context, o *options, launch transport.Launcher) (conn, error) {
	// For one message that is read, one that is looked at, and what growing costs.
	memory := bounded.NewBudget(4 * o.server.Message)
	if launch == nil {
		launch = o.patiently(o.server.Launcher(memory))
	}
	c := &linesConn{
		options: o, heard: make(chan []byte), left: make(chan struct{}),
		stderr: transport.NewStderr(o.server.StderrSink(o.events, kindHealth)),
	}
	life, release := context.WithCancel(context.WithoutCancel(ctx))
	c.release = release
	starting := context.AfterFunc(ctx, release)
	var err error
	c.lines, err = transport.Open(life, o.server, launch, transport.Handler{
		Memory: memory,
		Stderr: c.stderr,
		Line:   c.line,
		Ended:  func(e transport.Ending) { c.end = e },
	})
	starting()
	switch {
	case err == nil:
		return c, nil
	case o.server.Upstream != nil:
		err = o.failure(ctx, err)
	default:
		err = c.fail(ErrNotStarted, err)
	}
	release()
	return nil, err
}

// patiently returns a launcher that tries again while a server over HTTP may still be starting.
func (o *options) patiently(launch transport.Launcher) transport.Launcher {
	if o.server.Upstream == nil {
		return launch
	}
	return func(ctx context.Context) (session process.Process, err error) {
		err = o.retry(ctx, func() error {
			session, err = launch(ctx)
			return err
		})
		return session, err
	}
}

func (c *linesConn) line(line []byte) error {
	if err := c.log.received(line); err != nil {
		return err
	}
	select {
	case c.heard <- line:
	case <-c.left:
	}
	return nil
}

func (c *linesConn) ask(ctx context.Context, id, request string) (jsonrpc.Message, error) {
	if err := c.tell(ctx, request); err != nil {
		return jsonrpc.Message{}, err
	}
	for {
		select {
		case line := <-c.heard:
			if m, ok := answers(line, id); ok {
				return m, nil
			}
			c.answer(ctx, line)
		case <-c.lines.Gone():
			return jsonrpc.Message{}, &Error{
				Server: c.server.Name, Class: ErrExited, Cause: errors.New(c.end.String()), Exit: c.end.Known(), Stderr: c.stderr.String(),
			}
		case <-ctx.Done():
			return jsonrpc.Message{}, c.fail(ErrNoAnswer, context.Cause(ctx))
		}
	}
}

// tell writes a message. Where that fails the process ends, or time does.
func (c *linesConn) tell(ctx context.Context, message string) error {
	c.log.sent([]byte(message))
	_ = c.lines.Send(ctx, []byte(message))
	return nil
}

func (c *linesConn) answer(ctx context.Context, line []byte) {
	if reply := c.reply(line); reply != "" {
		_ = c.tell(ctx, reply)
	}
}

func (c *linesConn) listen(ctx context.Context) error {
	for {
		select {
		case line := <-c.heard:
			c.answer(ctx, line)
		case <-c.lines.Gone():
			return errors.New(c.end.String())
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *linesConn) fail(class, cause error) error {
	return &Error{Server: c.server.Name, Class: class, Cause: cause, Stderr: c.stderr.String()}
}

func (c *linesConn) close() {
	close(c.left)
	c.lines.Stop()
	<-c.lines.Gone()
	c.release()
}
