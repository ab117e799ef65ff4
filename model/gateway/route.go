package gateway

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// route is the target of a request: a provider, and the rest of the path and query without
// keys.
type route struct {
	provider string
	rest     string // escaped, without a leading slash; empty for the base URL itself
	query    string
}

var (
	errAbsolute = errors.New("use a path that begins with a provider's name, such as /openai/responses; this is not a proxy for other hosts")
	errPath     = errors.New("the path has a segment that is empty, a dot or two, or that holds a slash, a backslash, a percent sign or a control character")
)

// routeOf reads the target of a request. It refuses whatever could lead out of a provider's
// base URL, however often it is decoded on the way.
func routeOf(u *url.URL) (route, error) {
	if u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" {
		return route{}, errAbsolute
	}
	path, ok := strings.CutPrefix(u.EscapedPath(), "/")
	if !ok {
		return route{}, errAbsolute
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		text, err := url.PathUnescape(segment)
		if err != nil || !isPlain(text) {
			return route{}, errPath
		}
		segments[i] = url.PathEscape(text) // in one way, so that one path is one thing
	}
	return route{provider: segments[0], rest: strings.Join(segments[1:], "/"), query: withoutKeys(u.RawQuery)}, nil
}

func isPlain(segment string) bool {
	special := strings.ContainsFunc(segment, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '/' || r == '\\' || r == '%'
	})
	return segment != "" && segment != "." && segment != ".." && !special
}

// withoutKeys returns a query without the parameters that may hold a key.
func withoutKeys(query string) string {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		text, err := url.QueryUnescape(name)
		isKey := slices.Contains([]string{"key", "api_key", "api-key", "apikey", "access_token"}, strings.ToLower(text))
		if part != "" && err == nil && !isKey {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// The parts of an API that are passed on in addition to models' turns.
var (
	lists  = regexp.MustCompile(`^(v[0-9][a-z0-9]*/)?models(/[^/]+)?$`)
	counts = regexp.MustCompile(`(^|/)(messages/count_tokens|responses/input_tokens|[^/]+:countTokens)$`)
)

// isAside reports whether a request that is not a model's turn is passed on: those for lists of
// models and for counts of tokens are. An agent may do nothing else with the key.
func (r route) isAside(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead:
		return lists.MatchString(r.rest)
	case http.MethodPost:
		return counts.MatchString(r.rest)
	}
	return false
}

// path returns the path below the base URL, without its query.
func (r route) path() string { return "/" + r.rest }

// String returns the path below the base URL, with its query.
func (r route) String() string {
	if r.query == "" {
		return "/" + r.rest
	}
	return "/" + r.rest + "?" + r.query
}

// under returns the URL of the route below a provider's base URL.
func (r route) under(base *url.URL) *url.URL {
	to := *base
	if r.rest != "" {
		to.Path = strings.TrimSuffix(base.Path, "/") + "/" + unescaped(r.rest)
		to.RawPath = strings.TrimSuffix(base.EscapedPath(), "/") + "/" + r.rest
	}
	to.RawQuery = r.query
	return &to
}

func unescaped(path string) string {
	text, err := url.PathUnescape(path)
	if err != nil { // routeOf has unescaped every segment
		return path
	}
	return text
}
