package proxy

import (
	"context"
	"errors"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/sandbox/process"
)

// processTalk is a probe's conversation with a process of its own.
type processTalk struct {
	*prober
	child *child
	log   *bounded.Ends
	lines chan []byte // of stdout
	end   ending      // set before child.gone closes
}

// askProcess starts a process, asks it, and sees it off.
func (p *prober) askProcess(ctx context.Context, era Era) (ServerInfo, error) {
	t, leave, err := p.converse(ctx, p.server.launcher(p.message(), p.budget()))
	if err != nil {
		return ServerInfo{}, err
	}
	defer leave()
	return p.handshake(ctx, era, t)
}

// converse begins a conversation with the process that launch starts. leave sees it
// off, and returns when it has ended.
func (p *prober) converse(ctx context.Context, launch Launcher) (_ *processTalk, leave func(), err error) {
	t := &processTalk{prober: p, log: newStderr(p.sink), lines: make(chan []byte)}
	// The process outlives ctx by the time it takes to see it off.
	life, release := context.WithCancel(context.WithoutCancel(ctx))
	starting := context.AfterFunc(ctx, release)
	left := make(chan struct{}) // closed when nobody listens any more
	child, err := startChild(life, childConfig{
		launch:  p.patiently(launch),
		starts:  p.server.Start,
		grace:   p.limits.Grace,
		message: p.message(),
		memory:  p.budget(),
		stderr:  t.log,
		line: func(line []byte) error {
			if err := p.heard(line); err != nil {
				return err
			}
			select {
			case t.lines <- line:
			case <-left:
			}
			return nil
		},
		ended: func(e ending) { t.end = e },
	})
	starting()
	if err != nil {
		release()
	}
	if err != nil && p.server.Upstream != nil {
		return nil, nil, (&httpProbe{prober: p, up: p.server.Upstream}).failure(ctx, err)
	}
	if err != nil {
		return nil, nil, t.fail(ErrNotStarted, err)
	}
	t.child = child
	return t, func() {
		close(left)
		child.stop()
		<-child.gone
		release()
	}, nil
}

// patiently opens sessions with a server over HTTP+SSE that may still be starting.
func (p *prober) patiently(open Launcher) Launcher {
	if p.server.Upstream == nil {
		return open
	}
	h := &httpProbe{prober: p, up: p.server.Upstream}
	return func(ctx context.Context) (session process.Process, err error) {
		err = h.retry(ctx, func() error {
			session, err = open(ctx)
			return err
		})
		return session, err
	}
}

// ask takes the first line that answers. Whatever else a server says is its own
// affair.
func (t *processTalk) ask(ctx context.Context, request string, _ bool) ([]byte, error) {
	if err := t.tell(ctx, request); err != nil {
		return nil, err
	}
	for {
		select {
		case line := <-t.lines:
			if isAnswer(line, request) {
				return line, nil
			}
			t.refuse(ctx, line)
		case <-t.child.gone:
			return nil, &ProbeError{
				Server: t.server.Name, Class: ErrExited, Cause: errors.New(t.end.String()), Exit: t.end.known(), Stderr: t.log.String(),
			}
		case <-ctx.Done():
			return nil, t.fail(ErrNoAnswer, context.Cause(ctx))
		}
	}
}

// tell writes a message. Where that fails the process ends, or time does.
func (t *processTalk) tell(ctx context.Context, message string) error {
	t.asked(message)
	_ = t.child.send(ctx, []byte(message))
	return nil
}

func (t *processTalk) fail(class, cause error) error {
	return &ProbeError{Server: t.server.Name, Class: class, Cause: cause, Stderr: t.log.String()}
}

// refuse answers what the server asks of the runner, where that is to be refused.
func (t *processTalk) refuse(ctx context.Context, line []byte) {
	if no := t.refusalOf(line); no != nil {
		_ = t.tell(ctx, string(no))
	}
}

// listen hears the server until ctx ends, which is no error, or the process does.
func (t *processTalk) listen(ctx context.Context) error {
	for {
		select {
		case line := <-t.lines:
			t.refuse(ctx, line)
		case <-t.child.gone:
			return errors.New(t.end.String())
		case <-ctx.Done():
			return nil
		}
	}
}

func (e ending) known() *process.Exit {
	if e.err != nil {
		return nil
	}
	return &e.exit
}
