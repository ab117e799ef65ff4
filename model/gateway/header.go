package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/web"
)

// requestHeader returns the headers of an agent's request that are forwarded: those that clients of
// the APIs need. Other headers might choose who pays, or change how a provider interprets the
// request.
func requestHeader(header http.Header) http.Header {
	out := known(header, func(name string) bool {
		return slices.Contains([]string{
			"Accept", "Anthropic-Beta", "Anthropic-Version", "Content-Type", "Openai-Beta", "User-Agent", "X-Goog-Api-Client",
		}, name) || strings.HasPrefix(name, "X-Stainless-")
	})
	if header.Get("User-Agent") == "" {
		out.Set("User-Agent", "") // keeps net/http from setting its own
	}
	out.Set("Accept-Encoding", "identity")
	return out
}

// answerHeader returns the headers of a provider's response that are forwarded. The provider
// chooses none of their names, which could contain its key.
func answerHeader(header http.Header) http.Header {
	return known(header, func(name string) bool {
		return slices.Contains([]string{
			"Cache-Control", "Content-Length", "Content-Type", "Date", "Openai-Model", "Openai-Processing-Ms", "Openai-Version",
			"Request-Id", "Retry-After", "Retry-After-Ms", "X-Request-Id", "X-Should-Retry",
		}, name) || slices.Contains([]string{"ratelimit", "x-ratelimit", "anthropic-ratelimit"}, limitOf(name))
	})
}

// limitOf returns the family of a rate limit header, or "" for other headers.
func limitOf(name string) string {
	words := strings.Split(strings.ToLower(name), "-")
	at := slices.Index(words, "ratelimit")
	if at < 0 {
		return ""
	}
	for _, word := range words[at+1:] {
		if !slices.Contains([]string{"input", "limit", "output", "remaining", "requests", "reset", "retry", "after", "tokens", "unified"}, word) {
			return ""
		}
	}
	return strings.Join(words[:at+1], "-")
}

// known returns the headers with known names.
func known(header http.Header, isKnown func(name string) bool) http.Header {
	out := web.EndToEnd(header)
	for name := range out {
		if defence.KnownHeaders && !isKnown(http.CanonicalHeaderKey(name)) {
			delete(out, name)
		}
	}
	return out
}
