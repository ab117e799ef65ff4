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
)

// guard lets in who was told the token, and only what this server's own pages, a person
// or a program asks for: no other site, under whatever name it found the way here.
type guard struct {
	token  string
	cookie string // name of the cookie; others of this machine's servers have theirs
	host   string // that was listened on; empty for every address of the machine
	next   http.Handler
}

// refusal is why a request is not answered.
type refusal struct {
	status int
	text   string
}

const howToEnter = "This needs the token: open the address that waza serve printed when it began, or send it as Authorization: Bearer TOKEN."

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	no := g.refuse(r)
	switch {
	case no != nil:
		deny(w, r, no)
	case r.URL.Path == "/healthz":
		plainText(w, http.StatusOK, "ok\n")
	case g.enters(r):
		http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
		w.Header().Set("Location", withoutToken(r.URL))
		w.WriteHeader(http.StatusSeeOther)
	case !g.knows(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		deny(w, r, &refusal{http.StatusUnauthorized, howToEnter})
	default:
		g.next.ServeHTTP(w, r)
	}
}

// refuse says why nobody may ask this, whatever they know; nil where one may.
func (g *guard) refuse(r *http.Request) *refusal {
	switch {
	case !g.isOwn(r.Host):
		return &refusal{http.StatusMisdirectedRequest, "This server does not go by that name."}
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return &refusal{http.StatusMethodNotAllowed, "Here one can only read: GET and HEAD."}
	case isForeign(r):
		return &refusal{http.StatusForbidden, "Another site asked for this."}
	}
	return nil
}

// isOwn says whether a Host header names this server: a name that an attacker had the
// browser's DNS lead here does not.
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

// isForeign says whether a page of another origin asks. Who follows a link to a page here
// does not count: that page cannot be read by where the link was.
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

// enters says whether the address itself has the token.
func (g *guard) enters(r *http.Request) bool { return g.same(r.URL.Query().Get(tokenParameter)) }

// knows says whether a request has the token otherwise.
func (g *guard) knows(r *http.Request) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return g.same(bearer)
	}
	return slices.ContainsFunc(r.CookiesNamed(g.cookie), func(c *http.Cookie) bool { return g.same(c.Value) })
}

// same compares in a time that does not depend on where a guess goes wrong.
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
