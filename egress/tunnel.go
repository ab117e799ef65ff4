package egress

import (
	"bytes"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/waza-isolate/waza/internal/defence"
)

// tunnel handles CONNECT. It connects before reading from the container, since the host may
// send first.
func (cl *client) tunnel(w http.ResponseWriter, ask asked) {
	far, err := cl.proxy.reach(cl.proxy.ctx, ask)
	if err != nil {
		deny(w, err)
		return
	}
	_, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		far.Abort()
		return
	}
	ahead, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	cl.unread(bytes.Clone(ahead))
	if _, err := io.WriteString(cl.Conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		cl.Abort()
		far.Abort()
		return
	}
	Splice(&vetted{client: cl, ask: ask, far: far}, far)
}

// vetted is the container's side of a tunnel. It checks the first bytes read: TLS must name
// the host of the tunnel, and anything else is treated as unencrypted.
type vetted struct {
	*client
	ask  asked
	far  *outbound
	seen bool
}

func (v *vetted) Read(p []byte) (int, error) {
	if !v.seen {
		v.seen = true
		if err := v.see(); err != nil {
			return 0, err
		}
	}
	return v.client.Read(p)
}

func (v *vetted) see() error {
	first := make([]byte, 1)
	if _, err := io.ReadFull(v.client, first); err != nil {
		return err
	}
	v.unread(first)
	if first[0] != tlsHandshake {
		v.far.inTheClear()
		return nil
	}
	_ = v.SetReadDeadline(time.Now().Add(helloTimeout))
	name, raw, err := readHello(v.client)
	_ = v.SetReadDeadline(time.Time{})
	v.unread(raw)
	_, notName := netip.ParseAddr(v.ask.name)
	host, ok := canonical(name)
	switch {
	case err != nil:
		v.far.because(errNoHello.Error(), false)
	case name == "" && notName == nil, ok && (host == v.ask.name || !defence.TunnelsAsNamed):
		return nil
	default:
		v.far.because("the ClientHello in its tunnel does not name the host of the tunnel", false)
	}
	return errRefused
}

// Stream is a connection whose directions can be closed independently.
type Stream interface {
	io.ReadWriteCloser
	// CloseWrite closes the writing direction.
	CloseWrite() error
	// Abort closes the connection after data was lost, so that the peer notices.
	Abort()
}

// Splice copies between two connections until both directions have ended or one has failed.
// It closes both.
func Splice(a, b Stream) {
	oneWay := func(to, from Stream) {
		_, err := io.Copy(to, from)
		if err == nil {
			err = to.CloseWrite()
		}
		if err != nil {
			a.Abort()
			b.Abort()
		}
	}
	var ways sync.WaitGroup
	ways.Go(func() { oneWay(a, b) })
	ways.Go(func() { oneWay(b, a) })
	ways.Wait()
	_ = a.Close()
	_ = b.Close()
}
