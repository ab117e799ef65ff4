// Package judge sends questions to judge models through OpenAI's chat completions API.
//
// It sends questions as recorded and returns answers to be recorded. Package grading writes
// the questions and interprets the answers.
//
// The endpoint is not trusted: its certificate is verified, redirects are not followed, and
// the size of responses is limited. Proxy settings of the environment are ignored. The key
// is only used in request headers.
package judge

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/secret"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/model/dialect"
)

const (
	maxAtOnce   = 4 // parallel questions to one endpoint
	maxAttempts = 4 // of one question

	connectTimeout    = 10 * time.Second
	maxResponseHeader = 64 << 10
)

// Client is a client of one endpoint. It is safe for concurrent use.
type Client struct {
	url     string // of chat completions
	key     string
	keyEnv  string // variable that contains the key, for messages
	timeout time.Duration
	secrets *secret.Set
	http    *http.Transport
	slots   chan struct{}
	// schemaless is set once the endpoint has rejected a schema for the answer and answered without.
	schemaless atomic.Bool
	retry      retry.Policy
}

// New returns a client for the endpoint of j. key is the value of the variable that j names, if
// any. New adds it to secrets, which are redacted from errors.
func New(j evidence.Judge, key string, secrets *secret.Set) (*Client, error) {
	secrets.Add(key)
	base, err := j.Endpoint()
	if err != nil {
		return nil, fmt.Errorf("base_url %w", err)
	}
	if j.APIKeyEnv != "" || key != "" {
		if err := secret.CheckKey(j.APIKeyEnv, key, "the judge's endpoint"); err != nil {
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
		secrets: secrets, http: transport,
		slots: make(chan struct{}, maxAtOnce), retry: retry.Policy{Attempts: maxAttempts},
	}, nil
}

// Answer asks the model a question, with retries after temporary failures. Errors include
// advice.
func (c *Client) Answer(ctx context.Context, ask evidence.JudgeAsk) (evidence.JudgeAnswer, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return evidence.JudgeAnswer{}, context.Cause(ctx)
	}
	return retry.Do(ctx, c.retry, func(ctx context.Context) (evidence.JudgeAnswer, error) { return c.ask(ctx, ask) })
}

// ask asks once, and again without a schema if the endpoint does not support one.
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

const (
	maxResponse = 4 << 20  // bytes of a response, which includes the reasoning of some models
	maxText     = 64 << 10 // bytes of an answer
	maxSaid     = 300      // bytes shown of an endpoint's error
	maxTokens   = 1 << 40  // maximum that is accepted from an endpoint
)

// failure is why a request got no answer.
type failure struct {
	text       string
	schemaless bool // the request may succeed without its schema
}

func (f *failure) Error() string { return f.text }

func failed(format string, args ...any) *failure { return &failure{text: fmt.Sprintf(format, args...)} }

// request is the body of a request for a chat completion.
type request struct {
	Model          string                  `json:"model"`
	Messages       []evidence.JudgeMessage `json:"messages"`
	MaxTokens      int                     `json:"max_tokens,omitempty"`
	Temperature    *float64                `json:"temperature,omitempty"`
	Effort         string                  `json:"reasoning_effort,omitempty"`
	ResponseFormat *format                 `json:"response_format,omitempty"`
}

// format is OpenAI's structured output.
type format struct {
	Type       string `json:"type"`
	JSONSchema schema `json:"json_schema"`
}

type schema struct {
	Name   string          `json:"name"`
	Strict bool            `json:"strict"`
	Schema json.RawMessage `json:"schema"`
}

