package gateway

import (
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/model/dialect"
)

// route is the target of a request: a provider, and the rest of the path and query.
type route struct {
	provider string
	rest     string // escaped, without a leading slash; empty for the base URL itself
	query    string
}

var (
	errAbsolute = errors.New("use a path that begins with a provider's name, such as /openai/responses; this is not a proxy for other hosts")
	errPath     = errors.New("the path has a segment that is empty, a dot or two, or that holds a slash, a backslash, a percent sign or a control character")
)

// routeOf parses the target of a request. It rejects paths that could lead out of a provider's base
// URL, even if they are decoded several times.
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
		segments[i] = url.PathEscape(text) // normalized, so that each path has only one form
	}
	return route{provider: segments[0], rest: strings.Join(segments[1:], "/"), query: knownParameters(u.RawQuery)}, nil
}

func isPlain(segment string) bool {
	special := strings.ContainsFunc(segment, func(r rune) bool {
		return r < ' ' || r == 0x7f || r == '/' || r == '\\' || r == '%'
	})
	return segment != "" && segment != "." && segment != ".." && !special
}

// knownParameters returns a query with only the parameters that clients of the APIs need. None
// contains a key, or changes how a provider interprets the request.
func knownParameters(query string) string {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(part, "=")
		if !defence.KnownParts || slices.Contains([]string{
			"after", "after_id", "alt", "api-version", "before_id", "beta", "client_version", "limit", "pageSize", "pageToken",
		}, name) {
			text, err := url.QueryUnescape(value)
			if err == nil && name != "" {
				kept = append(kept, name+"="+url.QueryEscape(text))
			}
		}
	}
	return strings.Join(kept, "&")
}

// part is a part of a provider's API that requests are forwarded to.
type part struct {
	method string
	path   *regexp.Regexp // below the base URL
	turn   dialect.Name   // empty if it is not a model's turn
}

// version matches the version with which some base URLs end; other clients begin their paths with
// it.
const version = `^(?:v[0-9][a-z0-9]*/)?`

// The forwarded parts of each API: models' turns, counts of tokens and lists of models. A key gives
// access to more, such as other keys.
var (
	openAI = []part{
		{http.MethodPost, regexp.MustCompile(version + `chat/completions$`), dialect.Chat},
		{http.MethodPost, regexp.MustCompile(version + `responses$`), dialect.Responses},
		{http.MethodPost, regexp.MustCompile(version + `responses/input_tokens$`), ""},
		{http.MethodGet, regexp.MustCompile(version + `models(?:/[^/]+)?$`), ""},
	}
	azure = append([]part{
		{http.MethodPost, regexp.MustCompile(`^(?:openai/)?deployments/[^/]+/chat/completions$`), dialect.Chat},
		{http.MethodPost, regexp.MustCompile(`^openai/v1/chat/completions$`), dialect.Chat},
		{http.MethodPost, regexp.MustCompile(`^openai/(?:v1/)?responses$`), dialect.Responses},
		{http.MethodGet, regexp.MustCompile(`^openai/(?:v1/)?models(?:/[^/]+)?$`), ""},
	}, openAI...)
	anthropic = []part{
		{http.MethodPost, regexp.MustCompile(version + `messages$`), dialect.Messages},
		{http.MethodPost, regexp.MustCompile(version + `messages/count_tokens$`), ""},
		{http.MethodGet, regexp.MustCompile(version + `models(?:/[^/]+)?$`), ""},
	}
	google = []part{
		{http.MethodPost, regexp.MustCompile(version + `(?:models|tunedModels)/[^/:]+:(?:generateContent|streamGenerateContent)$`), dialect.Generate},
		{http.MethodPost, regexp.MustCompile(version + `(?:models|tunedModels)/[^/:]+:countTokens$`), ""},
		{http.MethodGet, regexp.MustCompile(version + `models(?:/[^/:]+)?$`), ""},
	}
)

// partOf returns the part of the API that a request is for, and false if it is not forwarded.
func (p Provider) partOf(method string, to route) (part, bool) {
	if !defence.KnownParts {
		turn, _ := dialect.Of(method, to.String())
		return part{turn: turn}, true
	}
	known := apiOf(p.Kind).parts
	i := slices.IndexFunc(known, func(k part) bool { return k.method == method && k.path.MatchString(to.rest) })
	if i < 0 {
		return part{}, false
	}
	return known[i], true
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
