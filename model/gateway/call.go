package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/model/dialect"
)

// call is one request on its way to a provider, and the answer on its way back.
type call struct {
	gateway  *Gateway
	provider Provider
	to       route
	shape    dialect.Name // of errors
	record   evidence.ModelCall
	began    time.Time
	answer   bounded.Head   // the part that is recorded
	watch    *dialect.Watch // reads the answer to a model's turn as it passes
	w        http.ResponseWriter
	left     bool // the agent has disconnected
	slow     bool // the agent was slow to take the answer, for which a provider may break it off
	replaced bool // the agent got an answer of ours in place of the provider's

	understood chan struct{} // closed once the following fields are set
	model      string        // as the request names it
	digest     string
}

// newCall returns a call with the next number and begins to read its request.
func (g *Gateway) newCall(p Provider, to route, method string, body []byte, shape dialect.Name, isTurn bool) *call {
	c := &call{
		gateway: g, understood: make(chan struct{}), provider: p, to: to, shape: shape, began: time.Now(),
		watch:  dialect.NewWatch("", ""),
		answer: bounded.Head{Limit: maxKept, Share: g.memory},
		record: evidence.ModelCall{
			Seq: g.next(), Provider: p.Name, Method: method, Path: to.String(),
			Request: body, Start: g.rec.Now(),
		},
	}
	if isTurn {
		c.record.Dialect = shape
	}
	go c.understand(c.record)
	return c
}

// understand reads the request for the record while the provider is asked. It gets a copy of the
// record, since the call writes to its own meanwhile.
func (c *call) understand(made evidence.ModelCall) {
	defer close(c.understood)
	c.gateway.decoding.Lock()
	defer c.gateway.decoding.Unlock()
	if made.IsTurn() {
		if asked, err := dialect.ReadRequest(made.Dialect, made.Path, made.Request); err == nil {
			c.model = asked.Model
		}
	}
	c.digest = digest(c.gateway.rec, made.Method, made.Path, made.Request)
}

// isPriced reports whether the call is free or its model has a price, and returns the model, if
// costs are limited. Only models' turns cost anything.
func (c *call) isPriced() (priced bool, model string) {
	if !c.record.IsTurn() || c.gateway.allowed.limits.Cost == 0 {
		return true, ""
	}
	<-c.understood
	_, priced = c.provider.Prices[c.model]
	return priced, c.model
}

// serve sends the request to the provider, within the agent's limits, and forwards the
// response. If the response breaks off, the connection to the agent is closed too.
func (c *call) serve(w http.ResponseWriter, r *http.Request) {
	c.w = w
	why, left := c.gateway.allowed.take(c.isPriced())
	if why != "" {
		c.refuse(why)
		return
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(c.gateway.ctx, func() { cancel(errClosed) })()
	if left > 0 {
		defer time.AfterFunc(left, func() { cancel(errTimeUp) }).Stop()
	}
	silence := time.AfterFunc(c.provider.Silence, func() { cancel(errSilent) })
	defer silence.Stop()

	broken := c.ask(ctx, r.Header, silence)
	c.finish(broken)
	if broken != nil && !c.replaced {
		panic(http.ErrAbortHandler)
	}
}

var (
	errSilent   = errors.New("the provider said nothing for too long")
	errTimeUp   = errors.New("the agent's model calls took longer together than they may")
	errTooLarge = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
)

// refuse answers a request beyond the trial's limits.
func (c *call) refuse(why string) {
	c.instead(overBudget(why))
	c.record.Outcome, c.record.Error = evidence.ModelBudget, why
	c.gateway.allowed.spend(dialect.Usage{}, 0, 0, int64(len(c.record.Request)+len(c.answer.Bytes())))
	c.write()
	c.gateway.rec.Event(evidence.Event{Kind: "limit", Where: "agent", Message: why + "; the request was refused"})
	if c.gateway.allowed.exhausted() {
		c.gateway.exhaust()
	}
}

// instead answers with a refusal in the provider's place.
func (c *call) instead(why refusal) {
	body := why.write(c.w, c.shape)
	c.record.Status, c.record.ContentType = why.status, contentJSON
	c.record.FirstByte = c.gateway.rec.Now()
	_, _ = c.answer.Write(body) // it never fails
	c.replaced = true
}

// ask sends the request to the provider and forwards the response. It returns an error if
// the agent did not get a complete response from the provider.
func (c *call) ask(ctx context.Context, header http.Header, silence *time.Timer) error {
	out, err := c.outgoing(ctx, header)
	if err != nil {
		return c.failed(ctx, err)
	}
	answer, err := c.provider.Transport.RoundTrip(out)
	if err != nil {
		return c.failed(ctx, err)
	}
	defer func() { _ = answer.Body.Close() }()
	if why := cannotPass(answer); why != "" {
		return c.failed(ctx, errors.New(why))
	}
	if why := c.provider.refusesKey(answer.StatusCode); why != "" {
		if c.gateway.health.refused(c.provider.Name, why) {
			c.gateway.rec.Event(evidence.Event{Kind: "unauthorized", Where: c.provider.Name, Message: why})
		}
	}
	c.begin(answer)
	return c.copy(ctx, answer, silence)
}

// outgoing returns the request for the provider.
func (c *call) outgoing(ctx context.Context, header http.Header) (*http.Request, error) {
	out, err := http.NewRequestWithContext(ctx, c.record.Method, "http://model/", bytes.NewReader(c.record.Request))
	if err != nil {
		return nil, err
	}
	out.URL = c.to.under(c.provider.BaseURL)
	out.Host = out.URL.Host
	out.Header = web.EndToEnd(header)
	out.Header.Set("Accept-Encoding", "identity")
	out.Header.Del("Expect") // our server has answered it
	if header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "") // or net/http names itself
	}
	c.provider.authorize(out.Header)
	return out, nil
}

