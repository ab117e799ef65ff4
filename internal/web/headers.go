// Package web has helpers for HTTP: which headers are end-to-end (RFC 9110, section 7.6.1),
// whether a body is encoded, how to serve an existing connection, and posting JSON.
package web

import (
	"net/http"
	"strings"
)

// EndToEnd returns a copy of h without hop-by-hop headers. It also drops Upgrade and
// Trailer, which the proxies here do not support.
func EndToEnd(h http.Header) http.Header {
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

// IsEncoded reports whether a body is compressed or otherwise encoded.
func IsEncoded(h http.Header) bool {
	for _, encoding := range h.Values("Content-Encoding") {
		if encoding = strings.TrimSpace(encoding); encoding != "" && !strings.EqualFold(encoding, "identity") {
			return true
		}
	}
	return false
}
