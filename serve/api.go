package serve

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// How many runs an answer of the API lists.
const (
	usualPage = 100
	maxPage   = 1000
)

// RunList is the answer to /api/v1/runs.
type RunList struct {
	Total  int   `json:"total"`          // runs that there are
	Offset int   `json:"offset"`         // of these before the first that is listed
	Next   *int  `json:"next,omitempty"` // the offset of those that follow; left out where none do
	Runs   []Run `json:"runs"`           // in the order that was asked for
}

func (s *Server) apiRuns(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit, err := numberOf(q, "limit", usualPage, 1, maxPage)
	offset, err2 := numberOf(q, "offset", 0, 0, 1<<30)
	order, err3 := orderOf(q)
	if err := cmp.Or(err, err2, err3); err != nil {
		s.denyFor(w, r, err)
		return
	}
	runs, err := s.shelf.list()
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	if order != nil {
		slices.SortStableFunc(runs, order)
	}
	list := RunList{Total: len(runs), Offset: offset}
	from := min(offset, len(runs))
	to := min(from+limit, len(runs))
	if list.Runs = runs[from:to]; to < len(runs) {
		list.Next = &to
	}
	sendJSON(w, http.StatusOK, list)
}

// numberOf reads a number of a query.
func numberOf(q url.Values, name string, usual, least, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, &badRequest{fmt.Sprintf("%s is a number from %d to %d.", name, least, most)}
	}
	return n, nil
}

// orderOf reads the order of runs of a query; nil is the newest first.
func orderOf(q url.Values) (func(a, b Run) int, error) {
	switch q.Get("order") {
	case "", "newest":
		return nil, nil
	case "oldest":
		return func(a, b Run) int { return newestFirst(b, a) }, nil
	case "id":
		return func(a, b Run) int { return cmp.Compare(a.ID, b.ID) }, nil
	}
	return nil, &badRequest{"order is newest, oldest or id."}
}

func (s *Server) apiRun(w http.ResponseWriter, r *http.Request) {
	run, err := s.shelf.find(r.PathValue("id"))
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	detail, err := s.detail(r.Context(), run)
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	sendJSON(w, http.StatusOK, detail)
}

func (s *Server) apiProgress(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	p, err := s.watches.progress(id)
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	sendJSON(w, http.StatusOK, p)
}

func (s *Server) apiTrial(w http.ResponseWriter, r *http.Request) {
	run, task, numbered := r.PathValue("id"), r.PathValue("task"), r.PathValue("number")
	if _, err := s.shelf.find(run); err != nil {
		s.denyFor(w, r, err)
		return
	}
	trial, err := s.trial(r.Context(), run, task, numbered)
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	sendJSON(w, http.StatusOK, trial)
}

func (s *Server) apiCompare(w http.ResponseWriter, r *http.Request) {
	comparison, _, err := s.compare(r.Context(), strings.Split(r.URL.Query().Get("runs"), ","))
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	sendJSON(w, http.StatusOK, comparison)
}
