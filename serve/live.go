package serve

import (
	"maps"
	"slices"
	"time"

	"github.com/waza-isolate/waza/report"
)

// Of trials that a page has as it is loaded.
const (
	maxWorkingShown = 256 // as many as work at once
	maxEndedShown   = 20
)

// livePage is the part of a page that shows how a run stands.
func (s *Server) livePage(run Run, links report.Links) (report.Page, error) {
	p, err := s.watches.progress(run.ID)
	if err != nil {
		return report.Page{}, err
	}
	now := report.Now{Links: links, State: string(p.State), Planned: p.Planned, Done: p.Done, Elapsed: milliseconds(p.ElapsedMS)}
	if p.LeftMS != nil {
		now.Left = milliseconds(*p.LeftMS)
	}
	for _, outcome := range slices.Sorted(maps.Keys(p.Outcomes)) {
		now.Outcomes = append(now.Outcomes, report.CountOf{Outcome: string(outcome), Count: p.Outcomes[outcome]})
	}
	slices.SortStableFunc(p.Trials, func(a, b TrialProgress) int { return b.Since.Compare(a.Since) })
	for _, t := range p.Trials {
		if t.ended() && len(now.Ended) < maxEndedShown {
			now.Ended = append(now.Ended, report.EndedTrial{Task: t.Task, Number: t.Number, Outcome: string(t.Outcome), Message: t.Message})
		}
		if !t.ended() && len(now.Working) < maxWorkingShown {
			now.Working = append(now.Working, working(t))
		}
	}
	return report.AtWork(now), nil
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func working(t TrialProgress) report.WorkingTrial {
	w := report.WorkingTrial{Task: t.Task, Number: t.Number, Attempt: t.Attempt, Phase: t.Phase, Since: t.Since}
	if t.Call != nil {
		w.Call = t.Call.Server + " " + t.Call.Tool
	}
	return w
}
