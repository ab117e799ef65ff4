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

// bridge exposes a server on stdio or on HTTP+SSE as streamable HTTP.
type bridge struct {
	*server
	mirrors mirrors

	sharing sync.Mutex // held while the shared process is looked up or started

	mu       sync.Mutex
	sessions map[string]*stdioSession // by session id; nil while launching; guarded by mu
	shared   *stdioSession            // for requests without a session; guarded by mu
	launches int                      // guarded by mu
	last     *stdioSession            // the newest; guarded by mu
}

func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case !b.allowsOrigin(r.Header.Get("Origin")):
		http.Error(w, "This Origin may not use this server.", http.StatusForbidden)
	case r.Method == http.MethodPost:
		b.post(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodDelete:
		refuseMethod(w, "GET, POST, DELETE")
	case isStateless(r.Header.Get(headerVersion)):
		refuseMethod(w, "POST") // 2026-07-28 basic/transports/streamable-http
	case r.Method == http.MethodGet:
		b.get(w, r)
	default:
		b.delete(w, r)
	}
}

// allowsOrigin applies the check against DNS rebinding; 2025-11-25 basic/transports.
func (b *bridge) allowsOrigin(origin string) bool {
	if origin == "" {
		return true
	}
	host, ok := strings.CutPrefix(strings.ToLower(origin), "http://")
	return ok && (hostName(host) == b.hostKey() || transport.IsLocal(host))
}

// get opens a session's stream of messages that belong to no request.
func (b *bridge) get(w http.ResponseWriter, r *http.Request) {
	if !parseAccept(r.Header.Values("Accept")).stream {
		http.Error(w, "A GET must accept text/event-stream.", http.StatusNotAcceptable)
		return
	}
	s, status, text := b.sessionOf(r)
	if s == nil {
		http.Error(w, text, status)
		return
	}
	if !b.part.begin() {
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	defer b.part.handlers.Done()
	if r.Header.Get(headerLastEvent) != "" {
		b.resumeStream(w, r, s)
		return
	}
	ctx, release, err := s.hold(r.Context(), s.own)
	if err != nil {
		return // the agent left
	}
	defer release()
	stream := openStream(w, b.proxy.limits.Write)
	defer stream.close()
	stream.start()
	stream.copy(ctx, s.own, b.proxy.limits.Idle)
}

// resumeStream resumes a stream after the last event that the agent received.
func (b *bridge) resumeStream(w http.ResponseWriter, r *http.Request, s *stdioSession) {
	after, ok := parseEventID(r.Header.Get(headerLastEvent))
	err := errNoEvent
	var again resumption
	if ok {
		again, err = s.resume(r.Context(), after)
	}
	if err != nil {
		http.Error(w, "Bad "+headerLastEvent+": "+err.Error()+".", http.StatusBadRequest)
		return
	}
	if again.ex != nil {
		defer s.leave(again.ex)
	}
	defer again.release()
	// The replay buffer may drop these events while they wait for the agent.
	missed := again.size()
	if !b.proxy.memory.Take(missed) {
		b.events.Add("limit", "a stream was not resumed: it is "+transport.ErrNoMemory.Error(), map[string]any{"conn": s.conn})
		http.Error(w, "The stream is "+transport.ErrNoMemory.Error()+".", http.StatusServiceUnavailable)
		return
	}
	defer b.proxy.memory.Give(missed)
	stream := openStream(w, b.proxy.limits.Write)
	defer stream.close()
	stream.start()
	whole := true
	for _, e := range again.missed {
		s.recordLate(e.late)
		whole = whole && stream.message(e.id.String(), e.raw)
	}
	if again.stream != nil {
		whole = whole && stream.copy(again.ctx, again.stream, b.proxy.limits.Idle)
	}
	if !whole && again.ex != nil {
		s.abandon(again.ex)
	}
}

// delete ends a session.
func (b *bridge) delete(w http.ResponseWriter, r *http.Request) {
	s, status, text := b.sessionOf(r)
	if s == nil {
		http.Error(w, text, status)
		return
	}
	b.endSession(s)
	w.WriteHeader(http.StatusNoContent)
}

// sessionOf returns the session that a request names, or the HTTP status and text of an
// error.
func (b *bridge) sessionOf(r *http.Request) (s *stdioSession, status int, text string) {
	session := r.Header.Get(headerSession)
	if session == "" {
		return nil, http.StatusBadRequest, "The " + headerSession + " header is missing."
	}
	if s = b.session(session); s == nil {
		return nil, http.StatusNotFound, "There is no such session, or it has ended."
	}
	if version := r.Header.Get(headerVersion); version != "" && !s.speaks(version) {
		return nil, http.StatusBadRequest, fmt.Sprintf("The session does not speak protocol version %q.", version)
	}
	return s, http.StatusOK, ""
}

// newSession creates a session and starts its process, unless the shared one can become it.
func (b *bridge) newSession() (*stdioSession, error) {
	b.mu.Lock()
	if len(b.sessions) >= b.proxy.limits.Sessions {
		b.mu.Unlock()
		b.events.Add("limit", fmt.Sprintf("no more than %d sessions at once are allowed", b.proxy.limits.Sessions), nil)
		return nil, errSessions
	}
	if s := b.shared; s != nil && s.become() {
		b.shared, b.sessions[s.id] = nil, s
		b.mu.Unlock()
		b.started(s)
		return s, nil
	}
	session := rand.Text()
	b.sessions[session] = nil
	b.mu.Unlock()
	s, err := b.launch(session, false)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		delete(b.sessions, session)
		return nil, err
	}
	if !s.hasEnded() {
		b.sessions[session] = s
	}
	return s, nil
}

