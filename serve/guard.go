package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/report"
)

// guard lets in who knows the token, and only what this server's own pages, a person
// or a program asks for: no other site, under whatever name it found the way here.
type guard struct {
	token  string
	cookie string // name of the cookie; others of this machine's servers have theirs
	host   string // that was listened on; empty for every address of the machine
	next   http.Handler
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

// harden sets what every answer has: it is for this server's own pages, in no frame, and
// kept by nobody.
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

// ErrorAnswer is the body of every answer of the API that is an error.
type ErrorAnswer struct {
	Error string `json:"error"` // a sentence
}

// deny answers in the form that was asked for.
func deny(w http.ResponseWriter, r *http.Request, no *refusal) {
	if no.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, HEAD")
	}
	if wantsPage(r) {
		plainText(w, no.status, no.text+"\n")
		return
	}
	sendJSON(w, no.status, ErrorAnswer{Error: no.text})
}

// wantsPage says whether a person asks. Programs ask for what they can read, or for
// anything.
func wantsPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, apiPrefix) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func sendJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error": "this cannot be told as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// patience is how long a client may take to take in a part of an answer.
const patience = 30 * time.Second

// patient writes an answer in parts, each of which has its own deadline.
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
