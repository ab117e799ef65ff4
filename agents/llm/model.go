package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ErrModel is the class of what the model's endpoint did wrong or refused.
var ErrModel = errors.New("the model")

// Bounds of asking.
const (
	maxAttempts     = 5 // of one question
	firstWait       = time.Second
	maxWait         = time.Minute // between two attempts, whatever the endpoint asks for
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
	// wait waits between attempts.
	wait func(context.Context, time.Duration) error
}

func newModel(o Options, tools []definition) *model {
	return &model{
		url: strings.TrimSuffix(o.ModelURL, "/") + "/chat/completions",
		request: request{
			Model: o.Model, Tools: tools, Temperature: o.Temperature, MaxTokens: o.MaxTokens,
			Messages: []message{{Role: "system", Content: systemPrompt(o)}, {Role: "user", Content: o.Prompt}},
		},
		pictures: true,
		used:     map[string]bool{},
		http: &http.Client{
			// The model is a name of the task network: no proxy of the environment.
			Transport:     &http.Transport{DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		wait: sleep,
	}
}

func (m *model) close() { m.http.CloseIdleConnections() }

// ask asks for the next answer, again where what failed may pass, and adds it to the
// conversation.
func (m *model) ask(ctx context.Context) (answer, error) {
	for attempt, wait := 1, firstWait; ; attempt, wait = attempt+1, 2*wait {
		a, err := m.send(ctx)
		if ctx.Err() != nil {
			return answer{}, ctx.Err()
		}
		failed, ok := errors.AsType[*refusal](err)
		switch {
		case err == nil:
			m.add(&a)
			return a, nil
		case !ok:
			return answer{}, err
		case m.adapt(failed):
			continue
		case !failed.passing:
			return answer{}, err
		case failed.after > maxWait:
			return answer{}, fmt.Errorf("%w; it asks to wait for %s, which is too long", err, failed.after)
		case attempt >= maxAttempts:
			return answer{}, fmt.Errorf("%w, and so %d times in a row", err, attempt)
		}
		if err := m.wait(ctx, max(wait, failed.after)); err != nil {
			return answer{}, err
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

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
