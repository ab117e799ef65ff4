package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/waza-isolate/waza/internal/defence"
)

// Upstream is the endpoint of a server that speaks HTTP.
type Upstream struct {
	// URL is the server's endpoint. Only Transport connects to its host.
	URL       *url.URL
	Transport http.RoundTripper
	// Headers replace those sent by the agent. If there are any, the agent's Authorization
	// and Cookie headers are not forwarded.
	Headers map[string]string
	// Remote reports that the server is not part of the trial: requests name the host of
	// URL, whatever host the agent names, and response headers about the server's origin
	// are not forwarded to the agent.
	Remote bool
	// Events reports that the server uses the HTTP+SSE transport of 2024-11-05.
	Events bool
	// Process is the server's program, or nil if the runner does not manage it.
	Process *Resident
	// Running returns the program that the runner's own session talks to, which may have ended
	// or be nil. It is nil for an agent.
	Running func() *Program
}

// Barred is an error of a Transport that will never connect to the server, so that retrying is
// useless.
type Barred struct{ Err error }

func (b *Barred) Error() string { return b.Err.Error() }

func (b *Barred) Unwrap() error { return b.Err }

// Origin returns the scheme, host and port of a URL; RFC 6454.
func Origin(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return u.Scheme + "://" + host
}

// sameOrigin reports whether two URLs have the same origin. Within a container all loopback
// names are equivalent.
func (u *Upstream) sameOrigin(a, b *url.URL) bool {
	if Origin(a) == Origin(b) || !defence.OneOrigin && u.Remote {
		return true
	}
	return !u.Remote && a.Scheme == b.Scheme && a.Port() == b.Port() && isLoopback(a.Hostname()) && isLoopback(b.Hostname())
}

// isLoopback reports whether a name is a loopback name or the address for all interfaces.
func isLoopback(name string) bool { return IsLocal(name) || name == "0.0.0.0" || name == "::" }

// WithoutURL returns an error of net/http without the URL, which may contain a secret.
func WithoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// Request returns a request to the server for [Upstream.Send]. The caller may modify it.
func (u *Upstream) Request(ctx context.Context, method string) *http.Request {
	where := *u.URL
	return (&http.Request{
		Method: method, URL: &where, Host: where.Host, Header: http.Header{},
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
}

func setBody(r *http.Request, body []byte) {
	r.Body, r.GetBody, r.ContentLength = http.NoBody, nil, 0
	if len(body) == 0 {
		return
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = open()
	r.GetBody, r.ContentLength = open, int64(len(body)) // lets net/http retry a request that it could not send
}

// authorize sets the headers of u on a request and removes the agent's credentials.
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

// maxRedirects is the maximum number of redirects followed per request.
const maxRedirects = 5

// Send sends a request with a body and the headers of u. It asks for a response without
// Content-Encoding, and follows redirects within the server's origin, since the agent does
// not know that address. A redirect to another origin is not followed and returns
// [ErrRedirect].
func (u *Upstream) Send(r *http.Request, body []byte) (*http.Response, error) {
	r.Header.Set("Accept-Encoding", "identity")
	u.authorize(r)
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
	return nil, fmt.Errorf("%w: more than %d of them", ErrRedirect, maxRedirects)
}

// redirect returns the URL to which a response redirects its request, or nil if it does not
// or if that would change the method.
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
		return nil, fmt.Errorf("%w: its Location header is invalid", ErrRedirect)
	}
	next.User, next.Fragment = nil, ""
	if !u.sameOrigin(r.URL, next) {
		return nil, fmt.Errorf("%w: %s redirects to another origin, %s", ErrRedirect, Origin(r.URL), Clip([]byte(Origin(next))))
	}
	keepsMethod := response.StatusCode == http.StatusTemporaryRedirect || response.StatusCode == http.StatusPermanentRedirect
	if !keepsMethod && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, nil
	}
	return next, nil
}

// HTTPError is an HTTP response that does not contain an answer.
type HTTPError struct {
	Status int
	Text   string
}

func (e HTTPError) Error() string { return e.Text }

// IsLocal reports whether a host, with or without a port, is a loopback name or address.
func IsLocal(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	addr, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && addr.IsLoopback()
}
