package serve

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/waza-isolate/waza/report"
)

// harden sets what every answer has: it is for this server's own pages, in no frame, and
// kept by nobody.
func harden(h http.Header) {
	for name, value := range map[string]string{
		"Content-Security-Policy":      report.Policy(true) + "; frame-ancestors 'none'",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store",
	} {
		h.Set(name, value)
	}
}

// ErrorAnswer is the body of every answer of the API that is none.
type ErrorAnswer struct {
	Error string `json:"error"` // a sentence
}

// deny answers in the form that was asked for.
func deny(w http.ResponseWriter, r *http.Request, no *refusal) {
	if no.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", "GET, HEAD")
	}
	if wantsPage(r) {
		plainText(w, no.status, no.text+"\n")
		return
	}
	sendJSON(w, no.status, ErrorAnswer{Error: no.text})
}

// wantsPage says whether a person asks. Programs ask for what they can read, or for
// anything.
func wantsPage(r *http.Request) bool {
	return !strings.HasPrefix(r.URL.Path, apiPrefix) && strings.Contains(r.Header.Get("Accept"), "text/html")
}

func plainText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

func sendJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error": "this cannot be told as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// patience is how long a client may take to take in a part of an answer.
const patience = 30 * time.Second

// patient is an answer of which every part may take its time, however many there are.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p patient) Write(b []byte) (int, error) {
	const part = 64 << 10
	written := 0
	for {
		if err := p.control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return written, err
		}
		n, err := p.ResponseWriter.Write(b[written:min(len(b), written+part)])
		if written += n; err != nil || written == len(b) {
			return written, err
		}
	}
}

func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }
