package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/internal/tree"
	"github.com/waza-isolate/waza/runner/plan"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/process"
)

// trialSandbox is one trial's directory, processes and listeners. It implements
// sandbox.Sandbox.
//
// The directory has the places of a plan at the paths that plans know: the
// workspace of /workspace is DIR/workspace.
type trialSandbox struct {
	backend *Backend
	trial   *plan.Trial
	dir     string
	root    *os.Root // dir, wherever programs move it
	gone    chan struct{}

	mu        sync.Mutex
	closed    bool           // guarded by mu
	programs  []*program     // that were started; guarded by mu
	listeners []net.Listener // guarded by mu
	models    string         // where models are found; guarded by mu

	usedMu sync.Mutex
	used   map[string]time.Duration // CPU time of what has ended, by container; guarded by usedMu

	closeOnce sync.Once
	closeErr  error
}

// planned are the places of a plan, all in the agent's container.
func planned() []string {
	return []string{sandbox.WorkspaceDir, sandbox.HomeDir, filepath.Dir(sandbox.MCPConfigPath)}
}

func (b *Backend) newSandbox(t *plan.Trial) (_ *trialSandbox, err error) {
	s := &trialSandbox{backend: b, trial: t, gone: make(chan struct{}), used: map[string]time.Duration{}}
	if s.dir, s.root, err = b.claim.makeDir(fmt.Sprintf("%s-%d", t.Task, t.Number)); err != nil {
		return nil, err
	}
	for _, dir := range planned() {
		err = errors.Join(err, s.root.MkdirAll(inRoot(dir), 0o700))
	}
	if err == nil {
		err = s.root.WriteFile(inRoot(sandbox.MCPConfigPath), []byte(t.MCPJSON), 0o644)
	}
	if err != nil {
		return nil, errors.Join(err, s.removeDir())
	}
	return s, nil
}

// inRoot is a planned path as a path in the sandbox's directory.
func inRoot(planned string) string { return strings.TrimPrefix(filepath.Clean(planned), "/") }

// Layout implements sandbox.Sandbox. Programs keep the home they have: an agent's
// credentials and a server's settings are there.
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

// Listen implements sandbox.Sandbox: every server is at a port of its own, and so
// are the models.
func (s *trialSandbox) Listen(ctx context.Context) (places []sandbox.Endpoint, err error) {
	defer func() {
		if err != nil {
			for _, place := range places {
				_ = place.Close()
			}
			places = nil
		}
	}()
	for _, name := range s.names() {
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return places, err
		}
		places = append(places, sandbox.Endpoint{Listener: ln, Server: name, Host: ln.Addr().String()})
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

// names are those that the agent finds something under.
func (s *trialSandbox) names() []string {
	var all []string
	for _, server := range s.trial.Servers {
		all = append(all, server.Name)
	}
	if s.trial.AsksRunner() {
		all = append(all, sandbox.ModelHost)
	}
	return all
}

// Dial implements sandbox.Sandbox.
func (s *trialSandbox) Dial(ctx context.Context, server string, port int) (net.Conn, error) {
	if err := s.check(server); err != nil {
		return nil, err
	}
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

// Gone is closed when the sandbox has ended: a container does not end before.
func (s *trialSandbox) Gone(string) <-chan struct{} { return s.gone }

// Ended implements sandbox.Sandbox: a container stands until Close.
func (s *trialSandbox) Ended(context.Context, string) sandbox.Exit { return sandbox.Exit{} }

// Directory is where everything of the sandbox is, for a person to look at.
func (s *trialSandbox) Directory() string { return s.dir }

// Start implements sandbox.Sandbox. What the agent starts ends with it, as far as
// it can be found.
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
	p, err := s.launch(container, spec)
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
	root, err := s.root.OpenRoot(inRoot(dir))
	if err != nil {
		return fmt.Errorf("get %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }()
	if err := tree.Pack(root, s.Layout(container).Ours(), interruptibleWriter{ctx, w}); err != nil {
		return fmt.Errorf("get %s: %w", dir, err)
	}
	return nil
}

// check says whether the trial has a container and still stands.
func (s *trialSandbox) check(container string) error {
	known := container == sandbox.Agent || slices.ContainsFunc(s.trial.Servers, func(server plan.Server) bool { return server.Name == container })
	if !known {
		return fmt.Errorf("trial has no process %q", container)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return nil
}

var errClosed = errors.New("the sandbox is closed")

// interruptible reads until its context ends.
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

// interruptibleWriter writes until its context ends.
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
