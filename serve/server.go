// Package serve serves run directories over HTTP on the same machine: pages, JSON, and
// runs at work as events.
//
// It reads what is on disk when it is asked, and keeps nothing of its own there. What a
// run holds was captured of strangers: no link in it is followed, no file of it is served
// as anything but text, and no page but its own can ask for anything.
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
	// maxConnections are open at once; others wait.
	maxConnections = 256
	maxHeader      = 16 << 10 // bytes of a request
	headerTime     = 5 * time.Second
	idleTime       = 5 * time.Second        // so that unused connections keep nobody out for long
	lookTime       = 500 * time.Millisecond // between looks at a run that is watched
)

// Server serves the runs of one directory.
type Server struct {
	runs     *runs
	watches  *watches
	token    string
	requests sync.RWMutex // held for reading by each request that is answered
}

// New makes a server of the runs in dir, which need not be there yet.
func New(dir string) *Server {
	x := newRuns(dir, runner.Held)
	return &Server{runs: x, watches: newWatches(x, lookTime), token: rand.Text()}
}

// Runs counts the runs that are there.
func (s *Server) Runs() (int, error) {
	runs, err := s.runs.list()
	return len(runs), err
}

// URL returns the server's URL at the address of its listener, with the token that
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

// Serve answers on l until ctx ends. It closes l, and returns when all requests have ended.
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
	s.requests.Lock() // wait for requests that are being answered
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
		if r.ContentLength != 0 { // nothing reads a body, but the connection may wait for it
			_ = answer.control.SetReadDeadline(time.Now().Add(headerTime))
		}
		g.ServeHTTP(answer, r)
	})
}

const apiPrefix = "/api/"

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(http.ResponseWriter, *http.Request) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := answer(w, r); err != nil {
				denyFor(w, r, err)
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
	for path, read := range map[string]func(*http.Request) (any, error){
		"runs":                             s.apiRuns,
		"runs/{id}":                        s.apiRun,
		"runs/{id}/progress":               s.apiProgress,
		"runs/{id}/trials/{task}/{number}": s.apiTrial,
		"compare":                          s.apiCompare,
	} {
		handle(apiPrefix+"v1/"+path, func(w http.ResponseWriter, r *http.Request) error {
			answer, err := read(r)
			if err == nil {
				sendJSON(w, http.StatusOK, answer)
			}
			return err
		})
	}
	handle("/runs/{id}", toOverview)
	handle("/runs/{id}/{$}", toOverview)
	handle("/runs/{id}/events", s.events)
	handle("/runs/{id}/files/{path...}", s.file)
	handle("/", func(http.ResponseWriter, *http.Request) error { return errNotThere })
	return mux
}

// denyFor says why there is no answer, as a page or as JSON.
func denyFor(w http.ResponseWriter, r *http.Request, err error) {
	no := refusalFor(err)
	if !wantsPage(r) {
		deny(w, r, no)
		return
	}
	page{title: "waza", pages: []report.Page{report.Notice("Nothing to show", no.text)}}.send(w, no.status)
}

// refusal is why a request is not answered.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

func badRequest(format string, args ...any) error {
	return &refusal{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// Errors with answers of their own.
var (
	errNotThere = &refusal{http.StatusNotFound, "There is nothing of this name. It may have been deleted."}
	errNotEnded = &refusal{http.StatusNotFound, "This trial has no verdicts yet: it has not ended, or was not graded."}
	errTooMany  = &refusal{http.StatusServiceUnavailable, "Too many pages watch runs already. Close some."}
)

func refusalFor(err error) *refusal {
	var no *refusal
	if errors.As(err, &no) {
		return no
	}
	return &refusal{http.StatusInternalServerError, "This cannot be read: " + text.Shorten(err.Error(), maxWord) + "."}
}