// cannotPass explains why a response cannot be forwarded, or returns "".
func cannotPass(answer *http.Response) string {
	switch {
	case answer.StatusCode < 200, answer.StatusCode > 999:
		return fmt.Sprintf("the provider answered %d, which ends no request", answer.StatusCode)
	case answer.StatusCode >= 300 && answer.StatusCode < 400 && answer.StatusCode != http.StatusNotModified:
		return fmt.Sprintf("the provider answered %d, a redirect, which is not followed; set base_url to where it leads", answer.StatusCode)
	case web.IsEncoded(answer.Header):
		return fmt.Sprintf("the provider answered in the encoding %.32q, which it was asked not to use", strings.Join(answer.Header.Values("Content-Encoding"), ", "))
	}
	return ""
}

// failed answers in place of a provider that did not, unless the agent is cut off. It returns
// the cause.
func (c *call) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	status := http.StatusBadGateway
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, errClosed):
		return err
	case errors.Is(err, errTimeUp):
		c.instead(overBudget(err.Error()))
		return err
	case errors.Is(err, errSilent):
		status = http.StatusGatewayTimeout
	}
	reported := c.gateway.secrets.Blank(err.Error())
	c.instead(unreachable(status, fmt.Sprintf("model provider %q: %s", c.provider.Name, reported)))
	return err
}

// begin passes the status and the headers on.
func (c *call) begin(answer *http.Response) {
	h := c.w.Header()
	maps.Copy(h, web.EndToEnd(answer.Header))
	for _, name := range []string{"Set-Cookie", "Alt-Svc"} {
		h.Del(name)
	}
	for _, values := range h {
		for i := range values {
			values[i] = c.gateway.secrets.Blank(values[i])
		}
	}
	c.record.Status, c.record.ContentType = answer.StatusCode, h.Get("Content-Type")
	c.watch = dialect.NewWatch(c.record.Dialect, c.record.ContentType)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or net/http guesses
	}
	c.w.WriteHeader(answer.StatusCode)
	c.flush()
}

// copy passes the body on as it comes, with secrets blanked.
func (c *call) copy(ctx context.Context, answer *http.Response, silence *time.Timer) error {
	out := redact.NewBlanker(c.gateway.secrets, toAgent{c})
	buffer := make([]byte, 32<<10)
	var size int64
	for {
		n, err := answer.Body.Read(buffer)
		silence.Reset(c.provider.Silence)
		if size += int64(n); size > maxAnswer {
			err = errTooLarge
			n = 0
		}
		if n > 0 {
			_, _ = out.Write(buffer[:n]) // its error is c.left
		}
		whole := size == answer.ContentLength && size <= maxAnswer // nothing comes behind it
		if err == nil && !whole && !c.left {
			continue
		}
		_ = out.Close()
		c.record.Redacted += out.Found().Spans
		switch {
		case whole && !c.left:
			return nil
		case c.left || context.Cause(ctx) != nil:
			return cmp.Or(context.Cause(ctx), context.Canceled)
		case errors.Is(err, io.EOF):
			return nil
		}
		return err
	}
}

// slowAgent is how long an agent that reads may take for a part of an answer.
const slowAgent = 5 * time.Second

// toAgent writes to the agent at once, and to the record.
type toAgent struct{ *call }

