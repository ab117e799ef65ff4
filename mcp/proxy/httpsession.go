package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// httpSession is a conversation with a server on streamable HTTP: one of the server's
// sessions, or requests without a session.
type httpSession struct {
	conversation
	id string // the server's session id; empty without a session. Set before others join

	open   map[string][]*asked // unanswered requests by id key, oldest first; guarded by httpSessions.mu
	active int                 // requests that wait for a response; guarded by httpSessions.mu
}

// asked is a request from the agent that the server has not answered.
type asked struct {
	id      jsonrpc.ID
	method  string
	injects injections // for the result of a call
	kept    bool       // its response ended without an answer; guarded by httpSessions.mu
}

// httpSessions holds the conversations with one server.
type httpSessions struct {
	server *server

	mu       sync.Mutex
	sessions map[string]*httpSession // by the server's session id; guarded by mu
	loose    []*httpSession          // conversations without a session; guarded by mu
	count    int                     // of all conversations so far; guarded by mu
	kept     int                     // unanswered requests whose responses have ended; guarded by mu
}

func newHTTPSessions(s *server) *httpSessions {
	return &httpSessions{server: s, sessions: map[string]*httpSession{}}
}

// join returns the conversation that a request belongs to, starting one if necessary, and
// registers the requests in env as unanswered.
func (hs *httpSessions) join(id string, env envelope) (*httpSession, []*asked, error) {
	limits := hs.server.proxy.limits
	hs.mu.Lock()
	defer hs.mu.Unlock()
	session, err := hs.find(id, env)
	if err != nil {
		return nil, nil, err
	}
	requests := env.of(request)
	if len(requests) > 0 && session.active >= limits.InFlight {
		hs.server.events.Add("limit", fmt.Sprintf("no more than %d requests at once are allowed", limits.InFlight), map[string]any{"conn": session.conn})
		return nil, nil, errBusy
	}
	var waiting []*asked
	for _, m := range requests {
		a := &asked{id: m.id, method: m.method, injects: hs.server.injectionsFor(m)}
		session.open[m.id.Key] = append(session.open[m.id.Key], a)
		waiting = append(waiting, a)
	}
	if len(waiting) > 0 {
		session.active++
	}
	return session, waiting, nil
}

func (hs *httpSessions) find(id string, env envelope) (*httpSession, error) {
	if len(env.messages) > 0 && env.isInitialize() {
		return hs.begin() // learn sets its id from the response
	}
	if session := hs.sessions[id]; session != nil {
		return session, nil
	}
	free := func(session *httpSession) bool {
		return !slices.ContainsFunc(env.of(request), func(m message) bool { return len(session.open[m.id.Key]) > 0 })
	}
	if i := slices.IndexFunc(hs.loose, free); i >= 0 {
		return hs.loose[i], nil
	}
	session, err := hs.begin()
	if err == nil {
		hs.loose = append(hs.loose, session)
	}
	return session, err
}

func (hs *httpSessions) begin() (*httpSession, error) {
	max := hs.server.proxy.limits.Launches
	if hs.count >= max {
		hs.server.events.Add("limit", fmt.Sprintf("no more than %d conversations are allowed", max), nil)
		return nil, errSessions
	}
	hs.count++
	return &httpSession{conversation: conversation{hs.server, hs.server.connName(hs.count)}, open: map[string][]*asked{}}, nil
}

// learn registers the session that a response opened, and removes one that has ended.
func (hs *httpSessions) learn(session *httpSession, method string, initialize bool, response *http.Response) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	id := response.Header.Get(headerSession)
	switch {
	case initialize && id != "" && len(id) <= jsonrpc.MaxName:
		session.id = id
		hs.sessions[id] = session
	case session.id == "":
	case response.StatusCode == http.StatusNotFound, method == http.MethodDelete && response.StatusCode < 300:
		delete(hs.sessions, session.id)
		hs.forget(session)
	}
}

// forget drops the kept requests of a session that has ended.
func (hs *httpSessions) forget(session *httpSession) {
	for key, open := range session.open {
		for i := len(open) - 1; i >= 0; i-- {
			if open[i].kept {
				hs.drop(session, key, i)
			}
		}
	}
}

// answer removes and returns the oldest unanswered request with an id, or else with its
// twin, or nil.
func (hs *httpSessions) answer(session *httpSession, id jsonrpc.ID) *asked {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, key := range []string{id.Key, id.Twin()} {
		if waiting := session.open[key]; len(waiting) > 0 {
			hs.drop(session, key, 0)
			return waiting[0]
		}
	}
	return nil
}

func (hs *httpSessions) drop(session *httpSession, key string, i int) {
	if session.open[key][i].kept {
		hs.kept--
	}
	left := slices.Delete(slices.Clone(session.open[key]), i, i+1)
	if session.open[key] = left; len(left) == 0 {
		delete(session.open, key)
	}
}

// unanswered returns the requests in waiting that the server has not answered.
func (hs *httpSessions) unanswered(session *httpSession, waiting []*asked) []*asked {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	var left []*asked
	for _, a := range waiting {
		if slices.Contains(session.open[a.id.Key], a) {
			left = append(left, a)
		}
	}
	return left
}

// leave is called when a response has ended. If keep is set, unanswered requests are kept,
// since they may be answered on a resumed stream.
func (hs *httpSessions) leave(session *httpSession, waiting []*asked, keep bool) {
	if len(waiting) == 0 {
		return
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	session.active--
	for _, a := range waiting {
		i := slices.Index(session.open[a.id.Key], a)
		switch {
		case i < 0:
		case keep && hs.kept < maxKept:
			a.kept = true
			hs.kept++
		default:
			hs.drop(session, a.id.Key, i)
		}
	}
}

// maxKept limits the unanswered requests of one server that are kept after their responses
// have ended.
const maxKept = 1024
