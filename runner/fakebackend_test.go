package runner

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/sandbox"
	"github.com/waza-isolate/waza/sandbox/observe"
	"github.com/waza-isolate/waza/sandbox/process"
)

// fakeBackend opens sandboxes in memory. Every act of the runner on one has a
// name, such as "put agent /workspace".
type fakeBackend struct {
	programs map[string]program // by container
	// on is called at an act, and fails it where it returns an error. Its number
	// counts acts of that name in the sandbox, from 1.
	on map[string]func(number int) error
	// collect stands in for a directory of the agent's container.
	collect map[string]func(w io.Writer) error
	// advice is what is special about its containers.
	advice map[string]string
	// used is what containers used; of others nothing can be seen.
	used map[string]evidence.Usage
	// usedBy is the same by sandbox, in place of used; nil for none.
	usedBy func(*sandbox.Spec) evidence.Usage
	// onTrial is called at an act after on; nil for none.
	onTrial func(act string, s *fakeSandbox) error
	// ready waits for a service; nil does not.
	ready func(ctx context.Context, failed func(string)) error
	// looks is how long it takes to find out how a container ended.
	looks time.Duration

	mu        sync.Mutex
	sandboxes []*fakeSandbox // guarded by mu
}

func (b *fakeBackend) Prepare(context.Context, []*sandbox.Spec, func(string)) error { return nil }

func (b *fakeBackend) Describe() map[string]string { return nil }

func (b *fakeBackend) Images() evidence.ImageRecords { return nil }

func (b *fakeBackend) Close(context.Context) error { return nil }

// fails makes an act fail, each time.
func fails(err error) func(int) error { return func(int) error { return err } }

func (b *fakeBackend) Open(_ context.Context, spec *sandbox.Spec, observe func(evidence.Event)) (sandbox.Sandbox, error) {
	s := &fakeSandbox{backend: b, spec: spec, observe: observe, files: map[string]fakeFile{}, gone: map[string]chan struct{}{}, endings: map[string]sandbox.Exit{}}
	if err := s.act("open"); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sandboxes = append(b.sandboxes, s)
	return s, nil
}

// opened are the sandboxes so far.
func (b *fakeBackend) opened() []*fakeSandbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sandboxes)
}

// fakeFile is a file or link in a container.
type fakeFile struct {
	content string
	link    string
}

type fakeSandbox struct {
	backend *fakeBackend
	spec    *sandbox.Spec
	observe func(evidence.Event)
	running sync.WaitGroup

	mu        sync.Mutex
	acts      []string            // guarded by mu
	files     map[string]fakeFile // of the agent's container, by absolute path; guarded by mu
	processes []*fakeProcess      // guarded by mu
	listener  *fakeListener       // guarded by mu

	gone    map[string]chan struct{} // by container; guarded by mu
	endings map[string]sandbox.Exit  // by container; guarded by mu
	closed  bool                     // guarded by mu
}

func (s *fakeSandbox) did(name string) (number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts = append(s.acts, name)
	for _, act := range s.acts {
		if act == name {
			number++
		}
	}
	return number
}

func (s *fakeSandbox) act(name string) error {
	number := s.did(name)
	if on := s.backend.on[name]; on != nil {
		return on(number)
	}
	if s.backend.onTrial != nil {
		return s.backend.onTrial(name, s)
	}
	return nil
}

func (s *fakeSandbox) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.acts)
}

// count is how often an act was done.
func (s *fakeSandbox) count(name string) (n int) {
	for _, act := range s.log() {
		if act == name {
			n++
		}
	}
	return n
}

func (s *fakeSandbox) Gone(container string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if gone, ok := s.gone[container]; ok {
		return gone
	}
	gone := make(chan struct{})
	s.gone[container] = gone
	if s.closed {
		close(gone)
	}
	return gone
}

