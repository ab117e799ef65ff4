package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/waza-isolate/waza/internal/defence"
)

// What a socket that the runner hands to the guest is for.
const (
	useRequest byte = 'r' // the runner's request is the first message on it
	useSpare   byte = 's' // for a connection that comes in, once there is one
)

// sockets hands the guest one end of a pair of sockets for each stream, over the connection that
// the guest made. So a stream passes no mux, and the kernel bounds what is on its way. The guest
// has nothing to say on that connection, and descriptors that it sends anywhere are dropped by the
// kernel: the runner asks for none.
type sockets struct {
	control *net.UnixConn

	mu   sync.Mutex
	ends map[*net.UnixConn]bool // ours, of streams that are open; nil once closed; guarded by mu
}

func newSockets(control *net.UnixConn) *sockets {
	return &sockets{control: control, ends: map[*net.UnixConn]bool{}}
}

// open opens a stream. It fails if the guest does not take sockets in.
func (s *sockets) open(use byte) (stream, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(patience))
	conn, err := handSocket(s.control, use)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	s.ends[conn] = true
	return &socketStream{UnixConn: conn, of: s}, nil
}

// watch waits for the guest's end of the connection, and returns why it ended.
func (s *sockets) watch() error {
	for {
		_, err := s.control.Read(make([]byte, 1))
		switch {
		case err != nil:
			return err
		case defence.MuxGuard:
			return fmt.Errorf("%w: bytes where the runner hands in sockets", ErrProtocol)
		}
	}
}

// Close ends all streams.
func (s *sockets) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ends == nil {
		return nil
	}
	err := s.control.Close()
	for conn := range s.ends {
		err = errors.Join(err, conn.Close())
	}
	s.ends = nil
	return err
}

// socketStream is a stream of its own socket, at the runner's end.
type socketStream struct {
	*net.UnixConn
	of *sockets // nil at the guest's end
}

func (s *socketStream) Write(p []byte) (int, error) {
	n, err := s.UnixConn.Write(p)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		if n = writeAtOnce(s.UnixConn, p); n == len(p) {
			err = nil
		}
	}
	return n, err
}

func (s *socketStream) Close() error {
	if s.of != nil {
		s.of.mu.Lock()
		defer s.of.mu.Unlock()
		delete(s.of.ends, s.UnixConn)
	}
	if err := s.UnixConn.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// connOf returns the connection of a socket, which it takes over.
func connOf(fd uintptr) (*net.UnixConn, error) {
	file := os.NewFile(fd, "stream")
	conn, err := net.FileConn(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(io.ErrUnexpectedEOF, conn.Close())
	}
	return unix, nil
}
