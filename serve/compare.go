package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/waza-isolate/waza/report"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
	"github.com/waza-isolate/waza/runner"
)

// maxCompared is how many runs are held side by side.
const maxCompared = 8

func (s *Server) comparePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	ids := append(slices.Clone(q["a"]), q["b"]...)
	for _, ticked := range q["run"] { // names as the list has them, which hold nothing that could be taken otherwise
		id, err := url.PathUnescape(ticked)
		if err != nil {
			s.denyFor(w, r, errNotThere)
			return
		}
		ids = append(ids, id)
	}
	comparison, runs, err := s.compare(r.Context(), ids)
	if err != nil {
		s.denyFor(w, r, err)
		return
	}
	var links []report.Links
	for _, id := range ids {
		links = append(links, linksOf(id))
	}
	s.show(w, "Comparison", "", nil, report.One(report.Comparison(comparison, runs, links)))
}

// compare holds runs against the first of them, each by its trials that have verdicts.
func (s *Server) compare(ctx context.Context, ids []string) (c results.Comparison, shown []view.Run, err error) {
	if len(ids) < 2 || len(ids) > maxCompared {
		return c, nil, &badRequest{fmt.Sprintf("Name from 2 to %d runs to compare.", maxCompared)}
	}
	var entries []results.Entry
	for _, id := range ids {
		run, err := s.shelf.find(id)
		if err != nil {
			return c, nil, err
		}
		entry := results.Entry{Path: id, Error: run.Problem}
		if entry.Outline, err = s.outline(run); err != nil {
			entry.Error = problemWith(runner.ResultsFile, err)
		}
		one, err := s.pages.run(ctx, run)
		if err != nil {
			return c, nil, err
		}
		entry.Made = one.Made
		entries, shown = append(entries, entry), append(shown, one)
	}
	return results.Compare(entries), shown, nil
}

// outline is a run in figures; that of one which has no results is what its record says.
func (s *Server) outline(run Run) (results.Outline, error) {
	empty := results.Outline{EvalName: run.Eval, Agent: run.Agent, Model: run.Model, Isolated: run.Isolated}
	p, err := openPlace(s.shelf.dir, run.ID)
	if err != nil {
		return empty, err
	}
	defer func() { _ = p.Close() }()
	file, _, err := p.open(runner.ResultsFile)
	if err != nil {
		return empty, err
	}
	defer func() { _ = file.Close() }()
	outline, err := results.ReadOutline(file)
	if err != nil {
		return empty, err
	}
	return outline, nil
}