func (a toAgent) Write(p []byte) (int, error) {
	if a.record.FirstByte.IsZero() {
		a.record.FirstByte = a.gateway.rec.Now()
	}
	_, _ = a.answer.Write(p) // neither fails
	_, _ = a.watch.Write(p)
	if a.record.FirstToken.IsZero() && a.watch.Said() {
		a.record.FirstToken = a.gateway.rec.Now()
	}
	control := http.NewResponseController(a.w)
	began := time.Now()
	defer func() { a.slow = a.slow || time.Since(began) > slowAgent }()
	_ = control.SetWriteDeadline(began.Add(bodyTimeout))
	if a.gateway.ctx.Err() != nil { // maybe before the deadline was moved
		cutOff(control)
	}
	if _, err := a.w.Write(p); err != nil {
		a.left = true
		return 0, err
	}
	a.flush()
	return len(p), nil
}

func (toAgent) Close() error { return nil }

func (c *call) flush() {
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		c.left = true
	}
}

// finish sets the outcome of a call to a provider, counts it and records it.
func (c *call) finish(broken error) {
	c.record.Outcome = evidence.ModelOK
	reported := c.reported()
	if errors.Is(broken, context.Canceled) && reported.Stop != "" && reported.Usage != nil && reported.Error == "" {
		broken = nil // the answer was complete: some agents do not wait for the stream's end
	}
	switch {
	case errors.Is(broken, errTimeUp):
		c.record.Outcome = evidence.ModelBudget
		c.gateway.allowed.blame(errTimeUp.Error())
	case errors.Is(broken, context.Canceled), errors.Is(broken, errClosed):
		c.record.Outcome = evidence.ModelCancelled
	case broken != nil:
		c.record.Outcome = evidence.ModelTransport
	case c.record.Status >= 400 || reported.Error != "":
		c.record.Outcome, c.record.Error = evidence.ModelRefused, reported.Error
	}
	if broken != nil {
		c.record.Error = broken.Error()
	}
	c.gateway.health.lastTurn(c.record, c.brokenOff(broken))
	c.count(reported.Usage, broken == nil)
	c.write()
}

// brokenOff reports whether the provider broke off an answer, through no fault of the agent's.
func (c *call) brokenOff(broken error) bool {
	return c.record.Outcome == evidence.ModelTransport && c.record.Status < 400 && !c.replaced && !c.slow &&
		!errors.Is(broken, errTooLarge) && !errors.Is(broken, errSilent)
}

// reported decodes the response as far as possible.
func (c *call) reported() dialect.Response {
	if !c.record.IsTurn() {
		return dialect.Response{}
	}
	if c.truncated() > 0 {
		return dialect.Response{Usage: c.watch.Usage(nil)}
	}
	c.gateway.decoding.Lock()
	defer c.gateway.decoding.Unlock()
	reported, err := dialect.ReadResponse(c.shape, c.record.Status, c.record.ContentType, c.answer.Bytes())
	if err != nil {
		return dialect.Response{}
	}
	return reported
}

// count adds the call to the totals of the trial. If the provider has not reported the
// final usage of a turn, it is estimated, for limits only, so that an agent cannot evade
// limits by disconnecting early. What is recorded has the cost of the usage that is known.
func (c *call) count(usage *dialect.Usage, whole bool) {
	<-c.understood
	c.record.Usage = usage
	var counted dialect.Usage
	if c.record.IsTurn() && c.record.Status < 400 && (usage == nil || !whole) {
		counted = estimate(int64(len(c.record.Request)), c.answer.Size())
	}
	if usage != nil {
		usage := *usage
		usage.Input, usage.Output = max(usage.Input, counted.Input), max(usage.Output, counted.Output)
		counted = usage
	}
	cost := 0.0
	if price, ok := c.provider.Prices[c.model]; ok {
		cost = costOf(price, counted)
		if usage != nil {
			c.record.Cost = new(costOf(price, *usage))
		}
	}
	c.gateway.allowed.spend(counted, cost, time.Since(c.began), int64(len(c.record.Request)+len(c.answer.Bytes())))
}

// truncated returns how many bytes of the answer are not kept.
func (c *call) truncated() int64 { return c.answer.Size() - int64(len(c.answer.Bytes())) }

// write records the call, and gives back the memory of its answer.
func (c *call) write() {
	c.record.Response, c.record.Truncated = c.answer.Bytes(), c.truncated()
	c.record.End = c.gateway.rec.Now()
	<-c.understood
	c.record.Model, c.record.RequestSHA256 = c.model, c.digest
	c.gateway.rec.ModelCall(c.record)
	c.gateway.memory.Give(int64(len(c.answer.Bytes())))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
