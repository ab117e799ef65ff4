package client

import (
	"cmp"
	"context"
	"fmt"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// linesConn is a conversation with a process or over HTTP+SSE.
type linesConn struct {
	*options
	lines *transport.Lines
	said  chan []byte // lines from the server
	left  chan struct{}
	// release ends the process's context after close has ended the process.
	release context.CancelFunc
}

// openLines starts a conversation with the process that launch starts; nil means the
// server's own launcher, with retries while a server on HTTP+SSE may still be starting.
func openLines(ctx context.Context, o *options, launch transport.Launcher) (conn, error) {
	// Memory for reading one message and parsing another, including buffer growth.
	memory := bounded.NewBudget(4 * o.server.Message)
	if launch == nil {
		launch = o.patiently(o.server.Launcher(memory))
	}
	c := &linesConn{options: o, said: make(chan []byte), left: make(chan struct{})}
	life, release := context.WithCancel(context.WithoutCancel(ctx))
	c.release = release
	starting := context.AfterFunc(ctx, release)
	var err error
	c.lines, err = transport.Open(life, o.server, launch, transport.Handler{
		Memory: memory,
		Stderr: transport.NewStderr(o.server.StderrSink(o.events, kindHealth)),
		Line:   c.line,
	})
	starting()
	switch {
	case err == nil:
		o.program = &c.lines.Program
		return c, nil
	case o.server.Upstream != nil:
		err = o.failure(ctx, err)
	default:
		err = o.fail(ErrNotStarted, err)
	}
	release()
	return nil, err
}

// patiently returns a launcher that retries while a server that speaks HTTP may still be
// starting.
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
	if err := c.log(evidence.ToClient, line); err != nil {
		return err
	}
	if _, _, err := jsonrpc.Hear(line); err != nil {
		_, _ = c.stray.Write(append(line, '\n'))
	}
	select {
	case c.said <- line:
	case <-c.left:
	}
	return nil
}

func (c *linesConn) ask(ctx context.Context, id, request string) (jsonrpc.Message, error) {
	if err := c.notify(ctx, request); err != nil {
		return jsonrpc.Message{}, err
	}
	other := ""
	for {
		select {
		case line := <-c.said:
			m, ok := answers(line, id)
			if ok {
				return m, nil
			}
			other = cmp.Or(stray(m, id), other)
			if reply := c.reply(line); reply != "" {
				_ = c.notify(ctx, reply)
			}
		case <-c.program.Gone():
			return jsonrpc.Message{}, c.exited()
		case <-ctx.Done():
			why := context.Cause(ctx)
			if other != "" {
				why = fmt.Errorf("%w; %s", why, other)
			}
			return jsonrpc.Message{}, c.fail(ErrNoAnswer, why)
		}
	}
}

// notify writes a message. Failures show up as the end of the process or a timeout.
func (c *linesConn) notify(ctx context.Context, message string) error {
	_ = c.log(evidence.ToServer, []byte(message))
	_ = c.lines.Send(ctx, []byte(message))
	return nil
}

func (c *linesConn) unasked() <-chan []byte { return c.said }

func (c *linesConn) close() {
	close(c.left)
	c.lines.Stop()
	<-c.lines.Gone()
	c.release()
}
