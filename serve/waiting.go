package serve

import (
	"context"
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxWaiting connections may wait: those that ask for nothing, are still asking, or ask
// without the token. It is less than [maxConnections], so they keep nobody out.
const maxWaiting = 128

// waiting are the connections that wait, the one that began first in front.
type waiting struct {
	mu    sync.Mutex
	conns []net.Conn // guarded by mu
}

// state is an [http.Server.ConnState]. Where one connection more waits than may, the one
// that has waited longest is closed.
func (w *waiting) state(c net.Conn, state http.ConnState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if state == http.StateActive { // of its request there may be the first byte alone
		return
	}
	w.remove(c)
	if state != http.StateNew && state != http.StateIdle {
		return
	}
	w.conns = append(w.conns, c)
	if len(w.conns) > maxWaiting {
		_ = w.conns[0].Close()
		w.remove(w.conns[0])
	}
}

func (w *waiting) remove(c net.Conn) {
	w.conns = slices.DeleteFunc(w.conns, func(other net.Conn) bool { return other == c })
}

type connKey struct{}

// keep is an [http.Server.ConnContext]. It has past find the connection of a request.
func keep(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// past has a connection wait no longer while next answers on it.
func (w *waiting) past(next http.Handler) http.Handler {
	return http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(net.Conn)
		w.mu.Lock()
		w.remove(c)
		w.mu.Unlock()
		next.ServeHTTP(answer, r)
	})
}
