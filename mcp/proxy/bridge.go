package proxy

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/waza-isolate/waza/mcp/transport"
)

var (
	errSessions = errors.New("too many sessions at once")
	errLaunches = errors.New("too many processes were started")
)

// bridge serves a server that reads messages from a stdin and writes them to a stdout,
// or looks as if it did, over streamable HTTP.
type bridge struct {
	*server
	mirrors mirrors

	sharing sync.Mutex // held while the shared process is looked for or launched

	mu       sync.Mutex
	sessions map[string]*link // by session id; nil while launching; guarded by mu
	shared   *link            // of requests without sessions; guarded by mu
	launches int              // guarded by mu
}

func (s *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !s.allowsOrigin(r.Header.Get("Origin")):
		http.Error(w, "This Origin may not use this server.", http.StatusForbidden)
	case r.Method == http.MethodPost:
		s.post(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodDelete:
		refuseMethod(w, "GET, POST, DELETE")
	case isStateless(r.Header.Get(headerVersion)):
		refuseMethod(w, "POST") // 2026-07-28 basic/transports/streamable-http
	case r.Method == http.MethodGet:
		s.get(w, r)
	default:
		s.delete(w, r)
	}
}

// allowsOrigin is the rule against DNS rebinding; 2025-11-25 basic/transports.
func (s *bridge) allowsOrigin(origin string) bool {
	if origin == "" {
		return true
	}
	host, ok := strings.CutPrefix(strings.ToLower(origin), "http://")
	return ok && (hostName(host) == s.hostKey() || transport.IsLocal(host))
}

// get opens the stream of a session for what belongs to no request.
func (s *bridge) get(w http.ResponseWriter, r *http.Request) {
	if !parseAccept(r.Header.Values("Accept")).stream {
		http.Error(w, "A GET must accept text/event-stream.", http.StatusNotAcceptable)
		return
	}
	l, status, text := s.sessionOf(r)
	if l == nil {
		http.Error(w, text, status)
		return
	}
	if !s.proxy.begin() {
		http.Error(w, ErrClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.proxy.handlers.Done()
	if r.Header.Get(headerLastEvent) != "" {
		s.getAgain(w, r, l)
		return
	}
	ctx, release, err := l.hold(r.Context(), l.own)
	if err != nil {
		return // the agent left
	}
	defer release()
	stream := openStream(w, s.proxy.limits.Write)
	defer stream.close()
	stream.start()
	stream.copy(ctx, l.own, s.proxy.limits.Idle)
}

// getAgain goes on with a stream where the agent lost it.
func (s *bridge) getAgain(w http.ResponseWriter, r *http.Request, l *link) {
	after, ok := parseEventID(r.Header.Get(headerLastEvent))
	err := errNoEvent
	var again resumption
	if ok {
		again, err = l.resume(r.Context(), after)
	}
	if err != nil {
		http.Error(w, "Bad "+headerLastEvent+": "+err.Error()+".", http.StatusBadRequest)
		return
	}
	if again.ex != nil {
		defer l.leave(again.ex)
	}
	defer again.release()
	// The journal may forget them while they wait for the agent.
	missed := again.size()
	if !s.proxy.memory.Take(missed) {
		s.events.Add("limit", "a stream was not resumed: it is "+transport.ErrNoMemory.Error(), map[string]any{"conn": l.conn})
		http.Error(w, "The stream is "+transport.ErrNoMemory.Error()+".", http.StatusServiceUnavailable)
		return
	}
	defer s.proxy.memory.Give(missed)
	stream := openStream(w, s.proxy.limits.Write)
	defer stream.close()
	stream.start()
	whole := true
	for _, e := range again.missed {
		l.recordLate(e.late)
		whole = whole && stream.message(e.id.String(), e.raw)
	}
	if again.stream != nil {
		whole = whole && stream.copy(again.ctx, again.stream, s.proxy.limits.Idle)
	}
	if !whole && again.ex != nil {
		l.abandon(again.ex)
	}
}

// delete ends a session.
func (s *bridge) delete(w http.ResponseWriter, r *http.Request) {
	l, status, text := s.sessionOf(r)
	if l == nil {
		http.Error(w, text, status)
		return
	}
	s.endSession(l)
	w.WriteHeader(http.StatusNoContent)
}

// sessionOf finds the session a request names, or says why there is none.
func (s *bridge) sessionOf(r *http.Request) (l *link, status int, text string) {
	session := r.Header.Get(headerSession)
	if session == "" {
		return nil, http.StatusBadRequest, "The " + headerSession + " header is missing."
	}
	if l = s.session(session); l == nil {
		return nil, http.StatusNotFound, "There is no such session, or it has ended."
	}
	if version := r.Header.Get(headerVersion); version != "" && !l.speaks(version) {
		return nil, http.StatusBadRequest, fmt.Sprintf("The session does not speak protocol version %q.", version)
	}
	return l, http.StatusOK, ""
}

// newSession starts a session and its process.
func (s *bridge) newSession() (*link, error) {
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
func (s *bridge) session(session string) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.sessions[session]; l != nil && !l.isOver() {
		return l
	}
	return nil
}

// endSession ends l's session now, and its process soon.
func (s *bridge) endSession(l *link) {
	s.drop(l)
	l.lines.Stop()
}

// drop forgets a link that is over or unwanted.
func (s *bridge) drop(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, l.session)
	if s.shared == l {
		s.shared = nil
	}
}

// sharedLink returns the process that all requests without a session share, and
// launches it where there is none.
func (s *bridge) sharedLink() (*link, error) {
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
func (s *bridge) launch(session string) (*link, error) {
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

func (s *bridge) nextConn() (string, error) {
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
