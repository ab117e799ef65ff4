package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

const (
	// stopGrace is the time between SIGTERM and SIGKILL.
	stopGrace = 2 * time.Second
	// killGrace is how long to wait after SIGKILL.
	killGrace = 10 * time.Second
	// portCheck bounds checking whether a port is in use.
	portCheck = 2 * time.Second
)

var (
	errClosed = errors.New("the sandbox is closed")
	// errUnseen means that the resource usage is not known.
	errUnseen = errors.New("what processes of the machine use is known once they have ended")
)

// trialSandbox is the directory, processes and listeners of one trial. It implements
// sandbox.Sandbox. Its containers end with Close.
//
// Planned paths are below the directory: /workspace is DIR/workspace.
type trialSandbox struct {
	backend *Backend
	spec    *sandbox.Spec
	dir     string
	root    *os.Root // dir, even if programs move it

	mu        sync.Mutex
	closed    bool           // guarded by mu
	programs  []*program     // started programs; guarded by mu
	listeners []net.Listener // guarded by mu
	models    string         // base URL of models; guarded by mu

	usedMu sync.Mutex
	used   map[string]time.Duration // CPU time of programs that have exited, by container; guarded by usedMu

	closeOnce sync.Once
	closeErr  error
}

var _ interface {
	sandbox.Sandbox
	sandbox.PortSharer
} = (*trialSandbox)(nil)

// planned returns the planned directories in the agent's container.
func planned() []string {
	return []string{sandbox.WorkspaceDir, sandbox.HomeDir, filepath.Dir(sandbox.MCPConfigPath)}
}

func (b *Backend) newSandbox(t *sandbox.Spec) (_ *trialSandbox, err error) {
	s := &trialSandbox{backend: b, spec: t, used: map[string]time.Duration{}}
	if s.dir, s.root, err = b.dir.makeDir(fmt.Sprintf("%s-%d", t.Task, t.Number)); err != nil {
		return nil, err
	}
	for _, dir := range planned() {
		err = errors.Join(err, s.root.MkdirAll(inRoot(dir), 0o700))
	}
	if agent := t.Container(sandbox.Agent); err == nil && agent != nil {
		err = s.root.WriteFile(inRoot(sandbox.MCPConfigPath), []byte(agent.MCPConfig), 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, s.removeDir())
	}
	return s, nil
}

// inRoot returns a planned path relative to the sandbox's directory.
func inRoot(planned string) string { return strings.TrimPrefix(filepath.Clean(planned), "/") }

// Layout implements sandbox.Sandbox. Programs keep their HOME, which contains an agent's
// credentials and a server's settings.
func (s *trialSandbox) Layout(container string) sandbox.Layout {
	l := sandbox.Layout{Guest: s.backend.executable}
	if container == sandbox.Agent {
		l.Workspace = s.dir + sandbox.WorkspaceDir
		l.MCPConfig = s.dir + sandbox.MCPConfigPath
		l.Private = s.dir + sandbox.HomeDir
		s.mu.Lock()
		defer s.mu.Unlock()
		l.Models = s.models
	}
	return l
}

