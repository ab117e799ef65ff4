package guest

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/waza-isolate/waza/internal/defence"
)

// The header of a yamux frame: version, type, flags, stream id, length; big endian.
const (
	muxHeaderSize = 12

	muxData         = 0
	muxWindowUpdate = 1
	muxPing         = 2
	muxGoAway       = 3

	muxSYN = 1
	muxFIN = 4
	muxRST = 8
)

// Limits for a guest. A regular guest stays far below, since it accepts connections more
// slowly.
const (
	maxMuxFrame   = 256 << 10 // yamux's window, which a data frame must not exceed
	maxInbound    = 128       // streams opened by the guest that have not ended
	inboundRate   = 1000      // such streams per second
	inboundBurst  = 1000      // and their burst
	pingRate      = 10
	pingBurst     = 20
	emptyRate     = 1000 // frames without payload per second, in addition to one per write to the guest
	emptyBurst    = 2000 // and their burst
	acceptedAhead = 64
)

// inboundLimit returns maxInbound, or a larger limit if a test disables the defence.
func inboundLimit() int {
	if !defence.FewConnections {
		return 32 * maxInbound
	}
	return maxInbound
}

// guard forwards bytes from an untrusted peer to yamux as long as they obey the limits. yamux
// itself limits neither streams nor pings nor frames without payload.
type guard struct {
	io.ReadWriteCloser
	broke func(error) // called with the first violation before yamux sees it

	header  [muxHeaderSize]byte
	have    int
	payload uint32 // remaining bytes of the current data frame
	inbound map[uint32]bool
	opens   *rate.Limiter
	pings   *rate.Limiter
	empty   *rate.Limiter
	written atomic.Int64 // writes to the guest minus frames without payload from it
	err     error
}

func newGuard(pipe io.ReadWriteCloser, broke func(error)) *guard {
	return &guard{
		ReadWriteCloser: pipe,
		broke:           broke,
		inbound:         make(map[uint32]bool),
		opens:           rate.NewLimiter(inboundRate, inboundBurst),
		pings:           rate.NewLimiter(pingRate, pingBurst),
		empty:           rate.NewLimiter(emptyRate, emptyBurst),
	}
}

// Write writes to the pipe. yamux writes each frame with one or two calls.
func (g *guard) Write(p []byte) (int, error) {
	g.written.Add(1) // counted first, because the response may arrive before Write returns
	return g.ReadWriteCloser.Write(p)
}

// Read reads from the pipe. After a header that violates a limit, all reads fail; the bytes
// before it are returned.
func (g *guard) Read(p []byte) (int, error) {
	if !defence.MuxGuard {
		return g.ReadWriteCloser.Read(p)
	}
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.ReadWriteCloser.Read(p)
	good := 0
	for good < n && g.err == nil {
		used := g.consume(p[good:n])
		if g.err == nil {
			good += used
		}
	}
	if g.err != nil {
		g.broke(g.err)
		return good, g.err
	}
	return n, err
}

// consume processes the bytes of one header or payload.
func (g *guard) consume(p []byte) int {
	if g.payload > 0 {
		n := min(uint32(len(p)), g.payload)
		g.payload -= n
		return int(n)
	}
	n := copy(g.header[g.have:], p)
	g.have += n
	if g.have == muxHeaderSize {
		g.have = 0
		g.err = g.check()
	}
	return n
}

func (g *guard) check() error {
	version, frame := g.header[0], g.header[1]
	flags := binary.BigEndian.Uint16(g.header[2:])
	stream := binary.BigEndian.Uint32(g.header[4:])
	length := binary.BigEndian.Uint32(g.header[8:])
	if version != 0 || frame > muxGoAway {
		return fmt.Errorf("%w: mux version %d, type %d", ErrProtocol, version, frame)
	}
	if frame == muxGoAway { // our guests just close the pipe
		return fmt.Errorf("%w: the mux is given up", ErrProtocol)
	}
	if (frame != muxData || length == 0) && !g.allowEmpty() {
		return fmt.Errorf("%w: more than %d mux frames without payload a second", ErrProtocol, emptyRate)
	}
	if frame == muxPing {
		if flags&muxSYN != 0 && !g.pings.Allow() {
			return fmt.Errorf("%w: more than %d pings a second", ErrProtocol, pingRate)
		}
		return nil
	}
	if frame == muxData {
		if length > maxMuxFrame {
			return fmt.Errorf("%w: mux frame of %d bytes", ErrProtocol, length)
		}
		g.payload = length
	}
	if flags&muxSYN != 0 {
		if err := g.openStream(stream); err != nil {
			return err
		}
	}
	// Streams that the guest has ended do not count here. Those still used by the runner are
	// limited when streams are accepted.
	if flags&(muxFIN|muxRST) != 0 {
		delete(g.inbound, stream)
	}
	return nil
}

// allowEmpty reports whether another frame without payload is allowed. Regular guests send them
// in response to writes: when streams start and end, and after every 128 KiB received.
func (g *guard) allowEmpty() bool {
	if g.written.Add(-1) >= 0 {
		return true
	}
	g.written.Add(1)
	return g.empty.Allow()
}

func (g *guard) openStream(stream uint32) error {
	if stream == 0 || stream%2 != 0 {
		return fmt.Errorf("%w: stream %d is not the guest's to open", ErrProtocol, stream)
	}
	if len(g.inbound) >= inboundLimit() {
		return fmt.Errorf("%w: more than %d streams at once", ErrProtocol, maxInbound)
	}
	if !g.opens.Allow() {
		return fmt.Errorf("%w: more than %d streams a second", ErrProtocol, inboundRate)
	}
	g.inbound[stream] = true
	return nil
}
