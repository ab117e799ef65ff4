// Package judge asks models that judge, over OpenAI's chat completions API.
//
// It sends a question as it is on record and returns the answer for the record. Package grading
// writes questions and reads answers.
//
// The endpoint is not trusted: its certificate is verified, its redirects are not followed, and
// what it sends is bounded. The environment's proxies are ignored. The key is in the header of
// requests and nowhere else.
package judge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/redact"
	"github.com/waza-isolate/waza/internal/retry"
)

const (
	maxAtOnce   = 4 // questions that one endpoint is asked at once
	maxAttempts = 4 // of one question

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
	// schemaless is set once the endpoint has refused a schema for the answer and answered without.
	schemaless atomic.Bool
	retry      retry.Policy
}

// New returns a client for the endpoint of j. Key is the value of the variable that j names, if
// it names one. New adds it to secrets, which are kept out of errors.
func New(j evidence.Judge, key string, secrets *redact.Set) (*Client, error) {
	secrets.Add(key)
	base, err := j.Endpoint()
	if err != nil {
		return nil, fmt.Errorf("base_url %w", err)
	}
	if j.APIKeyEnv != "" || key != "" {
		if err := redact.CheckKey(j.APIKeyEnv, key, "the judge's endpoint"); err != nil {
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
		slots: make(chan struct{}, maxAtOnce), retry: retry.Policy{Attempts: maxAttempts},
	}, nil
}

// Answer asks the model a question, again if the failure may pass. An error says what a person
// can do about it.
func (c *Client) Answer(ctx context.Context, ask evidence.JudgeAsk) (evidence.JudgeAnswer, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return evidence.JudgeAnswer{}, context.Cause(ctx)
	}
	return retry.Do(ctx, c.retry, func(ctx context.Context) (evidence.JudgeAnswer, error) { return c.ask(ctx, ask) })
}

// ask asks once, and once more without a schema where the endpoint does not take one.
func (c *Client) ask(ctx context.Context, ask evidence.JudgeAsk) (evidence.JudgeAnswer, error) {
	if c.schemaless.Load() {
		return c.send(ctx, ask, false)
	}
	answer, err := c.send(ctx, ask, true)
	if failed, ok := errors.AsType[*failure](err); ok && failed.schemaless {
		if answer, err := c.send(ctx, ask, false); err == nil {
			c.schemaless.Store(true)
			return answer, nil
		}
	}
	return answer, err
}
