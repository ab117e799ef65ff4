package guest

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"

	"github.com/hashicorp/yamux"
)

// stream is one of many between the two ends, and carries one verb. Close ends both
// directions, and whatever waits for either. A Write whose deadline has passed still writes what
// can be written at once.
type stream interface {
	net.Conn
	CloseWrite() error
}

// muxStream is a stream of a mux, whose own Close ends only what is sent.
type muxStream struct{ *yamux.Stream }

func (s muxStream) CloseWrite() error { return s.Stream.Close() }

func (s muxStream) Close() error {
	err := s.Stream.Close()
	return errors.Join(err, s.SetReadDeadline(time.Now()))
}

// muxConfig is the same at both ends but for the patience with a silent peer:
// the guest's is shorter than what a runner's death may take to show.
func muxConfig(patience time.Duration) *yamux.Config {
	config := yamux.DefaultConfig()
	config.AcceptBacklog = acceptedAhead
	config.EnableKeepAlive = false // see watchPulse
	config.ConnectionWriteTimeout = patience
	config.StreamOpenTimeout = 0            // ends the whole session for one slow stream
	config.StreamCloseTimeout = time.Minute // then the other end loses what it has not read
	config.LogOutput = io.Discard
	return config
}

// maxJoined is up to which length a body is copied to go out with its header.
const maxJoined = 4 << 10

// whole passes the mux's frames on in one write each where they are short. yamux
// writes a frame's header and its body apart, and each write makes its own way
// through the engine, which costs more than it carries.
type whole struct {
	io.ReadWriteCloser
	frame []byte // a header whose body is to come, else empty; of yamux's one writer
}

// Write takes a header, or all of the body that belongs to the last one.
func (w *whole) Write(p []byte) (int, error) {
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

// pulse is how often either end looks whether the other is there.
const pulse = 2 * time.Second

// errSilent is the end of a session whose other end is not there any more.
var errSilent = errors.New("it no longer answers")

// peer is the other end of a session, as yamux knows it.
type peer interface {
	// Ping fails where no answer came for as long as the session is patient.
	Ping() (time.Duration, error)
	CloseChan() <-chan struct{}
}

// watchPulse calls lost when two pings in a row have no answer, until the session is
// over. One may be nobody's fault: after a machine stood still, time is up before
// anybody could answer.
func watchPulse(p peer, lost func(error)) {
	ticker := time.NewTicker(pulse)
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
