package proxy

import (
	"errors"
	"fmt"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/mcp/transport"
)

// endpoint is the path of every server.
const endpoint = "/mcp"

// Headers of streamable HTTP.
const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
)

// maxUserAgent is how much of a User-Agent is kept.
const maxUserAgent = 256

// Handler serves the MCP endpoints of all servers, told apart by Host, or that of
// only, where it names one. There, a Host that is neither its name nor local is
// refused as a server on loopback would (2025-11-25 basic/transports), and left to
// the server where that speaks HTTP itself.
func (p *Proxy) Handler(only string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := p.servers[hostName(r.Host)]
		alone := p.named(only)
		if s == nil && alone != nil && (transport.IsLocal(r.Host) || alone.Streamable()) {
			s = alone
		}
		if s == nil {
			http.Error(w, fmt.Sprintf("No MCP server is called %q here.", r.Host), http.StatusMisdirectedRequest)
			return
		}
		s.serveHTTP(w, r)
	})
}

// named is the server of a name; nil where there is none.
func (p *Proxy) named(name string) *server {
	for _, s := range p.servers {
		if s.Name == name {
			return s
		}
	}
	return nil
}

func (s *server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != endpoint:
		http.Error(w, "The MCP endpoint is "+endpoint+"; there is nothing else here.", http.StatusNotFound)
	case s.Streamable():
		s.pass(w, r)
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

func refuseMethod(w http.ResponseWriter, allow string) {
	w.Header().Set("Allow", allow)
	http.Error(w, "The endpoint does not know this method.", http.StatusMethodNotAllowed)
}

// hostName is the server name in a Host header: without the port of http, in
// lower case.
func hostName(host string) string {
	return strings.ToLower(strings.TrimSuffix(host, ":80"))
}

// isListener says whether a Host header is the address that a request came to.
func isListener(r *http.Request, host string) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && strings.EqualFold(host, addr.String())
}

// allowsOrigin is the rule against DNS rebinding; 2025-11-25 basic/transports.
func (s *server) allowsOrigin(origin string) bool {
	if origin == "" {
		return true
	}
	host, ok := strings.CutPrefix(strings.ToLower(origin), "http://")
	return ok && (hostName(host) == s.hostKey() || transport.IsLocal(host))
}

// get opens the stream of a session for what belongs to no request.
func (s *server) get(w http.ResponseWriter, r *http.Request) {
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
	stream.copy(ctx, l.own, s.proxy.limits.Idle)
}

// delete ends a session.
func (s *server) delete(w http.ResponseWriter, r *http.Request) {
	l, status, text := s.sessionOf(r)
	if l == nil {
		http.Error(w, text, status)
		return
	}
	s.endSession(l)
	w.WriteHeader(http.StatusNoContent)
}

// sessionOf finds the session a request names, or says why there is none.
func (s *server) sessionOf(r *http.Request) (l *link, status int, text string) {
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

func (l *link) speaks(version string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return isSessionVersion(version) || version == l.version
}

// accepts is what the agent takes as the answer to a POST.
type accepts struct{ json, stream bool }

// parseAccept is lenient: no header, and a range, accept both.
func parseAccept(values []string) accepts {
	all := strings.Join(values, ",")
	if strings.TrimSpace(all) == "" {
		return accepts{json: true, stream: true}
	}
	var a accepts
	for part := range strings.SplitSeq(all, ",") {
		kind, _, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		a.json = a.json || kind == "application/json" || kind == "application/*" || kind == "*/*"
		a.stream = a.stream || kind == sse.ContentType || kind == "text/*" || kind == "*/*"
	}
	return a
}

// readPost reads the body of a POST within the limits. Where it fails it has
// answered. The caller releases the holding.
func (s *server) readPost(w http.ResponseWriter, r *http.Request) (*transport.Held, bool) {
	limits := s.proxy.limits
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(limits.Body))
	body, err := transport.ReadBody(r.Body, r.ContentLength, s.Message, s.proxy.memory)
	if err == nil {
		_ = control.SetReadDeadline(time.Time{})
		return body, true
	}
	w.Header().Set("Connection", "close")
	switch {
	case errors.Is(err, transport.ErrTooLong):
		s.events.Add("limit", fmt.Sprintf("a request was over %d bytes", s.Message), nil)
		http.Error(w, "The message is "+err.Error()+".", http.StatusRequestEntityTooLarge)
	case errors.Is(err, transport.ErrNoMemory):
		s.events.Add("limit", "a request was "+err.Error(), nil)
		http.Error(w, "The message is "+err.Error()+".", http.StatusServiceUnavailable)
	case errors.Is(err, os.ErrDeadlineExceeded):
		s.events.Add("limit", fmt.Sprintf("a request's body was not in after %v", limits.Body), nil)
		http.Error(w, "The body took too long.", http.StatusRequestTimeout)
	default:
		http.Error(w, "The body cannot be read.", http.StatusBadRequest)
	}
	return body, false
}

func peerOf(r *http.Request) evidence.Peer {
	agent := r.UserAgent()
	return evidence.Peer{Addr: r.RemoteAddr, UserAgent: agent[:min(len(agent), maxUserAgent)]}
}
