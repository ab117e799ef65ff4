package stub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/mcp/sse"
	"github.com/waza-isolate/waza/model/dialect"
)

// Request is the result of one request, for a log.
type Request struct {
	Method string
	Path   string
	Model  string
	Status int    // of HTTP
	What   string // played turn, or error
}

// Handler returns a handler that responds according to the script, under any path prefix.
// Handlers share no state. It calls tell for each request, from several goroutines.
func (s *Script) Handler(tell ...func(Request)) http.Handler {
	return &handler{script: s, player: s.side.Play(), tell: tell}
}

// HandlerOver returns a handler for requests that may contain secrets. The ids in its answers
// contain digests, which must not confirm guesses about secrets, so they are computed from the
// output of clean.
func (s *Script) HandlerOver(clean func(json []byte) []byte) http.Handler {
	return &handler{script: s, player: s.side.Play(), clean: clean}
}

type handler struct {
	script *Script
	player *cassette.Player
	tell   []func(Request)
	clean  func(json []byte) []byte // nil to remove nothing
}

// exchange is one request and its answer.
type exchange struct {
	*handler
	w     http.ResponseWriter
	r     *http.Request
	route route
	model string
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &exchange{handler: h, w: w, r: r, route: routeOf(r)}
	e.model = e.route.model
	switch e.route.action {
	case listing:
		e.list()
	case answering, counting:
		e.serve()
	default:
		e.refuse(http.StatusNotFound, fmt.Sprintf("the scripted model has nothing at %s %s", r.Method, excerpt(r.URL.Path)))
	}
}

func (e *exchange) list() {
	shape, model := e.route.dialect, e.route.model
	if model == "" {
		e.send(http.StatusOK, "models", shape.Models(e.script.models))
		return
	}
	if !slices.Contains(e.script.models, model) {
		e.refuse(http.StatusNotFound, fmt.Sprintf("the script has no model %q", excerpt(model)))
		return
	}
	e.send(http.StatusOK, "models", shape.Model(model))
}

func (e *exchange) serve() {
	body, err := io.ReadAll(http.MaxBytesReader(e.w, e.r.Body, dialect.MaxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		e.refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d MiB", dialect.MaxBody>>20))
		return
	case err != nil:
		e.refuse(http.StatusBadRequest, "the request ended before its time")
		return
	}
	asked, err := read(e.route.dialect, e.r.URL.Path, body)
	if err != nil {
		e.refuse(http.StatusBadRequest, err.Error())
		return
	}
	e.model, asked.asArray = asked.Model, e.route.asArray
	if e.route.action == counting {
		e.send(http.StatusOK, "tokens counted", asked.dialect.TokenCount(tokens(asked.size)))
		return
	}
	asked.clean = e.clean
	made, err := e.play(asked)
	if err != nil {
		e.refuse(http.StatusBadRequest, err.Error())
		return
	}
	e.give(asked, made)
}

func (e *exchange) give(asked *request, made played) {
	if !wait(e.r.Context(), made.delay) {
		return
	}
	if made.line.Fail != nil {
		e.fail(made.line.Fail, made.what)
		return
	}
	e.report(http.StatusOK, made.what)
	encode(asked, made.answer).write(e.w, e.r, made.line)
}

func (e *exchange) fail(f *failure, what string) {
	if f.RetryAfter != nil {
		e.w.Header().Set("Retry-After", strconv.FormatFloat(*f.RetryAfter, 'f', -1, 64))
	}
	e.send(f.Status, what, e.route.dialect.Failure(dialect.Failure{Status: f.Status, Message: f.Message, RetryAfter: f.RetryAfter}))
}

// refuse responds with an error about the request, or about how it does not match the
// script.
func (e *exchange) refuse(status int, message string) {
	e.send(status, message, e.route.dialect.Failure(dialect.Failure{Status: status, Message: message}))
}

func (e *exchange) report(status int, what string) {
	for _, tell := range e.tell {
		tell(Request{Method: e.r.Method, Path: e.r.URL.Path, Model: e.model, Status: status, What: what})
	}
}

// send reports and writes a JSON response.
func (e *exchange) send(status int, what string, content []byte) {
	e.report(status, what)
	e.w.Header().Set("Content-Type", "application/json")
	e.w.WriteHeader(status)
	_, _ = e.w.Write(content) // fails if the agent has left
}

// route is the API and operation of a request, by its path and method.
type route struct {
	dialect dialect.Name // empty for nothing
	action  action
	model   string // of listing; empty for all models
	asArray bool   // a stream as one JSON array
}

type action int

const (
	nothing action = iota
	answering
	counting
	listing
)

// routeOf returns the route of a request from the end of its path.
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

// listRoute returns the route of a list of models: Google's by the version in the path,
// Anthropic's by the header that its clients send, or else OpenAI's.
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

// body is an encoded answer, in the parts that are written separately.
type body struct {
	contentType string
	parts       [][]byte
	stream      bool
}

// encode encodes a response as the request demands.
func encode(asked *request, a dialect.Answer) body {
	if !asked.Stream {
		return body{contentType: "application/json", parts: [][]byte{asked.dialect.Whole(a)}}
	}
	events := asked.dialect.Events(a)
	if asked.dialect == dialect.Generate && asked.asArray {
		return arrayOf(events)
	}
	made := body{contentType: sse.ContentType, stream: true}
	for _, event := range events {
		var part bytes.Buffer
		_, _ = sse.Message{Type: event.Type, Data: event.Encode()}.WriteTo(&part) // a Buffer never fails
		made.parts = append(made.parts, part.Bytes())
	}
	return made
}

// arrayOf returns events as elements of one JSON array.
func arrayOf(events []dialect.Event) body {
	made := body{contentType: "application/json", stream: true}
	before := "["
	for i, event := range events {
		part := append([]byte(before), event.Encode()...)
		if i == len(events)-1 {
			part = append(part, ']')
		}
		made.parts = append(made.parts, part)
		before = ",\r\n"
	}
	return made
}

// write writes b, or half of it if the line breaks off.
func (b body) write(w http.ResponseWriter, r *http.Request, l line) {
	w.Header().Set("Content-Type", b.contentType)
	if b.stream {
		w.Header().Set("Cache-Control", "no-cache")
	} else {
		w.Header().Set("Content-Length", strconv.Itoa(len(b.parts[0])))
	}
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	for i, part := range b.parts {
		half := l.trouble() != "" && i == len(b.parts)/2
		if half {
			part = part[:len(part)/2]
		}
		if _, err := w.Write(part); err != nil {
			return
		}
		_ = out.Flush() // a writer that cannot flush sends everything at the end
		if half {
			l.breakOff(out, r)
		}
	}
}

// breakOff breaks off an answer in the middle. It does not return.
func (l line) breakOff(out *http.ResponseController, r *http.Request) {
	wait(r.Context(), time.Duration(l.StallMS)*time.Millisecond)
	if l.Cut == "reset" {
		if conn, _, err := out.Hijack(); err == nil {
			reset(conn)
		}
	}
	panic(http.ErrAbortHandler)
}

// reset closes a connection so that its peer sees a reset.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // if it fails, the peer sees a normal end
	}
	_ = conn.Close()
}

// wait waits for d and returns true, or for the end of ctx and returns false.
func wait(ctx context.Context, d time.Duration) bool {
	return ctx.Err() == nil && retry.Sleep(ctx, d) == nil
}
