package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/internal/retry"
)

// ErrModel is the class of what the model's endpoint did wrong or refused.
var ErrModel = errors.New("the model")

// Bounds of asking.
const (
	maxAttempts     = 5 // of one question
	askTimeout      = 10 * time.Minute
	maxConversation = 64 << 20 // bytes of a request
)

// model is a conversation with a model.
type model struct {
	url      string
	request  request
	pictures bool // the endpoint may be shown pictures
	used     map[string]bool
	http     *http.Client
	retry    retry.Policy
}

func newModel(o Options, tools []definition) *model {
	return &model{
		url: strings.TrimSuffix(o.ModelURL, "/") + "/chat/completions",
		request: request{
			Model: o.Model, Tools: tools, Temperature: o.Temperature, MaxTokens: o.MaxTokens, ReasoningEffort: o.Effort,
			Messages: []message{{Role: "system", Content: systemPrompt(o)}, {Role: "user", Content: o.Prompt}},
		},
		pictures: true,
		used:     map[string]bool{},
		http: &http.Client{
			// The model is a name of the task network: no proxy of the environment.
			Transport:     &http.Transport{DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		retry: retry.Policy{Attempts: maxAttempts},
	}
}

func (m *model) close() { m.http.CloseIdleConnections() }

// ask asks for the next answer, again where what failed may pass, and adds it to the
// conversation.
func (m *model) ask(ctx context.Context) (answer, error) {
	a, err := retry.Do(ctx, m.retry, m.attempt)
	if err == nil {
		m.add(&a)
	}
	return a, err
}

// attempt asks once, and anew as often as there is something to leave out of the request.
func (m *model) attempt(ctx context.Context) (answer, error) {
	for {
		a, err := m.send(ctx)
		if failed, ok := errors.AsType[*refusal](err); !ok || !m.adapt(failed) {
			return a, err
		}
	}
}

// adapt leaves out of the request what the endpoint may have refused it for, once each.
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

// add adds the model's answer. Every call gets an id that no other has: results go by it.
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

// tell adds a tool's result.
func (m *model) tell(id, text string) {
	m.request.Messages = append(m.request.Messages, message{Role: "tool", Content: text, ToolCallID: id})
}
