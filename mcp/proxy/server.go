package proxy

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/mcp/transport"
)

var (
	errSessions = errors.New("too many sessions at once")
	errLaunches = errors.New("too many processes were started")
)

// server is a declared server and what is alive of it.
type server struct {
	Server
	proxy   *Proxy
	stderr  *bounded.Head
	events  *transport.Events
	tools   toolFilter
	injects injections

	allowed *allowance

	dialogues *dialogues // with an upstream

	mirrors mirrors

	refused sync.Mutex // keeps a refused request and its answer side by side

	sharing sync.Mutex // held while the shared process is looked for or launched

	mu       sync.Mutex
	sessions map[string]*link // by session id; nil while launching; guarded by mu
	shared   *link            // of requests without sessions; guarded by mu
	launches int              // guarded by mu
}

func newServer(p *Proxy, s Server) (*server, error) {
	injects, err := newInjections(s.Inject)
	if err != nil {
		return nil, err
	}
	srv := &server{Server: s, proxy: p, sessions: map[string]*link{}, tools: newToolFilter(s.Tools), allowed: newAllowance(s, p.limits.Share), injects: injects}
	srv.events = transport.NewEvents(p.rec, s.Name)
	srv.dialogues = newDialogues(srv)
	srv.stderr = s.StderrSink(srv.events, "limit")
	return srv, nil
}

// refusedConn is the conversation of what never reached a process.
func (s *server) refusedConn() string { return s.Name + "/0" }

// newSession starts a session and its process.
func (s *server) newSession() (*link, error) {
	session := rand.Text()
	s.mu.Lock()
	full := len(s.sessions) >= s.proxy.limits.Sessions
	if !full {
		s.sessions[session] = nil
	}
	s.mu.Unlock()
	if full {
		s.events.Add("limit", fmt.Sprintf("%d sessions at once are the most", s.proxy.limits.Sessions), nil)
		return nil, errSessions
	}
	l, err := s.launch(session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.sessions, session)
		return nil, err
	}
	if !l.isOver() {
		s.sessions[session] = l
	}
	return l, nil
}

// session finds a live session. One that is over is forgotten a moment later.
func (s *server) session(session string) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.sessions[session]; l != nil && !l.isOver() {
		return l
	}
	return nil
}

// endSession ends l's session now, and its process soon.
func (s *server) endSession(l *link) {
	s.drop(l)
	l.lines.Stop()
}

// drop forgets a link that is over or unwanted.
func (s *server) drop(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, l.session)
	if s.shared == l {
		s.shared = nil
	}
}

// sharedLink returns the process that all requests without a session share, and
// launches it where there is none.
func (s *server) sharedLink() (*link, error) {
	s.sharing.Lock()
	defer s.sharing.Unlock()
	s.mu.Lock()
	l := s.shared
	s.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l, err := s.launch("")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.isOver() {
		s.shared = l
	}
	return l, nil
}

// launch starts a process for the conversation of session, or for the shared one
// where session is empty.
func (s *server) launch(session string) (*link, error) {
	if s.allowed.heard.over() {
		return nil, transport.ErrFlooded
	}
	conn, err := s.nextConn()
	if err != nil {
		return nil, err
	}
	l, err := startLink(s, conn, session)
	if err != nil {
		s.events.Add("server_exit", fmt.Sprintf("did not start: %v", err), map[string]any{"conn": conn})
		return nil, fmt.Errorf("server %q did not start: %w", s.Name, err)
	}
	return l, nil
}

func (s *server) nextConn() (string, error) {
	s.mu.Lock()
	launches := s.launches
	if launches < s.proxy.limits.Launches {
		s.launches++
	}
	s.mu.Unlock()
	if launches >= s.proxy.limits.Launches {
		s.events.Add("limit", fmt.Sprintf("%d processes in all are the most", s.proxy.limits.Launches), nil)
		return "", errLaunches
	}
	return fmt.Sprintf("%s/%d", s.Name, launches+1), nil
}
