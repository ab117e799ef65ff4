package guest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
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

// watchPulse calls beat for each ping that is answered, and lost when two consecutive pings fail,
// until the session ends. A single ping may fail after the machine was suspended.
func watchPulse(p peer, beat func(), lost func(error)) {
	ticker := time.NewTicker(pingInterval)
	defer ticker.Stop()
	for {
		select {
		case <-p.CloseChan():
			return
		case <-ticker.C:
		}
		_, err := p.Ping()
		if err != nil {
			_, err = p.Ping()
		}
		if err == nil {
			beat()
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

// pulse remembers when a session's pings were answered.
type pulse struct {
	mu    sync.Mutex
	last  time.Time // of the last answer
	still time.Time // end of the last time of more than stillTime without answers
}

const (
	// stillTime is how long a session's pings are unanswered when it counts as having stood
	// still. It is shorter than what a guest waits before it exits.
	stillTime = 8 * time.Second
	// remembered is how long a session counts as having stood still.
	remembered = 20 * time.Second
)

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.last) > stillTime {
		p.still = now
	}
	p.last = now
}

func (p *pulse) stoodStill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.last) > stillTime || time.Since(p.still) < remembered
}
