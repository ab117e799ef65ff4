package judge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/internal/apikey"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/redact"
)

const (
	maxAtOnce   = 4 // questions that one endpoint is asked at once
	maxAttempts = 4 // of one question
	firstWait   = time.Second
	maxWait     = time.Minute // between two attempts, whatever the endpoint asks for

	connectTimeout    = 10 * time.Second
	maxResponseHeader = 64 << 10
)

// Client asks one endpoint. It is safe for concurrent use.
type Client struct {
	url     string // of chat completions
	key     string
	keyEnv  string // the variable that the key is from, for messages
	timeout time.Duration
	secrets *redact.Set
	http    *http.Client
	slots   chan struct{}
	// unschooled is set once the endpoint was seen to refuse a schema of the answer.
	unschooled atomic.Bool
	// wait waits between attempts.
	wait func(context.Context, time.Duration) error
}

// New is a client for the endpoint of j, with the key that is in the variable which j
// names, where it names one. From the call on the key is one of secrets, which are kept
// out of errors.
func New(j evidence.Judge, key string, secrets *redact.Set) (*Client, error) {
	secrets.Add(key)
	base, err := j.Endpoint()
	if err != nil {
		return nil, fmt.Errorf("base_url %w", err)
	}
	if j.APIKeyEnv != "" || key != "" {
		if err := apikey.Check(j.APIKeyEnv, key, "the judge's endpoint"); err != nil {
			return nil, err
		}
	}
	if j.TimeoutSeconds < 1 {
		return nil, errors.New("an answer has no time limit")
	}
	transport := &http.Transport{
		ForceAttemptHTTP2: true, DisableCompression: true, DisableKeepAlives: true,
		TLSHandshakeTimeout: connectTimeout, MaxResponseHeaderBytes: maxResponseHeader,
	}
	return &Client{
		url: base.JoinPath("chat", "completions").String(), key: key, keyEnv: j.APIKeyEnv, timeout: time.Duration(j.TimeoutSeconds) * time.Second,
		secrets: secrets,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(chan struct{}, maxAtOnce), wait: sleep,
	}, nil
}

// Answer puts a question to the model, again where what failed may pass. An error says
// what a person can do about it.
func (c *Client) Answer(ctx context.Context, ask evidence.JudgeAsk) (evidence.JudgeAnswer, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return evidence.JudgeAnswer{}, context.Cause(ctx)
	}
	for attempt, wait := 1, firstWait; ; attempt, wait = attempt+1, 2*wait {
		answer, err := c.ask(ctx, ask)
		if ctx.Err() != nil {
			return evidence.JudgeAnswer{}, context.Cause(ctx)
		}
		failed, ok := errors.AsType[*failure](err)
		switch {
		case !ok || !failed.passing:
			return answer, err
		case failed.after > maxWait:
			return answer, fmt.Errorf("%w; it asks to wait for %s, which is too long", err, failed.after)
		case attempt == maxAttempts:
			return answer, fmt.Errorf("%w, and so %d times in a row", err, attempt)
		}
		if err := c.wait(ctx, max(wait, failed.after)); err != nil {
			return answer, err
		}
	}
}

// ask asks once, and once more without a schema where the endpoint does not take one.
func (c *Client) ask(ctx context.Context, ask evidence.JudgeAsk) (evidence.JudgeAnswer, error) {
	if c.unschooled.Load() {
		return c.send(ctx, ask, false)
	}
	answer, err := c.send(ctx, ask, true)
	if failed, ok := errors.AsType[*failure](err); ok && failed.unschooled {
		if answer, err := c.send(ctx, ask, false); err == nil {
			c.unschooled.Store(true)
			return answer, nil
		}
	}
	return answer, err
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