// session returns the session with an ID, or nil if there is none or it has ended.
func (b *bridge) session(session string) *stdioSession {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.sessions[session]; s != nil && !s.hasEnded() {
		return s
	}
	return nil
}

// endSession ends a session now; its process ends soon after. For the runner it waits for that. The
// newest process of a server with Keep is kept.
func (b *bridge) endSession(s *stdioSession) {
	b.drop(s)
	b.mu.Lock()
	kept := b.Keep && b.last == s
	b.mu.Unlock()
	if kept {
		s.free()
		return
	}
	s.lines.Stop()
	if b.isOwn() {
		<-s.lines.Gone()
	}
}

// keepNewest keeps the newest process of a server with Keep, for the runner.
func (b *bridge) keepNewest() {
	b.mu.Lock()
	s := b.last
	b.mu.Unlock()
	if b.Keep && s != nil {
		s.free()
	}
}

// started notes the process of the newest session, and ends the one before if its session is over.
func (b *bridge) started(s *stdioSession) {
	b.mu.Lock()
	before := b.last
	b.last = s
	b.mu.Unlock()
	if before != nil && before.isReleased() {
		before.lines.Stop()
	}
}

// drop removes a session.
func (b *bridge) drop(s *stdioSession) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, s.id)
	if b.shared == s {
		b.shared = nil
	}
}

// sharedSession returns the session shared by all requests without a session, starting its
// process if necessary.
func (b *bridge) sharedSession() (*stdioSession, error) {
	b.sharing.Lock()
	defer b.sharing.Unlock()
	b.mu.Lock()
	s := b.shared
	b.mu.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := b.launch(rand.Text(), true)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !s.hasEnded() {
		b.shared = s
	}
	return s, nil
}

// launch starts the process of a session, or of the shared one.
func (b *bridge) launch(session string, shared bool) (*stdioSession, error) {
	if b.allowed.fromServer.over() {
		return nil, transport.ErrFlooded
	}
	conn, err := b.nextConn()
	if err != nil {
		return nil, err
	}
	s, err := startStdioSession(b, conn, session, shared)
	if err != nil {
		if !b.isOwn() {
			b.events.Add("server_exit", fmt.Sprintf("did not start: %v", err), map[string]any{"conn": conn})
		}
		return nil, &transport.StartError{Server: b.Name, Program: b.Upstream == nil, Err: err}
	}
	b.started(s)
	return s, nil
}

func (b *bridge) nextConn() (string, error) {
	b.mu.Lock()
	launches := b.launches
	if launches < b.proxy.limits.Launches {
		b.launches++
	}
	b.mu.Unlock()
	if launches >= b.proxy.limits.Launches {
		b.events.Add("limit", fmt.Sprintf("no more than %d processes may be started", b.proxy.limits.Launches), nil)
		return "", errLaunches
	}
	return b.connName(launches + 1), nil
}
