package proxy

import (
	"context"
	"mime"
	"net/http"
	"strings"

	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/mcp/transport"
)

// outgoing returns the request to the server for a request from the agent. isOwn reports
// whether a host is the name by which the agent addresses the server.
func outgoing(ctx context.Context, u *transport.Upstream, r *http.Request, isOwn func(host string) bool) *http.Request {
	out := u.Request(ctx, r.Method)
	out.URL.RawQuery = joinQueries(u.URL.RawQuery, r.URL.RawQuery)
	out.Header = web.EndToEnd(r.Header)
	out.Header.Del("Expect") // the body has been read already
	if r.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // otherwise net/http sets its own
	}
	if !u.Remote && !isOwn(r.Host) {
		out.Host = r.Host
	}
	if sender := r.Header.Get("Origin"); sender != "" {
		host, isHTTP := strings.CutPrefix(strings.ToLower(sender), "http://")
		if u.Remote || isHTTP && isOwn(host) {
			out.Header.Set("Origin", transport.Origin(u.URL))
		}
	}
	return out
}

func joinQueries(own, agents string) string {
	if own == "" || agents == "" {
		return own + agents
	}
	return own + "&" + agents
}

// isRecoded reports whether the body is declared to have a charset other than UTF-8. A
// server that honors the charset would read a different message than the one recorded: in
// UTF-7, for instance, letters can stand for quotes and braces.
func isRecoded(h http.Header) bool {
	for _, kind := range h.Values("Content-Type") {
		if !strings.Contains(strings.ToLower(kind), "charset") {
			continue
		}
		_, params, err := mime.ParseMediaType(kind)
		if charset := strings.ToLower(params["charset"]); err != nil || charset != "utf-8" && charset != "utf8" {
			return true
		}
	}
	return false
}

// remoteOnly returns the response headers that are not forwarded from a remote server. They
// address browsers and authorization clients of the server's own origin, but the agent sees
// another origin, and the runner handles authorization. Headers that hold URLs often repeat
// the request URL, and so secrets in its query.
func remoteOnly() []string {
	return []string{
		"Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Www-Authenticate", "Location", "Content-Location", "Refresh",
	}
}

// copyHeaders copies the response headers that the agent may see.
func copyHeaders(u *transport.Upstream, to, from http.Header) {
	for name, values := range web.EndToEnd(from) {
		to[name] = values
	}
	to.Del("Content-Length") // net/http sets it
	if !u.Remote {
		return
	}
	for _, name := range remoteOnly() {
		to.Del(name)
	}
}
