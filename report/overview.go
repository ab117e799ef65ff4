package report

import (
	"html/template"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// Overview is the page of a run as a whole.
func Overview(r Run, l Links) Page {
	o := overview{
		Run: r, place: place{l, PathOverview}, Verdict: verdictOf(r), Strip: trialStrip(r),
		Failures: listOf(failuresOf(r.Results.Tasks)), Again: listOf(madeAgain(r.Results.Tasks)),
		Tasks: taskRows(r), Told: listOf(told(r.Results.Tasks)), Isolation: isolationOf(r),
	}
	if !r.AtWork {
		o.Absent = listOf(absentOf(r))
	}
	o.Choices = choices(o.Tasks)
	for _, row := range o.Tasks {
		o.HasTokens, o.HasCost = o.HasTokens || row.Tokens != nil, o.HasCost || row.Cost != nil
		o.HasWhy = o.HasWhy || row.Why != ""
		o.Calls += row.Calls
	}
	return Page{ID: l.ID(PathOverview), Title: r.Results.EvalName, name: "overview", data: o}
}

type overview struct {
	Run
	place
	Verdict            verdict
	Strip              strip
	Failures           list[failure]
	Again              list[again]
	Absent             list[absent]
	Tasks              []taskRow
	Choices            []choice
	Told               list[failure]
	Isolation          isolation
	Calls              int // of MCP servers
	HasTokens, HasCost bool
	HasWhy             bool
}

// place is where a page stands among others.
type place struct {
	Links Links
	path  string
}

// Trial is where a trial's page is.
func (p place) Trial(task string, number int) template.URL {
	return p.Links.To(TrialPath(task, number))
}

// Anchor is the id of an element of the page.
func (p place) Anchor(anchor string) string { return p.Links.ID(p.path, anchor) }

// Here is the address of an element of the page.
func (p place) Here(anchor string) template.URL { return p.Links.To(p.path, anchor) }

// Metrics are those asked for, in the order of their names.
func (o overview) Metrics() []results.Measure { return o.Results.MetricsByName() }

// MS is the median of agents' times over all trials that tell of the agent.
func (o overview) MS() *float64 { return results.MedianDurationMS(o.Results.Tasks...) }

// K is how many further trials pass@k and pass^k are told for: as many as there are.
func (o overview) K() int { return len(o.Results.Summary.Statistics.PassAtK) }

// AtK and HatK are the last of the run's curves.
func (o overview) AtK() float64  { return o.Results.Summary.Statistics.PassAtK[o.K()-1] }
func (o overview) HatK() float64 { return o.Results.Summary.Statistics.PassHatK[o.K()-1] }

// Attacked are the tasks under attack, with what came of it.
func (o overview) Attacked() (all []attacked) {
	for _, t := range o.Results.Tasks {
		if a := results.AttacksOn(t); a != nil {
			all = append(all, attacked{t, *a, succeeded(t)})
		}
	}
	return all
}

type attacked struct {
	Task results.Task
	results.Attacks
	In failure // trials in which it succeeded
}

func succeeded(t results.Task) failure {
	f := failure{Task: t}
	for _, r := range t.Runs {
		if r.Outcome.OfAgent() && r.Attack != nil && r.Attack.Result == evidence.AttackSucceeded {
			f.Trials = append(f.Trials, r.RunNumber)
		}
	}
	return f
}

// told is where agents tell of calls otherwise than they were.
func told(tasks []results.Task) (all []failure) {
	for _, t := range tasks {
		from := len(all)
		for _, r := range t.Runs {
			if r.Narration == nil {
				continue
			}
			for _, text := range r.Narration.Sentences {
				all = addFailure(all, from, failure{Task: t, Why: text, Trials: []int{r.RunNumber}})
			}
		}
	}
	return all
}
