package proxy

import (
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/waza-isolate/waza/mcp/jsonrpc"
)

// httpSession is a conversation with a server over HTTP: a session of the server's,
// or requests that belong to none.
type httpSession struct {
	conn    string
	session string // of the server; empty where there is none

	open   map[string][]*asked // not answered, by id key, oldest first; guarded by dialogues.mu
	active int                 // requests that wait for their response; guarded by dialogues.mu
}

// asked is a request of the agent's.
type asked struct {
	id      jsonrpc.ID
	method  string
	injects injections // what is to be added to the result of a call
	kept    bool       // its response is over; guarded by dialogues.mu
}

// dialogues are the conversations with one server.
type dialogues struct {
	server *server

	mu       sync.Mutex
	sessions map[string]*httpSession // by the server's session id; guarded by mu
	loose    []*httpSession          // without session; guarded by mu
	count    int                     // ever; guarded by mu
	kept     int                     // requests that are kept in mind; guarded by mu
}

func newDialogues(s *server) *dialogues {
	return &dialogues{server: s, sessions: map[string]*httpSession{}}
}

// join finds the conversation that a request belongs to, begins it where there is
// none, and notes the messages that the server is asked to answer.
func (ds *dialogues) join(session string, env envelope) (*httpSession, []*asked, error) {
	limits := ds.server.proxy.limits
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d, err := ds.find(session, env)
	if err != nil {
		return nil, nil, err
	}
	requests := env.of(request)
	if len(requests) > 0 && d.active >= limits.InFlight {
		ds.server.events.Add("limit", fmt.Sprintf("%d requests at once are the most", limits.InFlight), map[string]any{"conn": d.conn})
		return nil, nil, errBusy
	}
	var waiting []*asked
	for _, m := range requests {
		a := &asked{id: m.id, method: m.method, injects: ds.server.injects.of(m)}
		d.open[m.id.Key] = append(d.open[m.id.Key], a)
		waiting = append(waiting, a)
	}
	if len(waiting) > 0 {
		d.active++
	}
	return d, waiting, nil
}

func (ds *dialogues) find(session string, env envelope) (*httpSession, error) {
	if d := ds.sessions[session]; d != nil {
		return d, nil
	}
	if len(env.messages) > 0 && env.isInitialize() {
		return ds.begin() // it gets its session from the response
	}
	free := func(d *httpSession) bool {
		return !slices.ContainsFunc(env.of(request), func(m message) bool { return len(d.open[m.id.Key]) > 0 })
	}
	if i := slices.IndexFunc(ds.loose, free); i >= 0 {
		return ds.loose[i], nil
	}
	d, err := ds.begin()
	if err == nil {
		ds.loose = append(ds.loose, d)
	}
	return d, err
}

func (ds *dialogues) begin() (*httpSession, error) {
	max := ds.server.proxy.limits.Launches
	if ds.count >= max {
		ds.server.events.Add("limit", fmt.Sprintf("%d conversations in all are the most", max), nil)
		return nil, errSessions
	}
	ds.count++
	return &httpSession{conn: fmt.Sprintf("%s/%d", ds.server.Name, ds.count), open: map[string][]*asked{}}, nil
}

// learn keeps the session that a response opened, or forgets one that is over.
func (ds *dialogues) learn(d *httpSession, method string, initialize bool, response *http.Response) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	session := response.Header.Get(headerSession)
	switch {
	case initialize && session != "" && len(session) <= jsonrpc.MaxName:
		d.session = session
		ds.sessions[session] = d
	case d.session == "":
	case response.StatusCode == http.StatusNotFound, method == http.MethodDelete && response.StatusCode < 300:
		delete(ds.sessions, d.session)
		ds.forget(d)
	}
}

// forget drops the requests of a session that is over.
func (ds *dialogues) forget(d *httpSession) {
	for key, open := range d.open {
		for i := len(open) - 1; i >= 0; i-- {
			if open[i].kept {
				ds.drop(d, key, i)
			}
		}
	}
}

// answer takes the oldest request with an id, which the server answered; nil where
// none waits for that.
func (ds *dialogues) answer(d *httpSession, key string) *asked {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	waiting := d.open[key]
	if len(waiting) == 0 {
		return nil
	}
	ds.drop(d, key, 0)
	return waiting[0]
}

// awaits says whether a request with an id is not answered yet.
func (ds *dialogues) awaits(d *httpSession, key string) bool {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	return len(d.open[key]) > 0
}

func (ds *dialogues) drop(d *httpSession, key string, i int) {
	if d.open[key][i].kept {
		ds.kept--
	}
	left := slices.Delete(slices.Clone(d.open[key]), i, i+1)
	if d.open[key] = left; len(left) == 0 {
		delete(d.open, key)
	}
}

// unanswered is what of waiting the server has not answered yet.
func (ds *dialogues) unanswered(d *httpSession, waiting []*asked) []*asked {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	var left []*asked
	for _, a := range waiting {
		if slices.Contains(d.open[a.id.Key], a) {
			left = append(left, a)
		}
	}
	return left
}

// leave ends the wait for a response. What it did not answer may still be answered
// elsewhere where keep says so: streams of a session can be resumed.
func (ds *dialogues) leave(d *httpSession, waiting []*asked, keep bool) {
	if len(waiting) == 0 {
		return
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.active--
	for _, a := range waiting {
		i := slices.Index(d.open[a.id.Key], a)
		switch {
		case i < 0:
		case keep && ds.kept < maxKept:
			a.kept = true
			ds.kept++
		default:
			ds.drop(d, a.id.Key, i)
		}
	}
}

// maxKept is how many unanswered requests of one server are kept in mind when their
// responses are over.
const maxKept = 1024
