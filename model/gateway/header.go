package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/web"
)

// requestHeader returns the headers of an agent's request that are passed on: those that clients of the
// dialects need. Others may choose who pays, or have a provider take the request for another.
func requestHeader(header http.Header) http.Header {
	out := known(header, func(name string) bool {
		return slices.Contains([]string{
			"Accept", "Anthropic-Beta", "Anthropic-Version", "Content-Type", "Openai-Beta", "User-Agent", "X-Goog-Api-Client",
		}, name) || strings.HasPrefix(name, "X-Stainless-")
	})
	if header.Get("User-Agent") == "" {
		out.Set("User-Agent", "") // or net/http names itself
	}
	out.Set("Accept-Encoding", "identity")
	return out
}

// answerHeader returns the headers of a provider's answer that are passed on. None has a name of the
// provider's choice, which could be its key.
func answerHeader(header http.Header) http.Header {
	return known(header, func(name string) bool {
		return slices.Contains([]string{
			"Cache-Control", "Content-Length", "Content-Type", "Date", "Openai-Model", "Openai-Processing-Ms", "Openai-Version",
			"Request-Id", "Retry-After", "Retry-After-Ms", "X-Request-Id", "X-Should-Retry",
		}, name) || slices.Contains([]string{"ratelimit", "x-ratelimit", "anthropic-ratelimit"}, limitOf(name))
	})
}

// limitOf returns the family of a header that tells of a rate limit, and "" for other headers.
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

// known returns the headers with names that are known.
func known(header http.Header, isKnown func(name string) bool) http.Header {
	out := web.EndToEnd(header)
	for name := range out {
		if defence.KnownHeaders && !isKnown(http.CanonicalHeaderKey(name)) {
			delete(out, name)
		}
	}
	return out
}
