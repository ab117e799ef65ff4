package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/waza-isolate/waza/containers"
	"github.com/waza-isolate/waza/runner"
)

// apiCall is one request to the engine.
type apiCall struct {
	what  string // method and path, without version and object names
	name  string // name of the created object
	began time.Time
	took  time.Duration // time until the response headers
}

// apiProxy forwards requests to an engine and records them.
type apiProxy struct {
	server *http.Server

	mu    sync.Mutex
	calls []apiCall // guarded by mu
}

// startAPIProxy starts a proxy to the engine on a Unix socket in dir.
func startAPIProxy(e *engine, dir string) (_ *apiProxy, host string, err error) {
	socket := filepath.Join(dir, "engine.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, "", err
	}
	p := &apiProxy{}
	dial := e.Dialer()
	target := &url.URL{Scheme: "http", Host: "engine"}
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		Transport: noting{p, &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		}},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	p.server = &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(listener) }()
	return p, "unix://" + socket, nil
}

// noting is a transport that records its requests in proxy.
type noting struct {
	proxy *apiProxy
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (n noting) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := n.next.RoundTrip(r)
	n.proxy.mu.Lock()
	defer n.proxy.mu.Unlock()
	n.proxy.calls = append(n.proxy.calls, apiCall{r.Method + " " + shortPath(r.URL.Path), r.URL.Query().Get("name"), began, time.Since(began)})
	return response, err
}

// take returns the recorded calls, sorted by start time, and clears the record.
func (p *apiProxy) take() []apiCall {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls
	p.calls = nil
	slices.SortFunc(calls, func(a, b apiCall) int { return a.began.Compare(b.began) })
	return calls
}

var objectNames = regexp.MustCompile(`^/v[0-9.]+|/waza-[^/]*|/[0-9a-f]{64}|/sha256:[0-9a-f]{64}`)

func shortPath(path string) string {
	return objectNames.ReplaceAllStringFunc(path, func(name string) string {
		if strings.HasPrefix(name, "/v") {
			return ""
		}
		return "/…"
	})
}

// measureAPICalls lists the engine requests of a trial. It uses the second trial of a run,
// so that one-time setup is not counted.
func (b *bench) measureAPICalls(ctx context.Context) (figures []Figure, err error) {
	proxy, host, err := startAPIProxy(b.engine, b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, proxy.server.Close()) }()
	own := os.Getenv(client.EnvOverrideHost)
	if err := os.Setenv(client.EnvOverrideHost, host); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Setenv(client.EnvOverrideHost, own)) }()
	counted := *b
	counted.run = runner.NewID("bench")
	if counted.backend, err = containers.Open(ctx, containers.Options{Run: counted.run, Guest: b.waza}); err != nil {
		return nil, err
	}
	b.other = append(b.other, counted.run)
	defer func() { err = errors.Join(err, counted.backend.Close(context.WithoutCancel(ctx))) }()
	for _, network := range []string{"bridge", "airtight"} {
		trial, err := counted.plan(ctx, oneCall(network))
		if err != nil {
			return nil, err
		}
		if _, err := counted.trialsOf(ctx, trial, 1, 1, nil); err != nil {
			return nil, err
		}
		proxy.take()
		if _, err := counted.trialsOf(ctx, trial, 1, 1, nil); err != nil {
			return nil, err
		}
		calls := proxy.take()
		f := Figure{Name: "api_calls." + network, What: "requests that a trial on " + network + " sends to the engine", Value: float64(len(calls))}
		for _, c := range calls {
			f.Notes = append(f.Notes, fmt.Sprintf("at %4d ms, %4d ms: %s", c.began.Sub(calls[0].began).Milliseconds(), c.took.Milliseconds(), c.what))
		}
		figures = append(figures, f)
	}
	return figures, nil
}
