package modelstub

import (
	"net/http"
	"strings"

	"github.com/waza-isolate/waza/runner/dialect"
)

// route is what a request's path and method ask for.
type route struct {
	dialect dialect.Name // empty for what has no shape of its own
	action  action
	model   string // where the path names it
	stream  bool   // where the path says so
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
	switch r.Method {
	case http.MethodPost:
		return postRoute(path, r.URL.Query().Get("alt") != "sse")
	case http.MethodGet:
		return listRoute(path, r.Header.Get("anthropic-version") != "")
	default:
		return route{}
	}
}

func postRoute(path string, asArray bool) route {
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		return route{dialect: dialect.Chat, action: answering}
	case strings.HasSuffix(path, "/responses"):
		return route{dialect: dialect.Responses, action: answering}
	case strings.HasSuffix(path, "/v1/messages"):
		return route{dialect: dialect.Messages, action: answering}
	case strings.HasSuffix(path, "/v1/messages/count_tokens"):
		return route{dialect: dialect.Messages, action: counting}
	}
	_, after, found := strings.Cut(path, "/models/")
	model, verb, named := strings.Cut(after, ":")
	if !found || !named {
		return route{}
	}
	made := route{dialect: dialect.Generate, action: answering, model: model}
	switch verb {
	case "generateContent":
	case "streamGenerateContent":
		made.stream, made.asArray = true, asArray
	case "countTokens":
		made.action = counting
	default:
		return route{}
	}
	return made
}

// listRoute tells the lists of models apart: Google's by the version in the path,
// Anthropic's by the header that its clients send.
func listRoute(path string, anthropic bool) route {
	before, model, _ := strings.Cut(path, "/models")
	made := route{action: listing, dialect: dialect.Chat, model: strings.TrimPrefix(model, "/")}
	switch {
	case !strings.Contains(path, "/models") || model != "" && model[0] != '/':
		return route{}
	case strings.HasSuffix(before, "/v1beta"):
		made.dialect = dialect.Generate
	case anthropic:
		made.dialect = dialect.Messages
	}
	return made
}
