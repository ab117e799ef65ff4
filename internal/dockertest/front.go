package dockertest

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// Front starts a proxy in front of the engine on its own socket. Requests are handled by
// the handler that through returns for the engine. Front returns the value of DOCKER_HOST
// for the proxy.
func Front(t testing.TB, through func(engine *httputil.ReverseProxy) http.Handler) string {
	t.Helper()
	ways := ways{dial: Engine(t).Dialer()}
	transport := &http.Transport{DialContext: ways.open}
	engine := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	dir, err := os.MkdirTemp("", "front-") // paths of sockets must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	handler := through(engine)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Add(1)
		defer serving.Done()
		handler.ServeHTTP(w, r)
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(ln) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
		ways.cut()
		serving.Wait()
		transport.CloseIdleConnections()
	})
	return "unix://" + ln.Addr().String()
}

// ways holds the connections to the engine. Those with a container's streams would
// otherwise last as long as the container.
type ways struct {
	dial func(context.Context) (net.Conn, error)

	mu   sync.Mutex
	all  []net.Conn // guarded by mu
	over bool       // guarded by mu
}

func (w *ways) open(ctx context.Context, _, _ string) (net.Conn, error) {
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	w.all = append(w.all, conn)
	return conn, nil
}

func (w *ways) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, conn := range w.all {
		_ = conn.Close()
	}
}
