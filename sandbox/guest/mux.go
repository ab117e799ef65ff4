package guest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// stream is a stream of the session, for one request. Close closes both directions and unblocks
// reads and writes. A Write after its deadline still writes what is possible without blocking.
type stream interface {
	net.Conn
	CloseWrite() error
}

// muxStream is a stream of yamux, whose own Close only closes the write side.
type muxStream struct{ *yamux.Stream }

func (s muxStream) CloseWrite() error { return s.Stream.Close() }

func (s muxStream) Close() error {
	err := s.Stream.Close()
	return errors.Join(err, s.SetReadDeadline(time.Now()))
}

// muxConfig returns the configuration of yamux. It is the same at both ends except for patience
// with a silent peer: a guest's is shorter than the time after which a dead runner must be
// detected.
func muxConfig(patience time.Duration) *yamux.Config {
	config := yamux.DefaultConfig()
	config.AcceptBacklog = acceptedAhead
	config.EnableKeepAlive = false // watchPulse does that
	config.ConnectionWriteTimeout = patience
	config.StreamOpenTimeout = 0            // otherwise one slow stream ends the session
	config.StreamCloseTimeout = time.Minute // after that, the other end loses unread data
	config.LogOutput = io.Discard
	return config
}

// maxJoined is the maximum length of a body that is copied to be written with its header.
const maxJoined = 4 << 10

// frameJoiner joins short frames of yamux into one write. yamux writes header and body separately,
// and each write passes through the engine, which is expensive.
type frameJoiner struct {
	io.ReadWriteCloser
	frame []byte // header whose body follows, or empty; only used by yamux's writer
}

// Write takes a header, or the whole body that belongs to the last header.
func (w *frameJoiner) Write(p []byte) (int, error) {
	header := len(w.frame)
	switch {
	case header == 0 && announcesBody(p):
		w.frame = append(w.frame, p...)
		return len(p), nil
	case header == 0:
		return w.ReadWriteCloser.Write(p)
	}
	defer func() { w.frame = w.frame[:0] }()
	if len(p) > maxJoined {
		if _, err := w.ReadWriteCloser.Write(w.frame); err != nil {
			return 0, err
		}
		return w.ReadWriteCloser.Write(p)
	}
	w.frame = append(w.frame, p...)
	n, err := w.ReadWriteCloser.Write(w.frame)
	return max(0, n-header), err
}

func announcesBody(p []byte) bool {
	return len(p) == muxHeaderSize && p[1] == muxData && binary.BigEndian.Uint32(p[8:]) > 0
}

// pingInterval is the interval between pings.
const pingInterval = 2 * time.Second

// errSilent means that the other end does not answer any more.
var errSilent = errors.New("it no longer answers")

// peer is a yamux session.
type peer interface {
	// Ping fails if there is no answer within the session's patience.
	Ping() (time.Duration, error)
	CloseChan() <-chan struct{}
}

// watchPulse calls lost when two consecutive pings fail, until the session ends. A single one
// may fail after the machine was suspended.
func watchPulse(p peer, lost func(error)) {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-p.CloseChan():
			return
		case <-ticker.C:
		}
		if _, err := p.Ping(); err == nil {
			continue
		}
		if _, err := p.Ping(); err == nil {
			continue
		}
		select {
		case <-p.CloseChan():
		default:
			lost(errSilent)
		}
		return
	}
}
