package stub

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/waza-isolate/waza/model/dialect"
)

// Told is what became of one request, for a log.
type Told struct {
	Method string
	Path   string
	Model  string
	Status int    // of HTTP
	What   string // what was played, or what is wrong
}

// Handler answers as the script says, under whatever path prefix. It remembers nothing
// of another Handler's. tell, if any, is told of each request once it is known what it
// gets, from several goroutines at once.
func (s *Script) Handler(tell ...func(Told)) http.Handler {
	return &handler{script: s, troubles: &memory{seen: map[string]int{}}, tell: tell}
}

// HandlerOver is Handler for requests that hold what answers must not tell by digests:
// their ids are made of what clean leaves of a request.
func (s *Script) HandlerOver(clean func(json []byte) []byte) http.Handler {
	return &handler{script: s, troubles: &memory{seen: map[string]int{}}, clean: clean}
}

type handler struct {
	script   *Script
	troubles *memory
	tell     []func(Told)
	clean    func(json []byte) []byte // nil where nothing is left out
}

// exchange is one request and its answer.
type exchange struct {
	*handler
	w     http.ResponseWriter
	r     *http.Request
	route route
	shape shape
	model string
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := &exchange{handler: h, w: w, r: r, route: routeOf(r)}
	e.shape, e.model = shapeOf(e.route.dialect), e.route.model
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
	found, ok := e.script.list(e.route.dialect, e.route.model)
	if !ok {
		e.refuse(http.StatusNotFound, fmt.Sprintf("the script has no model %q", excerpt(e.route.model)))
		return
	}
	e.report(http.StatusOK, "models")
	e.send(http.StatusOK, found)
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
		e.report(http.StatusOK, "tokens counted")
		e.send(http.StatusOK, count(asked))
		return
	}
	asked.clean = e.clean
	made, err := e.script.play(asked, e.troubles)
	if err != nil {
		e.refuse(http.StatusBadRequest, err.Error())
		return
	}
	e.play(asked, made)
}

func (e *exchange) play(asked *request, made played) {
	delay := time.Duration(0)
	switch {
	case made.trouble != nil:
		delay = made.trouble.delay
	case made.line != nil:
		delay = made.line.delay
	}
	if !wait(e.r.Context(), delay) {
		return
	}
	if made.trouble != nil && made.trouble.fail != nil {
		e.fail(made.trouble.fail, made.what)
		return
	}
	e.report(http.StatusOK, made.what)
	body, err := e.encoded(asked, made.answer)
	if err != nil { // every part of an answer encodes
		panic(err)
	}
	body.write(e.w, e.r, made.trouble)
}

func (e *exchange) fail(f *failure, what string) {
	if f.retryAfter != nil {
		e.w.Header().Set("Retry-After", strconv.FormatFloat(*f.retryAfter, 'f', -1, 64))
	}
	e.report(f.status, what)
	e.send(f.status, e.shape.failure(f.status, f.message, f.retryAfter))
}

// refuse answers with an error that says what is wrong with the request, or with the
// script for it.
func (e *exchange) refuse(status int, message string) {
	e.report(status, message)
	e.send(status, e.shape.failure(status, message, nil))
}

func (e *exchange) report(status int, what string) {
	for _, tell := range e.tell {
		tell(Told{Method: e.r.Method, Path: e.r.URL.Path, Model: e.model, Status: status, What: what})
	}
}

// send writes a JSON answer.
func (e *exchange) send(status int, v any) {
	content, err := encode(v)
	if err != nil {
		panic(err) // objects of ours always encode
	}
	e.w.Header().Set("Content-Type", "application/json")
	e.w.WriteHeader(status)
	_, _ = e.w.Write(content) // an agent that left needs no answer
}
