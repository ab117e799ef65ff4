package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/report"
)

// guard forwards requests that have the token and come from this server's own pages or from a
// user. It rejects requests of other sites, and those with a foreign Host.
type guard struct {
	token  string
	cookie string // name of the cookie; includes the port, to differ from other servers on this machine
	host   string // address that the server listens on; empty for all addresses
	next   http.Handler
}

const howToEnter = "This needs the token: open the address that waza serve printed when it started."

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	no := g.refuse(r)
	switch {
	case no != nil:
		deny(w, no)
	case r.URL.Path == "/healthz":
		plainText(w, http.StatusOK, "ok\n")
	case g.enters(r):
		http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Location", withoutToken(r.URL))
		w.WriteHeader(http.StatusSeeOther)
	case !g.knows(r):
		deny(w, &refusal{http.StatusUnauthorized, howToEnter})
	default:
		g.next.ServeHTTP(w, r)
	}
}

// refuse returns why a request is rejected regardless of its token, or nil.
func (g *guard) refuse(r *http.Request) *refusal {
	switch {
	case !g.isOwn(r.Host):
		return &refusal{http.StatusMisdirectedRequest, "This server does not go by that name."}
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return &refusal{http.StatusMethodNotAllowed, "Only GET and HEAD are allowed."}
	case isForeign(r):
		return &refusal{http.StatusForbidden, "The request comes from another site."}
	}
	return nil
}

// isOwn reports whether a Host header names this server. An attacker's name that resolves
// to this address does not.
func (g *guard) isOwn(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if name == "localhost" || name != "" && name == g.host {
		return true
	}
	address, err := netip.ParseAddr(name)
	return err == nil && (address.IsLoopback() || g.host == "")
}

// isForeign reports whether a page of another origin sent the request. Following a link to
// a page here is allowed, since the linking page cannot read it.
func isForeign(r *http.Request) bool {
	if origins := r.Header.Values("Origin"); len(origins) > 0 {
		return len(origins) > 1 || origins[0] != "http://"+r.Host
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// enters reports whether the URL has the token.
func (g *guard) enters(r *http.Request) bool { return g.same(r.URL.Query().Get(tokenParameter)) }

// knows reports whether a cookie has the token.
func (g *guard) knows(r *http.Request) bool {
	return slices.ContainsFunc(r.CookiesNamed(g.cookie), func(c *http.Cookie) bool { return g.same(c.Value) })
}

// same reports whether a guess is the token, in constant time.
func (g *guard) same(guess string) bool {
	a, b := sha256.Sum256([]byte(guess)), sha256.Sum256([]byte(g.token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

const tokenParameter = "token"

func withoutToken(u *url.URL) string {
	query := u.Query()
	query.Del(tokenParameter)
	to := url.URL{Path: "/" + strings.TrimLeft(u.Path, "/"), RawQuery: query.Encode()}
	return to.String()
}

// harden sets the security headers of every response: it can be read only by this server's
// own pages, is not shown in frames, and is not cached.
func harden(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      report.Policy(true) + "; frame-ancestors 'none'",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store",
	} {
		h.Set(name, value)
	}
}

// deny sends a refusal.
func deny(w http.ResponseWriter, no *refusal) {
	if no.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, HEAD")
	}
	plainText(w, no.status, no.text+"\n")
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// patience is how long a client may take to read one part of a response.
const patience = 30 * time.Second

// patient writes a response in parts, each with its own deadline.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p patient) Write(b []byte) (int, error) {
	const part = 64 << 10
	written := 0
	for {
		if err := p.control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return written, err
		}
		n, err := p.ResponseWriter.Write(b[written:min(len(b), written+part)])
		if written += n; err != nil || written == len(b) {
			return written, err
		}
	}
}

func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
