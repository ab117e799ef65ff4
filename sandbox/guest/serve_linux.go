package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"syscall"
	"time"

	"github.com/hashicorp/yamux"
	"golang.org/x/sys/unix"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/tree"
)

// Main is process 1 of a container. It serves the runner on stdin and stdout until they end,
// and then kills everything else. args may begin with [NestedSandboxes], and may then name a socket
// of the runner, which carries the requests instead if it can be connected.
func Main(args []string) error {
	if len(args) > 0 && args[0] == RemoveInterfaces {
		return removeInterfaces()
	}
	if len(args) > 0 && args[0] == MakeDirectories {
		return makeDirectories(args[1:])
	}
	nested := len(args) > 0 && args[0] == NestedSandboxes
	if nested {
		args = args[1:]
	}
	forgetCluster()
	limitCores()
	// Otherwise processes of the same user could open our stdin through /proc/1/fd, or stop us
	// with ptrace, and outlive the runner.
	if defence.Undumpable {
		if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
			return fmt.Errorf("prctl: %w", err)
		}
	}
	if defence.SignalsTakenIn {
		if err := ignoreSignals(); err != nil {
			return err
		}
	}
	pipe, err := stdio()
	if err != nil {
		return err
	}
	if len(args) > 0 && args[0] == Sealed {
		out, err := sealTo(pipe, pipe)
		if err != nil {
			return err
		}
		pipe, args = sealedPipe{pipe, out, pipe}, args[1:]
	}
	s, err := newServer(pipe, nested, args)
	if err != nil {
		return err
	}
	err = s.serve()
	if !defence.EndingContainers {
		time.Sleep(time.Hour)
	}
	killAll()
	return err
}

// stdio moves stdin and stdout to other descriptors, and replaces them by /dev/null, so that
// nothing is written there by mistake.
func stdio() (io.ReadWriteCloser, error) {
	var ends [2]*os.File
	for fd := range ends {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return nil, fmt.Errorf("dup: %w", err)
		}
		if err := unix.SetNonblock(own, true); err != nil {
			return nil, err
		}
		ends[fd] = os.NewFile(uintptr(own), "mux")
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/null: %w", err)
	}
	for fd := range ends {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return nil, err
		}
	}
	return &duplex{in: ends[0], out: ends[1]}, unix.Close(null)
}

type duplex struct{ in, out *os.File }

func (d *duplex) Read(p []byte) (int, error)  { return d.in.Read(p) }
func (d *duplex) Write(p []byte) (int, error) { return d.out.Write(p) }
func (d *duplex) Close() error                { return errors.Join(d.in.Close(), d.out.Close()) }

// killAll kills every other process of the container. It does nothing if we are not process 1,
// since it would then kill every process of the user.
func killAll() {
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL)
	}
}

// server is the guest's end of the session. It dispatches requests.
type server struct {
	pipe     *yamux.Session // over stdin and stdout; the container ends with it
	sockets  *net.UnixConn  // over which the runner passes sockets; may be nil
	programs *programs
	relay    *relay
	meter    meter
}

// newServer connects to the socket in args before any untrusted program runs.
func newServer(pipe io.ReadWriteCloser, nested bool, args []string) (*server, error) {
	programs, err := newPrograms(nested)
	if err != nil {
		return nil, err
	}
	session, err := yamux.Server(&frameJoiner{ReadWriteCloser: pipe}, muxConfig(6*time.Second))
	if err != nil {
		return nil, err
	}
	s := &server{pipe: session, programs: programs, relay: newRelay(session)}
	if len(args) > 0 {
		if s.sockets, err = net.DialUnix("unix", nil, &net.UnixAddr{Net: "unix", Name: args[0]}); err == nil {
			s.relay.spares = make(chan stream, sparesAhead)
		}
	}
	return s, nil
}

