package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/endtoend"
)

// Upstream is where a server that speaks HTTP is found, and how it is reached.
type Upstream struct {
	// URL is the server's endpoint. Its host is dialled by Transport alone.
	URL       *url.URL
	Transport http.RoundTripper
	// Headers are set over what the agent sent. Where there are any the agent's
	// own Authorization and Cookie are not passed on.
	Headers map[string]string
	// Remote says that the server is not one of the trial's own: it is called by
	// the host of its URL, whatever the agent calls it, and what it says about its
	// own origin does not reach the agent.
	Remote bool
	// Events says that it speaks the HTTP+SSE transport of 2024-11-05.
	Events bool
	// Process is the program behind it; nil where that is not ours.
	Process *Resident
}

// Barred is an error of a Transport that will not connect to where the server is, however
// often it is asked.
type Barred struct{ Err error }

func (b *Barred) Error() string { return b.Err.Error() }

func (b *Barred) Unwrap() error { return b.Err }

func (u *Upstream) validate() error {
	switch {
	case u.URL == nil || u.Transport == nil:
		return errors.New("no URL or no transport")
	case u.URL.Scheme != "http" && u.URL.Scheme != "https", u.URL.Host == "":
		return errors.New("its URL is not http or https")
	case u.URL.User != nil:
		return errors.New("its URL holds a user; credentials belong into headers")
	}
	return nil
}

// origin is the scheme, host and port of a URL; RFC 6454.
func origin(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return u.Scheme + "://" + host
}

// sameOrigin says whether two URLs are of one origin. In a container all names of
// the loopback are one.
func (u *Upstream) sameOrigin(a, b *url.URL) bool {
	if origin(a) == origin(b) || !defence.OneOrigin && u.Remote {
		return true
	}
	return !u.Remote && a.Scheme == b.Scheme && a.Port() == b.Port() && isLoopback(a.Hostname()) && isLoopback(b.Hostname())
}

// isLoopback takes the address that servers listen on everywhere for one of them.
func isLoopback(name string) bool { return isLocal(name) || name == "0.0.0.0" || name == "::" }

// withoutURL is an error of net/http without the URL in it, which may hold a
// secret.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// outgoing is the agent's request as the server gets it. isOwn says whether a host
// is the server's name, as the agent knows it.
func (u *Upstream) outgoing(ctx context.Context, r *http.Request, body []byte, isOwn func(host string) bool) *http.Request {
	out := u.request(ctx, r.Method, body)
	out.URL.RawQuery = joinQueries(u.URL.RawQuery, r.URL.RawQuery)
	out.Header = endtoend.Headers(r.Header)
	out.Header.Set("Accept-Encoding", "identity")
	out.Header.Del("Expect") // it was met
	if r.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // or net/http names itself
	}
	if !u.Remote && !isOwn(r.Host) {
		out.Host = r.Host
	}
	if sender := r.Header.Get("Origin"); sender != "" {
		host, isHTTP := strings.CutPrefix(strings.ToLower(sender), "http://")
		if u.Remote || isHTTP && isOwn(host) {
			out.Header.Set("Origin", origin(u.URL))
		}
	}
	u.authorize(out)
	return out
}

// request is one of the proxy's own, with a URL that the caller may change.
func (u *Upstream) request(ctx context.Context, method string, body []byte) *http.Request {
	where := *u.URL
	r := (&http.Request{
		Method: method, URL: &where, Host: where.Host, Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	setBody(r, body)
	return r
}

func setBody(r *http.Request, body []byte) {
	r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	if len(body) == 0 {
		return
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = open()
	r.GetBody, r.ContentLength = open, int64(len(body)) // net/http sends again what it could not begin to send
}

func (u *Upstream) authorize(r *http.Request) {
	if len(u.Headers) == 0 {
		return
	}
	r.Header.Del("Authorization")
	r.Header.Del("Cookie")
	for name, value := range u.Headers {
		r.Header.Set(name, value)
	}
}

func joinQueries(own, agents string) string {
	if own == "" || agents == "" {
		return own + agents
	}
	return own + "&" + agents
}

// maxRedirects is how many redirects of one request are followed.
const maxRedirects = 5

// errRedirect is the class of redirects that are not followed.
var errRedirect = errors.New("redirect is not followed")

// send does a request, body and all, and follows redirects within its origin:
// there is nothing else the agent could do about them, since it does not know the
// server by that address. One to another origin fails, and nothing is sent there.
func (u *Upstream) send(r *http.Request, body []byte) (*http.Response, error) {
	for range maxRedirects + 1 {
		setBody(r, body)
		response, err := u.Transport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		next, err := u.redirect(r, response)
		if next == nil && err == nil {
			return response, nil
		}
		_ = response.Body.Close()
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.URL = next
	}
	return nil, fmt.Errorf("%w: more than %d of them", errRedirect, maxRedirects)
}

// redirect is where a response sends its request; nil where it does not, or where
// only another method would do.
func (u *Upstream) redirect(r *http.Request, response *http.Response) (*url.URL, error) {
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	where := response.Header.Get("Location")
	if where == "" {
		return nil, nil
	}
	next, err := r.URL.Parse(where)
	if err != nil {
		return nil, fmt.Errorf("%w: its Location cannot be read", errRedirect)
	}
	next.User, next.Fragment = nil, ""
	if !u.sameOrigin(r.URL, next) {
		return nil, fmt.Errorf("%w: %s sends to another origin, %s", errRedirect, origin(r.URL), clip([]byte(origin(next))))
	}
	keepsMethod := response.StatusCode == http.StatusTemporaryRedirect || response.StatusCode == http.StatusPermanentRedirect
	if !keepsMethod && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, nil
	}
	return next, nil
}

// isEncoded says whether a body is compressed or otherwise not what it is.
func isEncoded(h http.Header) bool {
	for _, encoding := range h.Values("Content-Encoding") {
		if encoding = strings.TrimSpace(encoding); encoding != "" && !strings.EqualFold(encoding, "identity") {
			return true
		}
	}
	return false
}

// isRecoded says whether a body is declared as text of another encoding than UTF-8. A
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

// Headers by which a remote server speaks to browsers and authorization clients
// about its own origin. The agent knows it under another, and the runner is who
// authorizes. Those with URLs often repeat that of the request, and so secrets in
// its query.
func remoteOnly() []string {
	return []string{
		"Set-Cookie", "Alt-Svc", "Strict-Transport-Security", "Www-Authenticate", "Location", "Content-Location", "Refresh",
	}
}

// copyHeaders takes what of a response's headers reaches the agent.
func (u *Upstream) copyHeaders(to, from http.Header) {
	for name, values := range endtoend.Headers(from) {
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
