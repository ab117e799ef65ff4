package gateway

import (
	"net/http"
	"strconv"

	"github.com/waza-isolate/waza/model/dialect"
)

// refusal is an error response of the gateway in place of the provider's.
type refusal struct {
	status  int
	kind    string // name for OpenAI and Anthropic
	google  string // name for Google
	final   bool   // the client must not retry
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

// body returns the refusal in the error format of an API.
func (r refusal) body(shape dialect.Name) []byte {
	return shape.Failure(dialect.Failure{
		Status: r.status, Message: r.message, Type: r.kind, GoogleStatus: r.google, Quota: r.status == http.StatusTooManyRequests,
	})
}

// write sends the refusal and returns its body. Clients of OpenAI and Anthropic obey
// X-Should-Retry.
func (r refusal) write(w http.ResponseWriter, shape dialect.Name) []byte {
	body := r.body(shape)
	h := w.Header()
	h.Set("Content-Type", contentJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.final {
		h.Set("X-Should-Retry", "false")
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(body) // fails if the agent has left
	return body
}

const contentJSON = "application/json"
