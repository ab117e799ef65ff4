package recorded

import (
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

// Options configure how a side is played in a trial.
type Options struct {
	// Clean writes a document as the trial's recorder stores it; nil to change nothing.
	Clean  func(w io.Writer, doc []byte) error
	With   map[string]any       // members added to every request, for further conditions
	Missed func(message string) // called for each request without an answer; may be nil
	Live   bool                 // send requests without an answer to the provider
}

// Player answers in place of a provider in one trial.
type Player struct {
	answers  *cassette.Player
	side     *cassette.Side
	requests [][]part // of each entry
	o        Options
}

// Play returns a new player. It returns an error for values that cannot be played.
func Play(side *cassette.Side, o Options) (*Player, error) {
	requests, err := requestsOf(side)
	if err != nil {
		return nil, err
	}
	if o.Clean == nil {
		o.Clean = asItIs
	}
	return &Player{answers: side.Play(), side: side, requests: requests, o: o}, nil
}

// IsLive reports whether requests without an answer are sent to the provider.
func (p *Player) IsLive() bool { return p.o.Live }

// Answer returns the recorded response to a request, whose path is relative to the provider's base
// URL and may have a query. A request without one gets status 400 with the reason, or nil if it
// must be sent to the provider.
func (p *Player) Answer(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	asked := read(p.o.Clean, method, path, body)
	members := asked.members(p.o.With)
	given, miss := p.answers.Ask("", members)
	if miss != nil {
		return p.missed(ctx, method, path, p.describe(asked, miss)), nil
	}
	a, err := readAnswer(given.Value)
	if err != nil {
		return nil, err // Play has checked it
	}
	if err := retry.Sleep(ctx, given.Delay); err != nil {
		return nil, err
	}
	if a.Status == 0 {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return a.response(ctx), nil
}

// Members returns the members of a request that conditions of entries and faults refer to.
func (o Options) Members(method, path string, body []byte) map[string]any {
	return read(o.Clean, method, path, body).members(o.With)
}

func (r request) members(with map[string]any) map[string]any {
	members := map[string]any{memberForm: r.form, memberRequest: r.digest}
	maps.Copy(members, with)
	return members
}

// response returns the HTTP response to a request that ends with ctx.
func (a answer) response(ctx context.Context) *http.Response {
	answer := &http.Response{
		StatusCode: a.Status, Header: http.Header{}, Body: &body{ctx, a.parts(), a.Left}, ContentLength: -1,
	}
	if a.ContentType != "" {
		answer.Header.Set("Content-Type", a.ContentType)
	}
	return answer
}

// body returns one part of an answer per read.
type body struct {
	ctx   context.Context
	parts []string
	left  bool // wait until the agent leaves
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

// missed returns the error response to a request without an answer, or nil if it must be sent to
// the provider.
func (p *Player) missed(ctx context.Context, method, path, message string) *http.Response {
	if p.o.Missed != nil {
		p.o.Missed(message)
	}
	if p.o.Live {
		return nil
	}
	shape, isTurn := dialect.Of(method, path)
	if !isTurn {
		shape = dialect.Chat
	}
	failure := shape.Failure(dialect.Failure{Status: http.StatusBadRequest, Message: message})
	return answer{Status: http.StatusBadRequest, ContentType: "application/json", Body: string(failure)}.response(ctx)
}

// describe says in one sentence which request has no answer, and how it differs from the most
// similar one that has.
func (p *Player) describe(asked request, miss *cassette.Miss) string {
	said := fmt.Sprintf("no entry answers a request of the kind %q", asked.form)
	nearest, how := p.nearest(asked)
	switch {
	case nearest < 0:
	case len(how) == 0 && miss.Spent:
		said += fmt.Sprintf(": %s is the same request, and has given its answer", p.side.Place(nearest))
	case len(how) == 0:
		said += fmt.Sprintf(": %s is the same request, made in another way", p.side.Place(nearest))
	default:
		said += fmt.Sprintf("; the nearest is %s, from which it differs in %s", p.side.Place(nearest), how[0])
		if more := len(how) - 1; more > 0 {
			said += ", and in " + text.Count(more, "other part")
		}
	}
	if miss.Otherwise >= 0 {
		said += fmt.Sprintf("; find: %s would give it %s", miss.Other, p.side.Place(miss.Otherwise))
	}
	return said
}

// nearest returns the last entry whose request differs least, or -1, and the differences.
func (p *Player) nearest(asked request) (nearest int, how []change) {
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
