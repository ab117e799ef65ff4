// Package endtoend tells end-to-end HTTP headers from hop-by-hop ones (RFC 9110, section
// 7.6.1).
package endtoend

import (
	"net/http"
	"strings"
)

// Headers is a copy of h without what belongs to one connection. Upgrade and Trailer
// are gone too: who passes headers on here does neither.
func Headers(h http.Header) http.Header {
	passed := h.Clone()
	for _, list := range h.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			passed.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade",
	} {
		passed.Del(name)
	}
	return passed
}
