package gitrepo

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/waza-isolate/waza/egress"
)

const (
	dialTimeout = 15 * time.Second
	// maxTraffic is how many bytes one connection may receive.
	maxTraffic = 2 * maxBytes
)

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer returns a dial function that only connects to public addresses of a URL's host. Each
// address is checked when it is dialled, so that the name cannot be rebound.
func dialer(source string) dialFunc {
	to, err := url.Parse(source)
	if err != nil {
		to = &url.URL{}
	}
	d := net.Dialer{Timeout: dialTimeout, ControlContext: egress.Named{Host: to.Hostname()}.Judge}
	return d.DialContext
}

// proxy is git's HTTP proxy. It connects to a single host and port.
type proxy struct {
	listener net.Listener
	server   *http.Server
	to       string
	dial     dialFunc
}

func listen(source string, dial dialFunc) (*proxy, error) {
	to, err := url.Parse(source)
	if err != nil {
		return nil, err
	}
	port := to.Port()
	if port == "" {
		port = "443"
	}
	p := &proxy{to: net.JoinHostPort(to.Hostname(), port), dial: dial}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: dialTimeout}
	go func() { _ = p.server.Serve(p.listener) }()
	return p, nil
}

func (p *proxy) url() string { return "http://" + p.listener.Addr().String() }

func (p *proxy) close() { _ = p.server.Close() }

// ServeHTTP implements http.Handler. It handles CONNECT to the proxy's host.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || r.Host != p.to {
		http.Error(w, "the repository is at "+p.to, http.StatusForbidden)
		return
	}
	far, err := p.dial(r.Context(), "tcp", p.to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = far.Close() }()
	near, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer func() { _ = near.Close() }()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, io.LimitReader(far, maxTraffic))
}
