package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/runner"
)

const (
	// maxConnections are open at once; others wait.
	maxConnections = 256
	maxHeader      = 16 << 10 // bytes of a request
	headerTime     = 5 * time.Second
	idleTime       = 5 * time.Second        // so that unused connections keep nobody out for long
	lookTime       = 500 * time.Millisecond // between looks at a run that is watched
)

// Server serves the runs of one directory.
type Server struct {
	index   *index
	watches *watches
	token   string
	active  active
}

// New makes a server of the runs in dir, which need not be there yet.
func New(dir string) *Server {
	x := newIndex(dir, runner.Held)
	return &Server{index: x, watches: newWatches(x, lookTime, time.Now), token: rand.Text()}
}

// Runs counts the runs that are there.
func (s *Server) Runs() (int, error) {
	runs, err := s.index.list()
	return len(runs), err
}

// URL is where the server is found at the address of its listener, with the token that
// lets one in.
func (s *Server) URL(address net.Addr) string {
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/?" + tokenParameter + "=" + s.token
}

// Serve answers on l until ctx ends, and returns when nothing of it goes on. l is closed.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.handler(l.Addr()),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: headerTime,
		WriteTimeout:      patience,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err := server.Serve(netutil.LimitListener(l, maxConnections))
	_ = server.Close()
	s.active.end()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s *Server) handler(address net.Addr) http.Handler {
	g := &guard{token: s.token, cookie: "waza-serve", next: s.routes()}
	if host, port, err := net.SplitHostPort(address.String()); err == nil {
		g.cookie += "-" + port
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
			g.host = host
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.active.begin() {
			return
		}
		defer s.active.requests.Done()
		answer := patient{w, http.NewResponseController(w)}
		if r.ContentLength != 0 { // which nothing here takes, and the connection may wait for
			_ = answer.control.SetReadDeadline(time.Now().Add(headerTime))
		}
		g.ServeHTTP(answer, r)
	})
}

// active are the requests that are being answered.
type active struct {
	mu       sync.Mutex
	over     bool // guarded by mu
	requests sync.WaitGroup
}

// begin says whether another request is answered.
func (a *active) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.over {
		a.requests.Add(1)
	}
	return !a.over
}

// end waits for all of them, and lets none begin.
func (a *active) end() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.requests.Wait()
}

const apiPrefix = "/api/"

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range map[string]http.HandlerFunc{
		"/{$}":                              s.listPage,
		"/compare":                          s.comparePage,
		"/runs/{id}":                        s.toOverview,
		"/runs/{id}/{$}":                    s.toOverview,
		"/runs/{id}/overview":               s.overviewPage,
		"/runs/{id}/servers":                s.serversPage,
		"/runs/{id}/trial/{task}/{number}":  s.trialPage,
		"/runs/{id}/events":                 s.events,
		"/runs/{id}/files/{path...}":        s.file,
		apiPrefix + "v1/runs":               s.apiRuns,
		apiPrefix + "v1/runs/{id}":          s.apiRun,
		apiPrefix + "v1/runs/{id}/progress": s.apiProgress,
		apiPrefix + "v1/runs/{id}/trials/{task}/{number}": s.apiTrial,
		apiPrefix + "v1/compare":                          s.apiCompare,
		"/":                                               s.nowhere,
	} {
		mux.HandleFunc(pattern, handler)
	}
	return mux
}

// number reads a trial's number of a path.
func number(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n > 0 && strconv.Itoa(n) == text
}

// nowhere is asked for what is nowhere.
func (s *Server) nowhere(w http.ResponseWriter, r *http.Request) { s.denyFor(w, r, errNotThere) }

// denyFor says why there is no answer, as a page or as JSON.
func (s *Server) denyFor(w http.ResponseWriter, r *http.Request, err error) {
	no := refusalFor(err)
	if !wantsPage(r) {
		deny(w, r, no)
		return
	}
	s.showAs(w, no.status, "waza", "", nil, report.One(report.Notice("Nothing to show", no.text)))
}

func refusalFor(err error) *refusal {
	var bad *badRequest
	switch {
	case errors.As(err, &bad):
		return &refusal{http.StatusBadRequest, bad.text}
	case errors.Is(err, errNotEnded):
		return &refusal{http.StatusNotFound, "This trial has no verdicts yet: it has not ended, or was not graded."}
	case errors.Is(err, errNotThere):
		return &refusal{http.StatusNotFound, "There is nothing of this name. It may have been deleted."}
	case errors.Is(err, errTooMany):
		return &refusal{http.StatusServiceUnavailable, "Too many pages watch runs already. Close some."}
	}
	return &refusal{http.StatusInternalServerError, "This cannot be read: " + text.Shorten(err.Error(), maxReportedMessage) + "."}
}

// badRequest is a request that cannot be understood.
type badRequest struct{ text string }

func (b *badRequest) Error() string { return b.text }
