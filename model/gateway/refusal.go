package gateway

import (
	"net/http"
	"strconv"

	"github.com/waza-isolate/waza/model/dialect"
)

// refusal is an error that the gateway answers with, in the provider's place.
type refusal struct {
	status  int
	kind    string // as OpenAI and Anthropic name it
	google  string // as Google does
	final   bool   // the client should not ask again
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

// body returns the refusal as an error of the API.
func (r refusal) body(shape dialect.Name) []byte {
	return shape.Failure(dialect.Failure{
		Status: r.status, Message: r.message, Type: r.kind, GoogleStatus: r.google, Quota: r.status == http.StatusTooManyRequests,
	})
}

// write answers with the refusal and returns the body. Clients of OpenAI and Anthropic heed
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
	_, _ = w.Write(body) // an agent that left needs none
	return body
}

const contentJSON = "application/json"
