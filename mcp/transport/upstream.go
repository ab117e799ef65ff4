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

// Upstream is where a server that speaks HTTP is found, and how it is reached.
type Upstream struct {
	// URL is the server's endpoint. Its host is dialled by Transport alone.
	URL       *url.URL
	Transport http.RoundTripper
	// Headers replace those that the agent sent. If there are any, the agent's own
	// Authorization and Cookie are not passed on.
	Headers map[string]string
	// Remote says that the server is not one of the trial's own: requests name the host of
	// its URL, whatever host the agent names, and what it says about its own origin does not
	// reach the agent.
	Remote bool
	// Events says that it speaks the HTTP+SSE transport of 2024-11-05.
	Events bool
	// Process is the program behind it; nil if that is not ours.
	Process *Resident
}

// Barred is an error of a Transport that never connects to the server, however often it is asked.
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

// sameOrigin reports whether two URLs have one origin. In a container all names of the loopback
// are one.
func (u *Upstream) sameOrigin(a, b *url.URL) bool {
	if Origin(a) == Origin(b) || !defence.OneOrigin && u.Remote {
		return true
	}
	return !u.Remote && a.Scheme == b.Scheme && a.Port() == b.Port() && isLoopback(a.Hostname()) && isLoopback(b.Hostname())
}

// isLoopback reports whether a name is one of the loopback, or the address for all interfaces.
func isLoopback(name string) bool { return IsLocal(name) || name == "0.0.0.0" || name == "::" }

// WithoutURL returns an error of net/http without its URL, which may hold a secret.
func WithoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// Request returns a request to the server, for [Upstream.Send]. The caller may change it.
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
	r.GetBody, r.ContentLength = open, int64(len(body)) // net/http sends again what it could not begin to send
}

// authorize sets the headers of u on a request, and removes the agent's credentials.
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

// maxRedirects is how many redirects of one request are followed.
const maxRedirects = 5

// Send sends a request with a body and the headers of u, asks for a response without
// Content-Encoding, and follows redirects within the server's origin, since the agent, which does
// not know that address, cannot. A redirect to another origin fails with [ErrRedirect], and
// nothing is sent there.
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

// redirect returns where a response redirects its request; nil if it does not, or if only another
// method would do.
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
		return nil, fmt.Errorf("%w: its Location cannot be read", ErrRedirect)
	}
	next.User, next.Fragment = nil, ""
	if !u.sameOrigin(r.URL, next) {
		return nil, fmt.Errorf("%w: %s sends to another origin, %s", ErrRedirect, Origin(r.URL), Clip([]byte(Origin(next))))
	}
	keepsMethod := response.StatusCode == http.StatusTemporaryRedirect || response.StatusCode == http.StatusPermanentRedirect
	if !keepsMethod && r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, nil
	}
	return next, nil
}

// HTTPError is an HTTP response without an answer in it.
type HTTPError struct {
	Status int
	Text   string
}

func (e HTTPError) Error() string { return e.Text }

// IsLocal reports whether a host, with or without a port, is the loopback.
func IsLocal(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	addr, err := netip.ParseAddr(name)
	return strings.EqualFold(name, "localhost") || err == nil && addr.IsLoopback()
}
