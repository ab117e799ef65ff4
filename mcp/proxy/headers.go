package proxy

import (
	"context"
	"mime"
	"net/http"
	"strings"

	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/mcp/transport"
)

// outgoing returns the agent's request as the server gets it. isOwn reports whether a host
// is the server's name, as the agent knows it.
func outgoing(ctx context.Context, u *transport.Upstream, r *http.Request, isOwn func(host string) bool) *http.Request {
	out := u.Request(ctx, r.Method)
	out.URL.RawQuery = joinQueries(u.URL.RawQuery, r.URL.RawQuery)
	out.Header = web.EndToEnd(r.Header)
	out.Header.Del("Expect") // the body is here
	if r.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // or net/http sets its own
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

// isRecoded reports whether a body is declared as text of another encoding than UTF-8. A
// server that goes by that reads another message than is on record: quotes and braces
// of UTF-7 are plain letters to everybody else.
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

// remoteOnly returns the headers with which a remote server addresses browsers and authorization
// clients of its own origin. The agent knows the server under another origin, and the runner does
// the authorization. Headers with URLs often repeat the request's, and so secrets in its query.
func remoteOnly() []string {
	return []string{
		"Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Www-Authenticate", "Location", "Content-Location", "Refresh",
	}
}

// copyHeaders copies the headers of a response that the agent gets.
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
