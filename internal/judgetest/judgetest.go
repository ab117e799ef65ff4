// Package judgetest provides a scripted chat completions endpoint for tests.
package judgetest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// Asked is a request received by the endpoint.
type Asked struct {
	Path          string
	Authorization string
	Body          Body
}

// Body has the fields of a request that tests inspect.
type Body struct {
	Model       string
	Messages    []struct{ Role, Content string }
	MaxTokens   int `json:"max_tokens"`
	Temperature *float64
	Format      *struct {
		Type string
	} `json:"response_format"`
}

// Endpoint is a scripted chat completions endpoint.
type Endpoint struct {
	URL string // its base URL

	mu     sync.Mutex
	answer func(n int, asked Asked, w http.ResponseWriter) // guarded by mu
	asked  []Asked                                         // guarded by mu
}

// Serve starts an endpoint that is closed at the end of the test. It passes every request
// to answer with its number, counting from 1.
func Serve(t testing.TB, answer func(n int, asked Asked, w http.ResponseWriter)) *Endpoint {
	t.Helper()
	e := &Endpoint{answer: answer}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	e.URL = server.URL + "/v1"
	return e
}

// ServeHTTP answers a request as scripted.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	asked := Asked{Path: r.URL.Path, Authorization: r.Header.Get("Authorization")}
	content, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(content, &asked.Body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	e.mu.Lock()
	e.asked = append(e.asked, asked)
	n, answer := len(e.asked), e.answer
	e.mu.Unlock()
	answer(n, asked, w)
}

// Script changes how the endpoint answers from now on.
func (e *Endpoint) Script(answer func(n int, asked Asked, w http.ResponseWriter)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

// Asked returns all requests so far.
func (e *Endpoint) Asked() []Asked {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Asked(nil), e.asked...)
}

// Say writes a chat completion with text.
func Say(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"model":   "scripted-1",
		"choices": []any{map[string]any{"finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": text}}},
		"usage":   map[string]any{"prompt_tokens": 100, "completion_tokens": 10},
	})
}

// Saying returns a script that answers every request with text.
func Saying(text string) func(int, Asked, http.ResponseWriter) {
	return func(_ int, _ Asked, w http.ResponseWriter) { Say(w, text) }
}

// Fail returns a script that answers every request with a status and an OpenAI error.
func Fail(status int, message string) func(int, Asked, http.ResponseWriter) {
	return func(_ int, _ Asked, w http.ResponseWriter) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message}})
	}
}
