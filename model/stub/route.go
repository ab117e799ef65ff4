package stub

import (
	"net/http"
	"strings"

	"github.com/waza-isolate/waza/model/dialect"
)

// route is what a request's path and method ask for.
type route struct {
	dialect dialect.Name // empty for what has no shape of its own
	action  action
	model   string // of a list: the one that is wanted; empty for all
	asArray bool   // a stream as one JSON array
}

type action int

const (
	nothing action = iota
	answering
	counting
	listing
)

// routeOf reads a path by its end, whatever is before it.
func routeOf(r *http.Request) route {
	path := strings.TrimRight(r.URL.Path, "/")
	name, isTurn := dialect.Of(r.Method, path)
	switch {
	case isTurn:
		return route{dialect: name, action: answering, asArray: r.URL.Query().Get("alt") != "sse"}
	case r.Method == http.MethodGet:
		return listRoute(path, r.Header.Get("anthropic-version") != "")
	case r.Method != http.MethodPost:
		return route{}
	case strings.HasSuffix(path, "/messages/count_tokens"):
		return route{dialect: dialect.Messages, action: counting}
	case strings.HasSuffix(path, ":countTokens"):
		return route{dialect: dialect.Generate, action: counting}
	default:
		return route{}
	}
}

// listRoute tells the lists of models apart: Google's by the version in the path,
// Anthropic's by the header that its clients send.
func listRoute(path string, anthropic bool) route {
	before, model, found := strings.Cut(path+"/", "/models/")
	made := route{action: listing, dialect: dialect.Chat, model: strings.TrimSuffix(model, "/")}
	switch {
	case !found:
		return route{}
	case strings.HasSuffix(before, "/v1beta"):
		made.dialect = dialect.Generate
	case anthropic:
		made.dialect = dialect.Messages
	}
	return made
}
