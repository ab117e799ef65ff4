package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/defence"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/model/recorded"
)

// call is one request to a provider and its response.
type call struct {
	gateway  *Gateway
	provider Provider
	to       route
	shape    dialect.Name // of errors
	record   evidence.ModelCall
	answer   bounded.Head   // the part that is recorded
	watch    *dialect.Watch // reads the response to a model's turn while it is forwarded
	w        http.ResponseWriter
	asking   *dialect.Asking // nil if the request is not for a model's turn
	hold     *hold
	fault    *cassette.Fault // nil for none
	unsent   bool            // no part of the request reached the provider
	left     bool            // the agent has disconnected
	slow     bool            // the agent read the response slowly, which may make a provider break it off
	replaced bool            // the agent got our answer instead of the provider's

	understood chan struct{} // closed once the following fields are set
	model      string        // as the request names it
	digest     string
}

// newCall returns a call with the next number and begins to read its request.
func (g *Gateway) newCall(p Provider, to route, method string, body []byte, shape dialect.Name, asking *dialect.Asking) *call {
	c := &call{
		gateway: g, understood: make(chan struct{}), provider: p, to: to, shape: shape, asking: asking,
		watch:  dialect.NewWatch("", ""),
		answer: bounded.Head{Limit: maxKept, Share: g.memory},
		record: evidence.ModelCall{
			Seq: g.next(), Provider: p.Name, Method: method, Path: to.String(),
			Request: body, Start: g.rec.Now(),
		},
	}
	if asking != nil {
		c.record.Dialect = shape
	}
	go c.understand(c.record)
	return c
}

// understand reads the request for the record while the provider processes it. It gets a copy of
// the record, since the call modifies its own in the meantime.
func (c *call) understand(made evidence.ModelCall) {
	defer close(c.understood)
	c.gateway.decoding.Lock()
	defer c.gateway.decoding.Unlock()
	if made.IsTurn() {
		if asked, err := dialect.ReadRequest(made.Dialect, made.Path, made.Request); err == nil {
			c.model = asked.Model
		}
	}
	c.digest = recorded.Digest(c.gateway.rec.Clean, made.Method, made.Path, made.Request)
}

// claim returns the claim of the request. Only models' turns cost anything.
func (c *call) claim() claim {
	if c.asking == nil {
		return claim{priced: true}
	}
	var model string
	var price eval.Price
	priced := true
	if c.gateway.allowed.limits.Cost > 0 {
		<-c.understood
		model = c.model
		price, priced = c.provider.Prices[model]
	}
	return asking(*c.asking, len(c.record.Request), model, price, priced)
}

