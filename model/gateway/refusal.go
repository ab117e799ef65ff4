package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/model/dialect"
)

// refusal is an answer of the gateway's own, in the shape in which the provider would
// tell of an error.
type refusal struct {
	status  int
	kind    string // as OpenAI and Anthropic name it
	google  string // as Google does
	final   bool   // asking again is of no use
	message string
}

func badRequest(message string) refusal {
	return refusal{http.StatusBadRequest, "invalid_request_error", "INVALID_ARGUMENT", true, message}
}

func tooLarge(message string) refusal {
	return refusal{http.StatusRequestEntityTooLarge, "request_too_large", "INVALID_ARGUMENT", true, message}
}

func overBudget(message string) refusal {
	return refusal{http.StatusTooManyRequests, "insufficient_quota", "RESOURCE_EXHAUSTED", true, message}
}

func unreachable(status int, message string) refusal {
	return refusal{status, "api_error", "UNAVAILABLE", false, message}
}

// shapeOf is the dialect in which errors of a provider's kind are told, where the request
// itself is in none.
func shapeOf(kind string) dialect.Name {
	switch kind {
	case eval.KindAnthropic:
		return dialect.Messages
	case eval.KindGoogle:
		return dialect.Generate
	}
	return dialect.Chat
}

// body is the refusal as JSON.
func (r refusal) body(shape dialect.Name) []byte {
	switch shape {
	case dialect.Messages:
		kind := r.kind
		if r.status == http.StatusTooManyRequests {
			kind = "rate_limit_error"
		}
		return encode(map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": r.message}})
	case dialect.Generate:
		return encode(map[string]any{"error": map[string]any{
			"code": r.status, "message": r.message, "status": r.google, "details": r.details(),
		}})
	}
	return encode(map[string]any{"error": map[string]any{"message": r.message, "type": r.kind, "param": nil, "code": r.kind}})
}

// details tell Google's clients that a quota is used up for longer than they would wait.
func (r refusal) details() []any {
	if r.status != http.StatusTooManyRequests {
		return []any{}
	}
	return []any{map[string]any{
		"@type":      "type.googleapis.com/google.rpc.QuotaFailure",
		"violations": []any{map[string]any{"quotaId": "TrialPerDay", "description": r.message}},
	}}
}

// write answers w. Clients of OpenAI and Anthropic heed X-Should-Retry.
func (r refusal) write(w http.ResponseWriter, shape dialect.Name) []byte {
	body := r.body(shape)
	h := w.Header()
	h.Set("Content-Type", contentJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.final {
		h.Set("X-Should-Retry", "false")
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(body) // an agent that left needs none
	return body
}

const contentJSON = "application/json"

func encode(v any) []byte {
	body, err := json.Marshal(v)
	if err != nil { // plain data always marshals
		return []byte(`{}`)
	}
	return body
}
