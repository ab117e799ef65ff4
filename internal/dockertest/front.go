package dockertest

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Front stands between programs and the engine, on a socket of its own. What comes in
// goes to what through makes of the way to the engine. It returns what DOCKER_HOST is
// for it.
func Front(t testing.TB, through func(engine *httputil.ReverseProxy) http.Handler) string {
	t.Helper()
	dial := Engine(t).Dialer()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	engine := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		Transport:     transport,
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	dir, err := os.MkdirTemp("", "front-") // names of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ln, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: through(engine), ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(ln) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
		transport.CloseIdleConnections()
	})
	return "unix://" + ln.Addr().String()
}