// send sends one request, with or without a schema for the answer.
func (c *Client) send(ctx context.Context, ask evidence.JudgeAsk, withSchema bool) (evidence.JudgeAnswer, error) {
	body := request{Model: ask.Model, Messages: ask.Messages, MaxTokens: ask.MaxTokens, Temperature: ask.Temperature, Effort: ask.Effort}
	if withSchema {
		body.ResponseFormat = &format{"json_schema", schema{"judgement", true, ask.Schema}}
	}
	data, err := json.Marshal(body)
	if err != nil {
		return evidence.JudgeAnswer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	header := http.Header{"Accept": {"application/json"}}
	if c.key != "" {
		header.Set("Authorization", "Bearer "+c.key)
	}
	response, content, err := web.Post(ctx, c.http, c.url, header, data, maxResponse)
	switch {
	case err != nil:
		return evidence.JudgeAnswer{}, c.unreached(ctx, err)
	case response.StatusCode != http.StatusOK:
		return evidence.JudgeAnswer{}, c.refused(response, content, withSchema)
	case len(content) > maxResponse:
		return evidence.JudgeAnswer{}, failed("the judge's endpoint sends more than %d MiB", maxResponse>>20)
	}
	return c.readReply(content)
}

// unreached returns the error for a request without a response.
func (c *Client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return retry.Transient(failed("the judge's endpoint does not answer within %s", c.timeout), 0)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return failed("the judge's endpoint cannot be trusted: %s", c.clip(untrusted.Error()))
	}
	return retry.Transient(failed("the judge's endpoint cannot be reached: %s", c.clip(err.Error())), 0)
}

// refused returns the error for a response with a status other than 200.
func (c *Client) refused(response *http.Response, content []byte, withSchema bool) error {
	f := failed("the judge's endpoint answers %d%s", response.StatusCode, c.said(content))
	switch status := response.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if c.keyEnv == "" {
			f.text += "; name the variable that holds its key in config.judge.api_key_env"
		} else {
			f.text += "; set the environment variable " + c.keyEnv + " to a key that it takes"
		}
	case status == http.StatusNotFound:
		f.text += "; see whether config.judge.base_url is right, and the model is one that it has"
	case status >= 300 && status < 400:
		f.text = fmt.Sprintf("the judge's endpoint redirects (%d) to %s, and redirects are not followed; set config.judge.base_url to the final address",
			status, strconv.Quote(c.clip(response.Header.Get("Location"))))
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		f.schemaless = withSchema
	case retry.TransientStatus(status):
		return retry.Transient(f, retry.RetryAfter(response.Header))
	}
	return f
}

// said returns the endpoint's error message in a form that ends a sentence.
func (c *Client) said(content []byte) string {
	text, _ := dialect.ErrorIn(content)
	if text = strings.TrimSpace(text); text == "" {
		return ""
	}
	return ": " + strconv.Quote(c.clip(text))
}

// clip shortens an endpoint's text and redacts secrets.
func (c *Client) clip(s string) string {
	return text.Shorten(c.secrets.String(s), maxSaid)
}

// reply is the part of a chat completion that is used.
type reply struct {
	Model   string `json:"model"`
	Choices []struct {
		Message struct {
			Content *string `json:"content"`
			Refusal *string `json:"refusal"`
		} `json:"message"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
	} `json:"usage"`
}

// readReply reads a chat completion.
func (c *Client) readReply(content []byte) (evidence.JudgeAnswer, error) {
	var r reply
	if err := jsontext.Unmarshal(content, &r); err != nil || len(r.Choices) == 0 {
		return evidence.JudgeAnswer{}, failed("the judge's endpoint answers something else than a chat completion: %s", strconv.Quote(c.clip(string(content))))
	}
	choice := r.Choices[0]
	answer := evidence.JudgeAnswer{
		Model: c.clip(r.Model), Finish: c.clip(choice.FinishReason),
		InputTokens: counted(r.Usage.PromptTokens), OutputTokens: counted(r.Usage.CompletionTokens),
	}
	if choice.Message.Content != nil {
		answer.Text = *choice.Message.Content
	}
	if choice.Message.Refusal != nil {
		answer.Refusal = c.clip(*choice.Message.Refusal)
	}
	if len(answer.Text) > maxText {
		return evidence.JudgeAnswer{}, failed("the judge's answer of %d bytes is too long to be one", len(answer.Text))
	}
	return answer, nil
}

// counted returns a count of tokens within bounds that prevent overflow of sums.
func counted(tokens int64) int64 { return min(max(tokens, 0), maxTokens) }
