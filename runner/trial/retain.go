package trial

import (
	"context"
	"io"
	"sync"

	"github.com/waza-isolate/waza/mcp/client"
	"github.com/waza-isolate/waza/mcp/jsonrpc"
	"github.com/waza-isolate/waza/mcp/proxy"
	"github.com/waza-isolate/waza/mcp/transport"
	"github.com/waza-isolate/waza/sandbox/process"
)

// retainer starts the processes of a stdio server for the agent's sessions, and keeps the
// newest one after its session, so that graders can query its state. At the end of this second
// session the process's stdin is closed, and it is not used again.
type retainer struct {
	server proxy.Server // the server that the processes belong to

	mu     sync.Mutex
	newest *retainedProcess // guarded by mu
	leave  sync.WaitGroup   // replaced processes; Add guarded by mu
}

// retaining returns s with its processes retained.
func retaining(s proxy.Server) (proxy.Server, *retainer) {
	r := &retainer{server: s}
	s.Launch = r.launch
	return s, r
}

// launch implements [transport.Launcher].
func (r *retainer) launch(ctx context.Context) (process.Process, error) {
	proc, err := r.server.Launch(ctx)
	if err != nil {
		return nil, err
	}
	p := &retainedProcess{Process: proc, retainer: r, left: make(chan struct{}), gone: make(chan struct{})}
	p.stdout, p.stderr = newRelayed(proc.Stdout()), newRelayed(proc.Stderr())
	go p.waitExit()
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.newest; old != nil && process.IsClosed(old.left) {
		r.leave.Go(func() { r.closeRetained(old) })
	}
	r.newest = p
	return p, nil
}

// take returns the newest process if its session is over or it has exited, else nil. The caller
// must end it.
func (r *retainer) take() *retainedProcess {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.newest
	if p == nil || !process.IsClosed(p.left) && !process.IsClosed(p.gone) {
		return nil
	}
	r.newest = nil
	return p
}

// resume opens a session that continues the agent's session with p.
func (r *retainer) resume(ctx context.Context, p *retainedProcess) (*client.Session, error) {
	r.mu.Lock()
	era := p.era
	r.mu.Unlock()
	return client.Continue(ctx, r.server.Server, resumed{p}, era)
}

func (r *retainer) closeRetained(p *retainedProcess) {
	if q, err := r.resume(context.Background(), p); err == nil {
		q.Close()
	}
}

// close ends the retained process, and waits for those that it replaced.
func (r *retainer) close() {
	if p := r.take(); p != nil {
		r.closeRetained(p)
	}
	r.leave.Wait()
}

// retainedProcess is a process that outlives its first session.
type retainedProcess struct {
	process.Process
	retainer       *retainer
	stdout, stderr *relayedOutput
	era            client.Era // of the first session; guarded by retainer.mu

	leaving sync.Once
	left    chan struct{} // closed when the first session is over and the process is kept
	gone    chan struct{} // closed when the process has exited and its output is complete

	// Valid after gone is closed.
	exit process.Exit
	err  error
}

func (p *retainedProcess) waitExit() {
	defer close(p.gone)
	p.exit, p.err = p.Process.Wait()
	<-p.stdout.over
	<-p.stderr.over
}

func (p *retainedProcess) Stdin() io.WriteCloser { return retainedStdin{p} }

func (p *retainedProcess) Stdout() io.Reader { return &relayReader{from: p.stdout, until: p.left} }

func (p *retainedProcess) Stderr() io.Reader { return &relayReader{from: p.stderr, until: p.left} }

// Wait implements process.Process for the first session.
func (p *retainedProcess) Wait() (process.Exit, error) {
	select {
	case <-p.gone:
		return p.exit, p.err
	case <-p.left:
		return process.Exit{}, transport.ErrRetained
	}
}

// begin detects the protocol era from the first message.
func (p *retainedProcess) begin(message []byte) {
	p.retainer.mu.Lock()
	defer p.retainer.mu.Unlock()
	if p.era != "" {
		return
	}
	p.era = client.EraStateless
	if m, err := jsonrpc.ReadOne(message); err == nil && m.Method == "initialize" {
		p.era = client.EraSessions
	}
}

// leave ends the first session, and closes the process's stdin unless it is the newest.
func (p *retainedProcess) leave() (err error) {
	p.leaving.Do(func() {
		p.retainer.mu.Lock()
		defer p.retainer.mu.Unlock()
		if p.retainer.newest == p && !process.IsClosed(p.gone) {
			close(p.left)
			return
		}
		err = p.Process.Stdin().Close()
	})
	return err
}

// retainedStdin is the stdin of a first session.
type retainedStdin struct{ p *retainedProcess }

func (s retainedStdin) Write(b []byte) (int, error) {
	s.p.begin(b)
	return s.p.Process.Stdin().Write(b)
}

func (s retainedStdin) Close() error { return s.p.leave() }

// resumed is a retained process in its second session.
type resumed struct{ *retainedProcess }

func (r resumed) Stdin() io.WriteCloser { return r.Process.Stdin() }

func (r resumed) Stdout() io.Reader { return &relayReader{from: r.stdout} }

func (r resumed) Stderr() io.Reader { return &relayReader{from: r.stderr} }

func (r resumed) Wait() (process.Exit, error) {
	<-r.gone
	return r.exit, r.err
}

// relayedOutput is an output that is read by one reader after another.
type relayedOutput struct {
	chunks chan []byte
	over   chan struct{} // closed at the end of the output
}

func newRelayed(from io.Reader) *relayedOutput {
	r := &relayedOutput{chunks: make(chan []byte), over: make(chan struct{})}
	go func() {
		defer close(r.over)
		_, _ = io.Copy(r, from)
	}()
	return r
}

// Write returns when a reader has taken b.
func (r *relayedOutput) Write(b []byte) (int, error) {
	r.chunks <- append([]byte(nil), b...)
	return len(b), nil
}

// relayReader reads from an output until its end or until a channel is closed.
type relayReader struct {
	from  *relayedOutput
	until <-chan struct{} // nil to read to the end
	rest  []byte
}

func (r *relayReader) Read(b []byte) (int, error) {
	if len(r.rest) == 0 {
		select {
		case r.rest = <-r.from.chunks:
		case <-r.from.over:
			return 0, io.EOF
		case <-r.until:
			return 0, io.EOF
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
