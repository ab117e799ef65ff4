package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/internal/bounded"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/model/dialect"
)

// errCut ends an answer early.
var errCut = errors.New("the stream was cut by a fault that the eval asks for")

// makeFault chooses the fault of a model's turn, if any, and records it.
func (c *call) makeFault() {
	if c.provider.Fault == nil || c.asking == nil {
		return
	}
	if c.fault = c.provider.Fault(c.record.Method, c.record.Path, c.record.Request); c.fault == nil {
		return
	}
	c.record.Fault = c.fault.Kind
	c.gateway.rec.Event(evidence.Event{
		Kind: evidence.EventFault, Where: c.provider.Name, Message: fmt.Sprintf("waza made the fault %s of request %d", c.fault.Kind, c.record.Seq),
		Data: map[string]any{"fault": string(c.fault.Kind)},
	})
}

// withFault returns the response with the fault applied. Some faults replace the provider's
// response.
func (c *call) withFault(ctx context.Context, ask func() (*http.Response, error)) (*http.Response, error) {
	switch c.fault.Kind {
	case evidence.FaultRateLimit:
		after := float64(cmp.Or(c.fault.RetryAfter, 1))
		answer := c.refusedBy(dialect.Failure{Status: http.StatusTooManyRequests, Message: "Rate limit reached", RetryAfter: &after})
		answer.Header.Set("Retry-After", strconv.Itoa(int(after)))
		return answer, nil
	case evidence.FaultServerError:
		return c.refusedBy(dialect.Failure{Status: http.StatusInternalServerError, Message: "Internal server error"}), nil
	case evidence.FaultDelay:
		if err := retry.Sleep(ctx, c.fault.Delay(cassette.DefaultDelay)); err != nil {
			return nil, err
		}
		return ask()
	}
	answer, err := ask()
	if err != nil {
		return answer, err
	}
	defer func() { _ = answer.Body.Close() }()
	whole := &bounded.Buffer{Max: maxKept, Share: c.gateway.memory}
	err = whole.ReadAll(answer.Body, answer.ContentLength)
	if size := len(whole.Bytes); err == nil || errors.Is(err, bounded.ErrTooLong) && size > 0 {
		answer.ContentLength = -1
		answer.Header.Del("Content-Length")
		answer.Body = &halfBody{Reader: bytes.NewReader(whole.Bytes[:size/2]), ctx: ctx, stall: c.fault.Kind == evidence.FaultStall, held: whole}
		return answer, nil
	}
	whole.Release()
	return nil, err
}

// refusedBy returns an error response in place of the provider's, which is not asked.
func (c *call) refusedBy(f dialect.Failure) *http.Response {
	c.unsent = true
	f.Message = cmp.Or(c.fault.Message, f.Message)
	body := c.shape.Failure(f)
	return &http.Response{
		StatusCode: f.Status, Header: http.Header{"Content-Type": {contentJSON}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// halfBody is the first half of a response, after which the stream stalls or the connection ends.
type halfBody struct {
	io.Reader
	ctx   context.Context // of the request
	stall bool
	held  *bounded.Buffer
}

func (b *halfBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	switch {
	case !errors.Is(err, io.EOF):
		return n, err
	case b.stall:
		<-b.ctx.Done()
		return n, context.Cause(b.ctx)
	}
	return n, errCut
}

func (b *halfBody) Close() error {
	b.held.Release()
	return nil
}
