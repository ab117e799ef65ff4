package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/agents/input"
	"github.com/waza-isolate/waza/internal/retry"
	"github.com/waza-isolate/waza/internal/web"
	"github.com/waza-isolate/waza/model/dialect"
)

// ErrModel is wrapped by errors of the model's endpoint.
var ErrModel = errors.New("the model")

// Limits of requests.
const (
	maxAttempts     = 5 // per request
	askTimeout      = 10 * time.Minute
	maxConversation = 64 << 20 // bytes of a request
)

// model is a conversation with a model.
type model struct {
	url      string
	request  request
	pictures bool // false once the endpoint has rejected pictures
	used     map[string]bool
	http     *http.Transport
	retry    retry.Policy
}

func newModel(o input.Input, tools []definition) *model {
	return &model{
		url: strings.TrimSuffix(o.ModelURL, "/") + "/chat/completions",
		request: request{
			Model: o.Model, Tools: tools, Temperature: o.Temperature, MaxTokens: o.MaxTokens, ReasoningEffort: o.Effort,
			Messages: []message{{Role: "system", Content: systemPrompt(o)}},
		},
		pictures: true,
		used:     map[string]bool{},
		// The endpoint is a host of the task network: ignore proxies of the environment.
		http:  &http.Transport{DisableCompression: true},
		retry: retry.Policy{Attempts: maxAttempts},
	}
}

func (m *model) close() { m.http.CloseIdleConnections() }

// ask requests the next answer, with retries, and adds it to the conversation.
func (m *model) ask(ctx context.Context) (answer, error) {
	a, err := retry.Do(ctx, m.retry, m.attempt)
	if err == nil {
		m.add(&a)
	}
	return a, err
}

// attempt sends a request. If the endpoint rejects it, attempt sends it again without features that the
// endpoint may not support.
func (m *model) attempt(ctx context.Context) (answer, error) {
	for {
		a, err := m.send(ctx)
		if failed, ok := errors.AsType[*refusal](err); !ok || !m.adapt(failed) {
			return a, err
		}
	}
}

// adapt removes features from the request that the endpoint may have rejected. It reports whether there were
// any.
func (m *model) adapt(r *refusal) bool {
	switch {
	case !slices.Contains([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity}, r.status):
		return false
	case m.request.MaxTokens > 0 && strings.Contains(r.said, "max_completion_tokens"):
		m.request.MaxCompletionTokens, m.request.MaxTokens = m.request.MaxTokens, 0
		return true
	default:
		return m.hidePictures()
	}
}

// add adds the model's answer to the conversation. It gives every call a unique id, which
// results refer to.
func (m *model) add(a *answer) {
	for i := range a.Calls {
		call := &a.Calls[i]
		if call.Type = "function"; call.ID == "" || m.used[call.ID] {
			call.ID = m.freshID()
		}
		m.used[call.ID] = true
	}
	said := message{Role: "assistant", Content: a.Text, ToolCalls: a.Calls}
	if a.Text == "" && len(a.Calls) > 0 {
		said.Content = nil
	}
	m.request.Messages = append(m.request.Messages, said)
}

func (m *model) freshID() string {
	for n := len(m.used) + 1; ; n++ {
		if id := fmt.Sprintf("call_%d", n); !m.used[id] {
			return id
		}
	}
}

// addResult adds a tool's result to the conversation.
func (m *model) addResult(id, text string) {
	m.request.Messages = append(m.request.Messages, message{Role: "tool", Content: text, ToolCallID: id})
}

// placeholder is sent as the API key. The runner replaces it.
const placeholder = "waza"

// refusal is an error of the endpoint.
type refusal struct {
	status  int    // HTTP status; 0 without a response
	said    string // message of the endpoint
	message string
}

func (r *refusal) Error() string { return fmt.Sprintf("%v %s", ErrModel, r.message) }

// Unwrap returns [ErrModel].
func (r *refusal) Unwrap() error { return ErrModel }

// send sends one request.
func (m *model) send(ctx context.Context) (answer, error) {
	body := encode(m.request)
	if len(body) > maxConversation {
		return answer{}, fmt.Errorf("the conversation has grown to more than %d MiB", maxConversation>>20)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("no answer within %s", askTimeout))
	defer cancel()
	header := http.Header{"Authorization": {"Bearer " + placeholder}, "User-Agent": {"waza-llm/1"}}
	response, text, err := web.Post(ctx, m.http, m.url, header, body, maxBody)
	switch {
	case response == nil:
		return answer{}, retry.Transient(&refusal{message: "cannot be reached: " + err.Error()}, 0)
	case err != nil:
		return answer{}, retry.Transient(&refusal{message: "broke off in its answer: " + err.Error()}, 0)
	case len(text) > maxBody:
		return answer{}, &refusal{message: fmt.Sprintf("sends more than %d MiB for one answer", maxBody>>20)}
	case response.StatusCode != http.StatusOK:
		return answer{}, refused(response, text)
	}
	a, err := readAnswer(text)
	if err != nil {
		return answer{}, &refusal{message: "sends " + err.Error()}
	}
	return a, nil
}

// refused returns the error for a response with a status other than 200.
func refused(response *http.Response, body []byte) error {
	said, spent := dialect.ErrorIn(body)
	r := &refusal{status: response.StatusCode, said: said}
	r.message = fmt.Sprintf("answers %d: %s", r.status, quote(said))
	switch {
	case r.status/100 == 3:
		r.message = fmt.Sprintf("redirects (%d), and redirects are not followed", r.status)
	case spent, response.Header.Get("X-Should-Retry") == "false":
	case retry.TransientStatus(r.status):
		return retry.Transient(r, retry.RetryAfter(response.Header))
	}
	return r
}

// addPictures adds tools' pictures as a separate message, since results of tools can only contain text.
func (m *model) addPictures(pictures []picture) {
	if len(pictures) == 0 || !m.pictures {
		return
	}
	parts := []part{{Type: "text", Text: "The pictures that the tools gave:"}}
	for _, p := range pictures {
		parts = append(parts, part{Type: "image_url", Image: map[string]picture{"url": p}})
	}
	m.request.Messages = append(m.request.Messages, message{Role: "user", Content: parts})
}

// hidePictures removes all pictures, for a model that does not accept them. It reports whether
// there were any.
func (m *model) hidePictures() bool {
	shown := func(msg message) bool { _, parts := msg.Content.([]part); return parts }
	before := len(m.request.Messages)
	m.request.Messages = slices.DeleteFunc(m.request.Messages, shown)
	if len(m.request.Messages) == before {
		return false
	}
	m.pictures = false
	return true
}
