package recorded

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"

	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/model/dialect"
)

// Options say how a side is played in a trial.
type Options struct {
	// Clean writes a document as the trial's recorder keeps it; nil for all of it.
	Clean  func(w io.Writer, doc []byte) error
	With   map[string]any       // members of every request, for conditions on more than what it asks
	Missed func(message string) // gets each request without an answer; may be nil
}

// Play returns a transport that answers the requests of a trial from a side, as the provider would whose
// answers it has. A request without an answer gets status 400 with the reason.
func Play(side *cassette.Side, o Options) (http.RoundTripper, error) {
	requests, err := requestsOf(side)
	if err != nil {
		return nil, err
	}
	if o.Clean == nil {
		o.Clean = asItIs
	}
	return &player{answers: side.Play(), requests: requests, o: o}, nil
}

type player struct {
	answers  *cassette.Player
	requests [][]part // of each entry
	o        Options
}

// RoundTrip implements [http.RoundTripper].
func (p *player) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	asked := read(p.o.Clean, r.Method, r.URL.RequestURI(), body)
	members := map[string]any{memberForm: asked.form, memberRequest: asked.digest}
	maps.Copy(members, p.o.With)
	given, miss := p.answers.Ask("", members)
	if miss != nil {
		return p.missed(r, asked, miss), nil
	}
	a, err := readAnswer(given.Value)
	if err != nil {
		return nil, err // Play has read it already
	}
	if err := retry.Sleep(r.Context(), given.Delay); err != nil {
		return nil, err
	}
	if a.Status == 0 {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	return a.response(r), nil
}

// response returns the answer to r.
func (a answer) response(r *http.Request) *http.Response {
	answer := &http.Response{
		Status: fmt.Sprintf("%d %s", a.Status, http.StatusText(a.Status)), StatusCode: a.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: &body{r.Context(), a.parts(), a.Left}, ContentLength: -1, Request: r,
	}
	if a.ContentType != "" {
		answer.Header.Set("Content-Type", a.ContentType)
	}
	return answer
}

// body gives the parts of an answer, each to a read of its own.
type body struct {
	ctx   context.Context
	parts []string
	left  bool // wait for the agent to leave
}

func (b *body) Read(into []byte) (int, error) {
	for len(b.parts) > 0 && b.parts[0] == "" {
		b.parts = b.parts[1:]
	}
	switch {
	case len(b.parts) > 0:
		n := copy(into, b.parts[0])
		b.parts[0] = b.parts[0][n:]
		return n, nil
	case b.left:
		<-b.ctx.Done()
		return 0, context.Cause(b.ctx)
	}
	return 0, io.EOF
}

func (b *body) Close() error { return nil }

// missed returns the error that a request without an answer gets.
func (p *player) missed(r *http.Request, asked request, miss *cassette.Miss) *http.Response {
	message := p.describe(asked, miss)
	if p.o.Missed != nil {
		p.o.Missed(message)
	}
	shape, isTurn := dialect.Of(r.Method, r.URL.Path)
	if !isTurn {
		shape = dialect.Chat
	}
	failure := shape.Failure(dialect.Failure{Status: http.StatusBadRequest, Message: message})
	return answer{Status: http.StatusBadRequest, ContentType: "application/json", Body: string(bytes.TrimSpace(failure))}.response(r)
}

// describe says in one sentence which request has no answer, and how it differs from the nearest that has one.
func (p *player) describe(asked request, miss *cassette.Miss) string {
	said := fmt.Sprintf("no entry answers a request of the kind %q", asked.form)
	nearest, how := p.nearest(asked)
	switch {
	case nearest < 0:
	case len(how) == 0 && miss.Spent:
		said += fmt.Sprintf(": entries[%d] is the same request, and has given its answer", nearest)
	case len(how) == 0:
		said += fmt.Sprintf(": entries[%d] is the same request, made in another way", nearest)
	default:
		said += fmt.Sprintf("; the nearest is entries[%d], from which it differs in %s", nearest, how[0])
		if more := len(how) - 1; more > 0 {
			said += ", and in " + text.Count(more, "other part")
		}
	}
	if miss.Otherwise >= 0 {
		said += fmt.Sprintf("; find: %s would give it entries[%d]", miss.Other, miss.Otherwise)
	}
	return said
}

// nearest returns the index of the last entry whose request differs least, or -1, and how.
func (p *player) nearest(asked request) (nearest int, how []change) {
	nearest = -1
	for i, parts := range p.requests {
		if len(parts) == 0 || len(asked.parts) == 0 {
			continue
		}
		if found := changes(parts, asked.parts); nearest < 0 || len(found) <= len(how) {
			nearest, how = i, found
		}
	}
	return nearest, how
}
