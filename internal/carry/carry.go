// Package carry copies between two connections until both are done. It opens none and
// bounds nothing.
package carry

import (
	"io"
	"sync"
)

// Stream is a connection each of whose ways ends by itself.
type Stream interface {
	io.ReadWriteCloser
	// CloseWrite ends what is written, and leaves what is read.
	CloseWrite() error
	// Abort is Close after data was lost, which it lets the other end know.
	Abort()
}

// Both carries bytes both ways until both have ended, each by itself, or one is
// broken and with it the other. It closes both.
func Both(a, b Stream) {
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