// Listen implements sandbox.Sandbox. Every server, and the models, have their own port. If possible
// it is the same port as in the last call, since a hook may have stored the address for the agent.
func (s *trialSandbox) Listen(ctx context.Context) (places []sandbox.Endpoint, err error) {
	defer func() {
		if err != nil {
			for _, place := range places {
				_ = place.Close()
			}
			places = nil
		}
	}()
	reached := s.spec.From(sandbox.Agent)
	s.mu.Lock()
	last := s.listeners[max(0, len(s.listeners)-len(reached)):]
	s.mu.Unlock()
	for i, e := range reached {
		at, anew := "127.0.0.1:0", len(last) <= i
		if !anew {
			at = last[i].Addr().String()
		}
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
		if err != nil && !anew {
			ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		}
		if err != nil {
			return places, err
		}
		places = append(places, sandbox.Endpoint{Listener: ln, Server: e.To, Host: ln.Addr().String()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return places, errClosed
	}
	for _, place := range places {
		s.listeners = append(s.listeners, place.Listener)
		if place.Server == sandbox.ModelHost {
			s.models = "http://" + place.Host
		}
	}
	return places, nil
}

// Dial implements sandbox.Sandbox.
func (s *trialSandbox) Dial(ctx context.Context, server string, port int) (net.Conn, error) {
	if err := s.check(server); err != nil {
		return nil, err
	}
	return dialLoopback(ctx, port)
}

// dialLoopback connects to a port of this machine, over IPv4 or IPv6.
func dialLoopback(ctx context.Context, port int) (net.Conn, error) {
	var errs []error
	for _, loopback := range []string{"127.0.0.1", "::1"} {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// Enter implements sandbox.Sandbox.
func (s *trialSandbox) Enter(string) string { return "cd " + s.dir + sandbox.WorkspaceDir }

// Start implements sandbox.Sandbox. When the agent exits, all of its processes that can be found
// are killed.
func (s *trialSandbox) Start(ctx context.Context, container string, spec process.Spec) (process.Process, error) {
	if err := s.check(container); err != nil {
		return nil, err
	}
	if len(spec.Args) == 0 {
		return nil, fmt.Errorf("server %q has only an image: it needs --isolate, or a command to run on this machine", container)
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	mark := s.mark(container)
	p, err := s.backend.launch(spec, mark, func(state *os.ProcessState) {
		s.spent(container, state)
		if container == sandbox.Agent {
			killMarked(mark)
		}
	})
	if err != nil {
		return nil, err
	}
	s.programs = slices.DeleteFunc(s.programs, (*program).over)
	s.programs = append(s.programs, p)
	return p, nil
}

// Put implements sandbox.Sandbox.
func (s *trialSandbox) Put(ctx context.Context, container, dir string, tar io.Reader) error {
	if err := s.check(container); err != nil {
		return err
	}
	if container != sandbox.Agent {
		return fmt.Errorf("files of server %q need --isolate", container)
	}
	root, err := s.root.OpenRoot(filepath.Join(".", inRoot(dir)))
	if err != nil {
		return fmt.Errorf("put %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }()
	takes := func(name string) bool {
		at := filepath.Join("/", dir, name)
		return slices.ContainsFunc(planned(), func(p string) bool { return strings.HasPrefix(at+"/", p+"/") })
	}
	if err := tree.Unpack(root, interruptible{ctx, tar}, takes); err != nil {
		return fmt.Errorf("put %s: %w", dir, err)
	}
	return nil
}

// Collect implements sandbox.Sandbox.
func (s *trialSandbox) Collect(ctx context.Context, container, dir string, w io.Writer) error {
	if err := s.check(container); err != nil {
		return err
	}
	if container != sandbox.Agent || !slices.ContainsFunc(planned(), func(p string) bool { return strings.HasPrefix(dir+"/", p+"/") }) {
		return fmt.Errorf("get %s: there is no such place in %s", dir, container)
	}
	s.backend.dir.reopen(s.dir)
	err := tree.Pack(s.root, inRoot(dir), s.Layout(container).Ours(), interruptibleWriter{ctx, w})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("get %s: %w: %w", dir, sandbox.ErrUnreadable, err)
	case err != nil:
		return fmt.Errorf("get %s: %w", dir, err)
	}
	return nil
}

// check returns an error if the sandbox is closed or has no such container.
func (s *trialSandbox) check(container string) error {
	if s.spec.Container(container) == nil {
		return fmt.Errorf("trial has no process %q", container)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return nil
}

// mark returns the mark of a container's processes. With an empty name, it is the common prefix
// of all marks.
func (s *trialSandbox) mark(container string) string { return s.dir + ":" + container }

// spent adds the CPU time of a program that has exited.
func (s *trialSandbox) spent(container string, state *os.ProcessState) {
	if state == nil {
		return
	}
	s.usedMu.Lock()
	defer s.usedMu.Unlock()
	s.used[container] += state.UserTime() + state.SystemTime()
}

// Usage implements sandbox.Sandbox. Only the CPU time is known, because the peak memory of
// processes cannot be summed up.
func (s *trialSandbox) Usage(_ context.Context, container string) (evidence.Usage, error) {
	s.usedMu.Lock()
	defer s.usedMu.Unlock()
	spent, known := s.used[container]
	if !known {
		return evidence.Usage{}, errUnseen
	}
	seconds := float64(spent) / float64(time.Second)
	return evidence.Usage{CPU: &seconds}, nil
}

// Gone implements sandbox.Sandbox.
func (s *trialSandbox) Gone(string) <-chan struct{} { return nil }

// Ended implements sandbox.Sandbox.
func (s *trialSandbox) Ended(context.Context, string) sandbox.Exit { return sandbox.Exit{} }

// Hint implements sandbox.Sandbox.
func (s *trialSandbox) Hint(string) string { return "" }

// TakePort implements sandbox.PortSharer. A port of this machine can only be used by one
// server, and no other program may listen on it.
func (s *trialSandbox) TakePort(ctx context.Context, server string, port int) error {
	if err := s.check(server); err != nil {
		return err
	}
	if err := s.backend.ports.take(port, portOwner{s, server}); err != nil {
		return fmt.Errorf("port %d of this machine is taken: %w; give each a port of its own, or use --isolate", port, err)
	}
	ctx, cancel := context.WithTimeout(ctx, portCheck)
	defer cancel()
	if conn, err := dialLoopback(ctx, port); err == nil {
		_ = conn.Close()
		return fmt.Errorf("port %d of this machine is taken: another program listens there; end that, or give the server another port", port)
	}
	return nil
}

// title returns the sandbox's name for messages.
func (s *trialSandbox) title() string {
	if s.spec.Lifetime == sandbox.LifeOfRun {
		return "the run"
	}
	return fmt.Sprintf("%s/%d", s.spec.Task, s.spec.Number)
}

// Guarantees implements sandbox.Sandbox.
func (s *trialSandbox) Guarantees() evidence.Guarantees {
	return evidence.Guarantees{
		Backend:  "process",
		Network:  sandbox.NetworkNone,
		Enforced: []string{"the process group of every program ends with its trial, or with the run where that is how long a server lives"},
		Missing: []string{
			"nothing was isolated: agent and servers ran as processes of the user, with the user's files, network, environment and credentials",
			"any program of this machine could reach the servers on loopback",
			straysMissing,
		},
	}
}

// Close implements sandbox.Sandbox.
func (s *trialSandbox) Close(ctx context.Context) error {
	s.closeOnce.Do(func() { s.closeErr = s.close(ctx) })
	return s.closeErr
}

func (s *trialSandbox) close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	programs, listeners := s.programs, s.listeners
	s.mu.Unlock()
	for _, ln := range listeners {
		_ = ln.Close()
	}
	for _, p := range programs {
		p.markLost()
	}
	var stopping sync.WaitGroup
	for _, p := range programs {
		stopping.Go(func() {
			process.Stop(ctx, p, p.ended, process.Step{Signal: process.Terminate, Grace: stopGrace}, process.Step{Signal: process.Kill, Grace: killGrace})
		})
	}
	stopping.Wait()
	killMarked(s.mark(""))
	var errs []error
	for _, p := range programs {
		p.cut()
		if !process.IsClosed(p.ended) {
			errs = append(errs, fmt.Errorf("process %d does not end after SIGKILL", p.proc.Pid))
		}
	}
	s.backend.ports.leave(s)
	return errors.Join(append(errs, s.removeDir())...)
}

// removeDir removes the sandbox's directory.
func (s *trialSandbox) removeDir() error {
	s.backend.dir.reopen(s.dir)
	err := errors.Join(s.root.Close(), removeTree(s.dir))
	if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.EROFS) {
		return fmt.Errorf("%w: %w", sandbox.ErrLeft, err)
	}
	return err
}

// interruptible is a reader that fails when its context is done.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.r.Read(p)
}

// interruptibleWriter is a writer that fails when its context is done.
type interruptibleWriter struct {
	ctx context.Context
	w   io.Writer
}

func (i interruptibleWriter) Write(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.w.Write(p)
}

// ports are the ports of this machine that servers of the run use.
type ports struct {
	mu     sync.Mutex
	owners map[int]portOwner // guarded by mu
}

type portOwner struct {
	sandbox *trialSandbox
	server  string
}

// take reserves a port for a server. The error names the owner.
func (p *ports) take(port int, by portOwner) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if owner, taken := p.owners[port]; taken {
		return fmt.Errorf("server %q of %s has it", owner.server, owner.sandbox.title())
	}
	if p.owners == nil {
		p.owners = map[int]portOwner{}
	}
	p.owners[port] = by
	return nil
}

// leave releases the ports of a sandbox.
func (p *ports) leave(s *trialSandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for port, owner := range p.owners {
		if owner.sandbox == s {
			delete(p.owners, port)
		}
	}
}
