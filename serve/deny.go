package serve

import (
	"errors"
	"net/http"

	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report"
)

// nowhere is asked for what is nowhere.
func (s *Server) nowhere(w http.ResponseWriter, r *http.Request) { s.denyFor(w, r, errNotThere) }

// denyFor says why there is no answer, as a page or as JSON.
func (s *Server) denyFor(w http.ResponseWriter, r *http.Request, err error) {
	no := refusalFor(err)
	if !wantsPage(r) {
		deny(w, r, no)
		return
	}
	s.showAs(w, no.status, "waza", "", nil, report.One(report.Notice("Nothing to show", no.text)))
}

func refusalFor(err error) *refusal {
	var bad *badRequest
	switch {
	case errors.As(err, &bad):
		return &refusal{http.StatusBadRequest, bad.text}
	case errors.Is(err, errNotEnded):
		return &refusal{http.StatusNotFound, "This trial has no verdicts yet: it has not ended, or was not graded."}
	case errors.Is(err, errNotThere):
		return &refusal{http.StatusNotFound, "There is nothing of this name. It may have been deleted."}
	case errors.Is(err, errTooMany):
		return &refusal{http.StatusServiceUnavailable, "Too many pages watch runs already. Close some."}
	}
	return &refusal{http.StatusInternalServerError, "This cannot be read: " + text.Shorten(err.Error(), maxToldMessage) + "."}
}

// badRequest is a request that cannot be understood.
type badRequest struct{ text string }

func (b *badRequest) Error() string { return b.text }