// serve handles requests until the runner is gone.
func (s *server) serve() error {
	go watchPulse(s.pipe, func() {}, func(error) { _ = s.pipe.Close() })
	if s.sockets != nil {
		go func() {
			s.takeSockets()
			_ = s.pipe.Close()
		}()
	}
	for {
		stream, err := s.pipe.AcceptStream()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, yamux.ErrSessionShutdown) {
				return nil
			}
			return err
		}
		go s.handle(newLink(muxStream{stream}))
	}
}

// takeSockets receives sockets from the runner until it is gone.
func (s *server) takeSockets() {
	for {
		use, conn, err := receiveSocket(s.sockets)
		switch {
		case err != nil:
			return
		case use == useSpare:
			s.relay.spares <- conn
		default:
			go s.handle(newLink(conn))
		}
	}
}

func (s *server) handle(l *link) {
	defer func() { _ = l.stream.Close() }()
	k, p, err := l.message()
	if err != nil || k != kindRequest {
		return
	}
	var req request
	if err = json.Unmarshal(p, &req); err == nil {
		err = s.do(l, req)
	}
	if err != nil {
		_ = l.fail(err)
	}
	l.drain()
}

func (s *server) do(l *link, req request) error {
	switch req.Verb {
	case "hello":
		hello, err := describeContainer()
		if err != nil {
			return err
		}
		hello.Socket = s.sockets != nil
		return l.writeJSON(kindReply, reply{Hello: &hello})
	case "ping":
		return l.writeJSON(kindReply, reply{})
	case "exec":
		return s.programs.exec(l, req)
	case "signal":
		return s.programs.signal(l, req)
	case "accept":
		return s.relay.accept(l, req)
	case "dial":
		return dial(l, req)
	case "put":
		return put(l, req)
	case "get":
		return send(l, func(root *os.Root, w io.Writer) error { return tree.Pack(root, inRoot(req.Dir), req.Omit, w) })
	case "find":
		return send(l, func(root *os.Root, w io.Writer) error { return tree.PackOne(root, req.Dir, w) })
	case "resolve":
		return resolve(l, req)
	case "usage":
		return s.meter.report(l, req)
	case "watch":
		return s.meter.watch(l, req)
	case "observe":
		return s.programs.observer.report(l)
	default:
		return fmt.Errorf("unknown verb %q", req.Verb)
	}
}

func put(l *link, req request) error {
	r, w := io.Pipe()
	received := make(chan struct{})
	go func() {
		defer close(received)
		_ = w.CloseWithError(receive(l, w))
	}()
	err := inDir(req.Dir, func(dir *os.Root) error { return tree.Unpack(dir, r, nil) })
	_ = r.CloseWithError(err)
	if err == nil {
		<-received
		return l.writeJSON(kindReply, reply{})
	}
	_ = l.fail(err) // sent immediately, because the runner may be waiting for us to read
	<-received
	return nil
}

// inDir calls do with a directory that it cannot leave. Other files are not opened, since
// opening a pipe would block.
func inDir(name string, do func(*os.Root) error) error {
	if info, err := os.Stat(name); err == nil && !info.IsDir() {
		return &os.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	dir, err := os.OpenRoot(name)
	if err != nil {
		return err
	}
	return errors.Join(do(dir), dir.Close())
}

// send responds with the data that pack writes for the file system.
func send(l *link, pack func(*os.Root, io.Writer) error) error {
	return answerBy(l, func(w io.Writer) error {
		return inDir("/", func(root *os.Root) error { return pack(root, w) })
	})
}

// inRoot returns an absolute path relative to the root directory.
func inRoot(name string) string { return path.Join(".", name) }

// answerBy responds with the data that write writes.
func answerBy(l *link, write func(io.Writer) error) error {
	if err := l.writeJSON(kindReply, reply{}); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.drain()
		l.stopWriting()
	}()
	out := &dataWriter{link: l, data: kindData, eof: kindEOF}
	err := write(out)
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		_ = l.fail(err)
	}
	<-ended
	return nil
}
