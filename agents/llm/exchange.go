package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/retry"
)

// placeholder stands where clients need a key: the runner adds the real one.
const placeholder = "waza"

// refusal is that an attempt brought no answer.
type refusal struct {
	status  int    // 0 where nothing came
	said    string // of the endpoint
	message string
}

func (r *refusal) Error() string { return fmt.Sprintf("%v %s", ErrModel, r.message) }

// Unwrap returns the class.
func (r *refusal) Unwrap() error { return ErrModel }

// send makes one attempt.
func (m *model) send(ctx context.Context) (answer, error) {
	body := encode(m.request)
	if len(body) > maxConversation {
		return answer{}, fmt.Errorf("the conversation has grown to more than %d MiB", maxConversation>>20)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("no answer within %s", askTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+placeholder)
	request.Header.Set("User-Agent", "waza-llm/1")
	response, err := m.http.Do(request)
	if err != nil {
		return answer{}, retry.Passing(&refusal{message: "cannot be reached: " + err.Error()}, 0)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	switch {
	case err != nil:
		return answer{}, retry.Passing(&refusal{message: "broke off in its answer: " + err.Error()}, 0)
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

// refused is an answer of another status.
func refused(response *http.Response, body []byte) error {
	said := saidIn(body)
	r := &refusal{status: response.StatusCode, said: said.message}
	r.message = fmt.Sprintf("answers %d: %s", r.status, quote(said.message))
	switch {
	case r.status/100 == 3:
		r.message = fmt.Sprintf("redirects (%d), and redirects are not followed", r.status)
	case said.spent, response.Header.Get("X-Should-Retry") == "false":
	case retry.Status(r.status):
		return retry.Passing(r, retry.After(response.Header))
	}
	return r
}

// saying is what an error says.
type saying struct {
	message string
	spent   bool // what may be spent is spent: it will not pass
}

// saidIn finds the message of an error; without one it is the body itself.
func saidIn(body []byte) saying {
	var envelope struct {
		Error json.RawMessage `json:"error"`
	}
	var inner struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    any    `json:"code"`
	}
	if jsontext.Unmarshal(body, &envelope) != nil {
		return saying{message: string(body)}
	}
	if jsontext.Unmarshal(envelope.Error, &inner) != nil || inner.Message == "" {
		return saying{message: string(body)}
	}
	const spent = "insufficient_quota"
	return saying{message: inner.Message, spent: inner.Type == spent || inner.Code == spent}
}
