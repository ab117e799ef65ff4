package proxy

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"golang.org/x/net/netutil"

	"github.com/waza-isolate/waza/internal/defence"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 32 << 10
	shutdownGrace = 2 * time.Second
)

// Serve serves h on l, within limits that a hostile peer cannot widen, until ctx ends or
// the proxy is closed. It closes l. It returns nil where it ended so, else the listener's
// error. h is the proxy's own handler, or one that hands requests on to it.
func (p *Proxy) Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0), // a peer can fill any log
	}
	if !defence.HeaderTimeout {
		srv.ReadHeaderTimeout = 100 * headerTimeout
	}
	conns := p.limits.Conns
	if !defence.FewConnections {
		conns *= 16
	}
	failed := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
		case <-p.drained:
		case <-failed:
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
		defer cancel()
		_ = srv.Shutdown(grace)
		_ = srv.Close()
	}()
	err := srv.Serve(netutil.LimitListener(l, conns))
	close(failed)
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
