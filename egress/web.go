package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/internal/defence"
)

const (
	// maxHeader is the maximum size of the headers of a request or response, in bytes.
	maxHeader = 64 << 10
	// idle is how long a connection waits for another request on either side.
	idle = 30 * time.Second
)

// newWeb returns the plain HTTP server. It parses and re-encodes requests, so that
// ambiguous bytes are not forwarded.
func (p *Proxy) newWeb() *http.Server {
	return &http.Server{
		Handler:           http.HandlerFunc(p.serveHTTP),
		ReadHeaderTimeout: helloTimeout,
		IdleTimeout:       idle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, clientKey{}, conn)
		},
	}
}

type clientKey struct{}

// newTransport returns a transport for the requests of one connection from the container.
func (p *Proxy) newTransport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			name, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			number, err := strconv.Atoi(port)
			if err != nil {
				return nil, err
			}
			out, err := p.reach(ctx, asked{name: name, port: number, by: byHTTP})
			if err != nil {
				return nil, err
			}
			out.inTheClear()
			return out, nil
		},
		DisableCompression:     true,
		MaxIdleConns:           1,
		IdleConnTimeout:        idle,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeader,
	}
}

func (p *Proxy) serveHTTP(w http.ResponseWriter, r *http.Request) {
	cl := r.Context().Value(clientKey{}).(*client)
	if !p.enter() {
		return
	}
	defer p.leave()
	cl.asked.Store(true)
	ask, why := cl.target(r)
	switch {
	case why != "":
		p.refuse(ask, why)
		deny(w, errors.New(why))
	case r.Method == http.MethodConnect:
		cl.tunnel(w, ask)
	default:
		cl.forward(w, r, ask)
	}
}

// deny answers a refused request.
func deny(w http.ResponseWriter, why error) {
	status := http.StatusForbidden
	var failed *net.OpError
	if errors.As(why, &failed) {
		status = http.StatusBadGateway
	}
	w.Header().Set("Connection", "close")
	http.Error(w, "waza: "+why.Error(), status)
}

// target returns the requested destination, and why it is refused, or "".
func (cl *client) target(r *http.Request) (ask asked, why string) {
	proxy, connect := cl.place.Host == "", r.Method == http.MethodConnect
	ask = asked{name: r.Host, port: 80, by: byHTTP}
	if connect {
		ask.by = byConnect
	}
	name, port, ok := splitHost(r.Host)
	if port != 0 {
		ask.port = port
	}
	switch {
	case !ok || connect && port == 0:
		return ask, "it has no valid host and port"
	case connect && !proxy:
		return ask, "CONNECT is for the proxy"
	case proxy && !connect && r.URL.Scheme != "http":
		return ask, "the proxy takes an http:// URL, or CONNECT"
	}
	ask.name = name
	if defence.HostsAsConnected && !proxy && (!covers(cl.place.Host, name) || ask.port != int(cl.place.At.Port())) {
		return ask, fmt.Sprintf("its Host is not %s port %d, which it connected to", cl.place.Host, cl.place.At.Port())
	}
	return ask, ""
}

// splitHost splits a Host header into name and port, which is 0 if absent. ok is false if
// the header is not in canonical form.
func splitHost(host string) (name string, port int, ok bool) {
	u := url.URL{Host: host}
	name, ok = canonical(u.Hostname())
	whole := name
	if strings.Contains(name, ":") {
		whole = "[" + name + "]"
	}
	if u.Port() != "" {
		number, err := strconv.ParseUint(u.Port(), 10, 16)
		ok = ok && err == nil && number > 0
		port, whole = int(number), net.JoinHostPort(name, strconv.FormatUint(number, 10))
	}
	return name, port, ok && strings.EqualFold(whole, host)
}

// forward forwards a request to a host, and its response to the container.
func (cl *client) forward(w http.ResponseWriter, r *http.Request, ask asked) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		r.Header.Del("Upgrade") // h2c would carry requests that are not checked here
	}
	(&httputil.ReverseProxy{
		Transport:     cl.transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite: func(p *httputil.ProxyRequest) {
			host := net.JoinHostPort(ask.name, strconv.Itoa(ask.port))
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.User = "http", host, nil
			p.Out.URL.RawQuery = p.In.URL.RawQuery
			p.Out.Host = strings.TrimSuffix(host, ":80")
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values := p.In.Header[name]; values != nil {
					p.Out.Header[name] = values
				}
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { deny(w, err) },
	}).ServeHTTP(w, r)
}