func (s *fakeSandbox) Ended(ctx context.Context, container string) sandbox.Exit {
	select {
	case <-time.After(s.backend.looks):
	case <-ctx.Done():
		return sandbox.Exit{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endings[container]
}

// lose has a container end.
func (s *fakeSandbox) lose(container string, e sandbox.Exit) {
	s.Gone(container)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endings[container] = e
	close(s.gone[container])
}

func (s *fakeSandbox) Layout(string) sandbox.Layout { return sandbox.ContainerLayout() }

func (s *fakeSandbox) Hint(container string) string { return s.backend.advice[container] }

func (s *fakeSandbox) Enter(string) string { return "" }

func (s *fakeSandbox) Find(context.Context, string, string, io.Writer) error {
	return errors.New("nobody looks")
}

func (s *fakeSandbox) Observe(context.Context, string) (observe.Seen, error) {
	return observe.Seen{}, errors.New("nobody watches")
}

func (s *fakeSandbox) ListenAt(context.Context, string, netip.AddrPort) (net.Listener, error) {
	return nil, errors.New("nothing goes out")
}

func (s *fakeSandbox) Dial(context.Context, string, int) (net.Conn, error) {
	return nil, errors.New("nothing listens")
}

func (s *fakeSandbox) Listen(context.Context) ([]sandbox.Endpoint, error) {
	if err := s.act("listen"); err != nil {
		return nil, err
	}
	l := &fakeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listener = l
	return []sandbox.Endpoint{{Listener: l}}, nil
}

func (s *fakeSandbox) Start(_ context.Context, container string, spec process.Spec) (process.Process, error) {
	if err := s.act("start " + container); err != nil {
		return nil, err
	}
	s.mu.Lock() // what the program starts comes after it
	defer s.mu.Unlock()
	p := startFake(s, spec, s.backend.programs[container])
	s.processes = append(s.processes, p)
	return p, nil
}

func (s *fakeSandbox) Ready(ctx context.Context, server, service string, check process.Spec, failed func(string)) error {
	if err := s.act(fmt.Sprintf("ready %s %q", sandbox.ServiceName(server, service), check.Args)); err != nil {
		return err
	}
	if s.backend.ready != nil {
		return s.backend.ready(ctx, failed)
	}
	return nil
}

func (s *fakeSandbox) Put(_ context.Context, container, dir string, r io.Reader) error {
	if err := s.act("put " + container + " " + dir); err != nil {
		return err
	}
	for in := tar.NewReader(r); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if container == sandbox.Agent {
			s.write(path.Join(dir, header.Name), fakeFile{string(content), header.Linkname})
		}
	}
}

// write makes a file in the agent's container.
func (s *fakeSandbox) write(name string, f fakeFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = f
}

func (s *fakeSandbox) Collect(_ context.Context, container, dir string, w io.Writer) error {
	if err := s.act("collect " + container + " " + dir); err != nil {
		return err
	}
	if collect := s.backend.collect[dir]; collect != nil {
		return collect(w)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		rel, within := strings.CutPrefix(name, dir+"/")
		f := s.files[name]
		if !within || f.link == sandbox.MCPConfigPath {
			continue
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: rel, Mode: 0o644, Size: int64(len(f.content))}
		if f.link != "" {
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		}
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.WriteString(out, f.content); err != nil {
			return err
		}
	}
	return out.Close()
}

func (s *fakeSandbox) Usage(_ context.Context, container string) (evidence.Usage, error) {
	if s.backend.usedBy != nil {
		return s.backend.usedBy(s.spec), nil
	}
	used, ok := s.backend.used[container]
	if !ok {
		return used, errors.New("nobody looks")
	}
	return used, nil
}

func (s *fakeSandbox) Guarantees() evidence.Guarantees {
	return evidence.Guarantees{Backend: "fake", Network: s.spec.Network, Enforced: []string{"nothing"}}
}

// Close ends every process, even if the fake is set to fail.
func (s *fakeSandbox) Close(ctx context.Context) error {
	err := s.act("close")
	if ctx.Err() != nil {
		err = errors.Join(err, errors.New("closed with a context that had ended"))
	}
	s.mu.Lock()
	processes, listener := slices.Clone(s.processes), s.listener
	s.mu.Unlock()
	for _, p := range processes {
		p.end(process.Exit{}, errGone)
	}
	if listener != nil {
		listener.Close()
	}
	s.mu.Lock()
	if s.closed {
		panic("closed twice")
	}
	s.closed = true
	for container, gone := range s.gone {
		if s.endings[container] == (sandbox.Exit{}) {
			close(gone)
		}
	}
	s.mu.Unlock()
	s.running.Wait()
	return err
}

// dial connects to what the runner serves, as an agent would.
func (s *fakeSandbox) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	s.mu.Lock()
	l := s.listener
	s.mu.Unlock()
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fakeListener hands out one end of pipes: they need no network, and a test's
// clock knows when they wait.
type fakeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *fakeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *fakeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *fakeListener) Addr() net.Addr { return &net.TCPAddr{} }
