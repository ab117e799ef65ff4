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

// Purposes of a socket that the runner passes to the guest.
const (
	useRequest byte = 'r' // the first message is the runner's request
	useSpare   byte = 's' // for a future incoming connection
)

// sockets passes the guest one end of a socket pair for each stream, over the connection that
// the guest has made. So streams do not pass a mux, and the kernel limits data in transit. The
// guest must not send anything on that connection. Descriptors that it sends are dropped by the
// kernel, because the runner does not receive control messages.
type sockets struct {
	control *net.UnixConn

	mu   sync.Mutex
	ends map[*net.UnixConn]bool // our ends of open streams; nil after Close; guarded by mu
}

func newSockets(control *net.UnixConn) *sockets {
	return &sockets{control: control, ends: map[*net.UnixConn]bool{}}
}

// openStream opens a stream. It fails if the guest does not receive sockets.
func (s *sockets) openStream(use byte) (stream, error) {
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

// watch waits for the end of the connection, and returns its reason.
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

// Close closes all streams.
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

// socketStream is a stream over its own socket.
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

// connOf returns the connection of a socket, and takes ownership of fd.
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