// serve sends the request to the provider, within the agent's limits, and forwards the
// response. If the response breaks off, the connection to the agent is closed too.
func (c *call) serve(w http.ResponseWriter, r *http.Request) {
	c.w = w
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(c.gateway.ctx, func() { cancel(errClosed) })()
	var why string
	if c.hold, why = c.gateway.allowed.take(ctx, c.claim(), cancel); why != "" {
		c.refuse(why)
		return
	}
	broken := context.Cause(ctx)
	if c.hold != nil {
		silence := time.AfterFunc(c.provider.Silence, func() { cancel(errSilent) })
		defer silence.Stop()
		broken = c.ask(ctx, r.Header, silence)
	}
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

// refuse answers a request that exceeds the trial's limits.
func (c *call) refuse(why string) {
	c.instead(overBudget(why))
	c.record.Outcome, c.record.Error = evidence.ModelBudget, why
	c.gateway.allowed.keep(c.size())
	c.write()
	c.gateway.rec.Event(evidence.Event{Kind: "limit", Where: "agent", Message: why + "; the request was refused"})
	if c.gateway.allowed.exhausted() {
		c.gateway.exhaust()
	}
}

// instead answers with a refusal in place of the provider.
func (c *call) instead(why refusal) {
	body := why.write(c.w, c.shape)
	c.record.Status, c.record.ContentType = why.status, contentJSON
	c.record.FirstByte = c.gateway.rec.Now()
	_, _ = c.answer.Write(body) // never fails
	c.replaced = true
}

// ask sends the request to the provider and forwards the response. It returns an error if
// the agent did not get a complete response from the provider.
func (c *call) ask(ctx context.Context, header http.Header, silence *time.Timer) error {
	answer, err := c.answered(ctx, header)
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

// answered returns the provider's response with the call's fault applied.
func (c *call) answered(ctx context.Context, header http.Header) (*http.Response, error) {
	ask := func() (*http.Response, error) { return c.asked(ctx, header) }
	if c.makeFault(); c.fault != nil {
		return c.withFault(ctx, ask)
	}
	return ask()
}

// asked returns the response of the provider or its player.
func (c *call) asked(ctx context.Context, header http.Header) (*http.Response, error) {
	if player := c.provider.Player; player != nil {
		answer, err := player.Answer(ctx, c.record.Method, c.record.Path, c.record.Request)
		if c.record.Played = answer != nil || err != nil; c.record.Played {
			return answer, err
		}
	}
	out, err := c.outgoing(ctx, header)
	if err != nil {
		return nil, err
	}
	answer, err := c.provider.Transport.RoundTrip(out)
	c.unsent = err != nil && isDial(err)
	return answer, err
}

// isDial reports whether a request was not sent because no connection was made.
func isDial(err error) bool {
	var on *net.OpError
	return errors.As(err, &on) && (on.Op == "dial" || on.Op == "proxyconnect")
}

// outgoing returns the request for the provider.
func (c *call) outgoing(ctx context.Context, header http.Header) (*http.Request, error) {
	out, err := http.NewRequestWithContext(ctx, c.record.Method, "http://model/", bytes.NewReader(c.record.Request))
	if err != nil {
		return nil, err
	}
	out.URL = c.to.under(c.provider.BaseURL)
	out.Host = out.URL.Host
	out.Header = requestHeader(header)
	if c.asking != nil {
		out.Header.Set("Content-Type", contentJSON) // without a charset, as the body was read as UTF-8
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

// failed answers in place of a provider that did not, unless the agent is cut off. It returns the
// cause.
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
	reported := c.gateway.secrets.String(err.Error())
	c.instead(unreachable(status, fmt.Sprintf("model provider %q: %s", c.provider.Name, reported)))
	return err
}

// begin forwards the status and the headers.
func (c *call) begin(answer *http.Response) {
	h := c.w.Header()
	maps.Copy(h, answerHeader(answer.Header))
	for _, values := range h {
		for i := range values {
			values[i] = c.gateway.secrets.String(values[i])
		}
	}
	c.record.Status, c.record.ContentType = answer.StatusCode, h.Get("Content-Type")
	c.watch = dialect.NewWatch(c.record.Dialect, c.record.ContentType)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // keeps net/http from guessing
	}
	c.w.WriteHeader(answer.StatusCode)
	c.flush()
}

// copy forwards the body as it arrives, with secrets replaced.
func (c *call) copy(ctx context.Context, answer *http.Response, silence *time.Timer) error {
	out := secret.NewWriter(c.gateway.secrets, toAgent{c})
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
		whole := size == answer.ContentLength && size <= maxAnswer // no bytes follow
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

// slowAgent is how long an agent may take to read a part of a response before it counts as slow.
const slowAgent = 5 * time.Second

// toAgent writes to the agent immediately, and to the record.
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
	if a.gateway.ctx.Err() != nil { // the gateway may have ended before the deadline was set
		cutOff(control)
	}
	if _, err := a.w.Write(p); err != nil {
		a.left = true
		return 0, err
	}
	a.flush()
	return len(p), nil
}

func (c *call) flush() {
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		c.left = true
	}
}

// finish sets the outcome of a call to a provider, counts it and records it.
func (c *call) finish(broken error) {
	c.record.Outcome = evidence.ModelOK
	reported := c.reported()
	alone := c.asking != nil && c.asking.Answers == 1
	if alone && errors.Is(broken, context.Canceled) && reported.Stop != "" && reported.Usage != nil && reported.Error == "" {
		broken = nil // the response was complete: some agents do not wait for the end of the stream
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
		c.record.Error = c.gateway.secrets.String(broken.Error())
	}
	c.gateway.health.lastTurn(c.record, c.brokenOff(broken))
	c.count(reported, broken == nil)
	c.write()
}

// brokenOff reports whether the provider broke off a response, and the agent did not cause that.
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

// count adds the call to the totals of the trial. If the response does not report its usage, the
// limits count the claim instead. The record contains only the cost of known usage.
func (c *call) count(reported dialect.Response, whole bool) {
	<-c.understood
	usage := reported.Usage
	c.record.Usage = usage
	var counted dialect.Usage
	if usage != nil {
		counted = *usage
	}
	known := counted.Total()
	if c.isUnseen(reported, whole) {
		counted.Input, counted.Output = max(counted.Input, c.hold.usage.Input), max(counted.Output, c.hold.usage.Output)
	}
	cost := 0.0
	if price, ok := c.provider.Prices[c.model]; ok {
		cost = costOf(price, counted)
		if usage != nil {
			c.record.Cost = new(costOf(price, *usage))
		}
	}
	if c.hold == nil { // the agent did not wait to be admitted
		c.gateway.allowed.keep(c.size())
		return
	}
	c.gateway.allowed.give(c.hold, counted, counted.Total()-known, cost, c.size())
}

// isUnseen reports whether the provider may have used more for the request than its response
// reports: the response was not read to its end, or has no count of tokens or an impossible one. An
// error means that there was no turn, except for errors that providers also use for a turn that
// took too long.
func (c *call) isUnseen(reported dialect.Response, whole bool) bool {
	if c.asking == nil || c.hold == nil || c.unsent || !defence.CountedAsking {
		return false
	}
	if status := c.record.Status; status >= 400 && !c.replaced {
		none := []int{http.StatusNotImplemented, http.StatusServiceUnavailable, statusOverloaded}
		return status >= 500 && !slices.Contains(none, status)
	}
	u := reported.Usage
	said := reported.Text != "" || len(reported.Uses) > 0 || c.truncated() > 0
	return !whole || reported.Error != "" || u == nil || u.Input == 0 || u.Output == 0 && said
}

// statusOverloaded is the status with which Anthropic's API rejects requests when it is overloaded.
const statusOverloaded = 529

// size returns how many bytes of the call are recorded.
func (c *call) size() int64 { return int64(len(c.record.Request) + len(c.answer.Bytes())) }

// truncated returns how many bytes of the answer are not recorded.
func (c *call) truncated() int64 { return c.answer.Size() - int64(len(c.answer.Bytes())) }

// write records the call, and releases the memory of its answer.
func (c *call) write() {
	c.record.Response, c.record.Truncated = c.answer.Bytes(), c.truncated()
	c.record.End = c.gateway.rec.Now()
	<-c.understood
	c.record.Model, c.record.RequestSHA256 = c.model, c.digest
	c.gateway.rec.ModelCall(c.record)
	c.gateway.memory.Give(int64(len(c.answer.Bytes())))
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
