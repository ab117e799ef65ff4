// Package serve serves run directories over HTTP on the local machine, as HTML pages.
//
// It reads the disk on every request and stores nothing. Runs contain untrusted data: no
// links in them are followed, their files are served only as text, and only the server's
// own pages may send requests.
package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/runner"
)

const (
	// maxConnections is the number of concurrent connections; others wait.
	maxConnections = 256
	maxHeader      = 16 << 10 // bytes of a request
	headerTime     = 5 * time.Second
	idleTime       = 5 * time.Second // short, so that unused connections do not keep others waiting
)

// Server serves the runs of one directory.
type Server struct {
	runs     *runs
	token    string
	requests sync.RWMutex // read-locked by each request in progress
}

// New returns a server of the runs in dir, which need not exist yet.
func New(dir string) *Server {
	return &Server{runs: newRuns(dir, runner.Held), token: rand.Text()}
}

// Runs returns the number of runs.
func (s *Server) Runs() (int, error) {
	runs, err := s.runs.list()
	return len(runs), err
}

// URL returns the server's URL for the address of its listener, including the token.
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

// Serve serves requests on l until ctx ends. It closes l and returns when all requests have
// ended.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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
	cancel()
	_ = server.Close()
	s.requests.Lock() // wait for requests in progress
	defer s.requests.Unlock()
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
		s.requests.RLock()
		defer s.requests.RUnlock()
		if r.Context().Err() != nil { // the server has ended
			return
		}
		answer := patient{w, http.NewResponseController(w)}
		if r.ContentLength != 0 { // nothing reads the body, but the connection may wait for it
			_ = answer.control.SetReadDeadline(time.Now().Add(headerTime))
		}
		g.ServeHTTP(answer, r)
	})
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := answer(w, r); err != nil {
				no := refusalFor(err)
				page{title: "waza", pages: []report.Page{report.Notice("Nothing to show", no.text)}}.send(w, no.status)
			}
		})
	}
	for path, read := range map[string]func(*http.Request) (page, error){
		"{$}":                             s.listPage,
		"compare":                         s.comparePage,
		"runs/{id}/overview":              s.overviewPage,
		"runs/{id}/servers":               s.serversPage,
		"runs/{id}/trial/{task}/{number}": s.trialPage,
	} {
		handle("/"+path, func(w http.ResponseWriter, r *http.Request) error {
			p, err := read(r)
			if err == nil {
				p.send(w, http.StatusOK)
			}
			return err
		})
	}
	handle("/runs/{id}", toOverview)
	handle("/runs/{id}/{$}", toOverview)
	handle("/runs/{id}/files/{path...}", s.file)
	handle("/", func(http.ResponseWriter, *http.Request) error { return errNotThere })
	return mux
}

// refusal is an error response.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func badRequest(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// Errors with their own responses.
var (
	errNotThere = &refusal{http.StatusNotFound, "Not found. It may have been deleted."}
	errNotEnded = &refusal{http.StatusNotFound, "This trial has no verdicts yet: it has not ended, or was not graded."}
)

func refusalFor(err error) *refusal {
	var no *refusal
	if errors.As(err, &no) {
		return no
	}
	return &refusal{http.StatusInternalServerError, "This cannot be read: " + text.Shorten(err.Error(), maxWord) + "."}
}
