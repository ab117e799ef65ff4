package report

import (
	"html/template"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// Overview returns the overview page of a run.
func Overview(r view.Run, l Links) Page { return overviewOf(r, l).page() }

// LiveOverview returns the overview page of a live run.
func LiveOverview(r view.Run, p view.RunProgress, l Links) Page {
	o := overviewOf(r, l)
	o.Now = new(progressOf(p, l))
	return o.page()
}

func (o overview) page() Page {
	return Page{ID: o.Links.ID(PathOverview), Title: o.Results.EvalName, name: "overview", data: o}
}

func overviewOf(r view.Run, l Links) overview {
	tasks := view.Tasks(r.Results)
	o := overview{
		Run: r, place: place{l, PathOverview}, Verdict: verdictOf(r), Strip: trialStrip(r),
		Failures: listOf(failuresOf(tasks)), Again: listOf(madeAgain(tasks)),
		Tasks: taskRows(tasks), Contradicted: listOf(contradicted(tasks)), Isolation: isolationOf(r),
	}
	if !r.AtWork {
		o.Absent = listOf(absentOf(o.Tasks))
	}
	o.Choices = choices(o.Tasks)
	for _, row := range o.Tasks {
		o.HasTokens, o.HasCost = o.HasTokens || row.Tokens() != nil, o.HasCost || row.Cost() != nil
		o.HasAnswers = o.HasAnswers || row.Answer != ""
		o.Cut = o.Cut || row.Cut
		o.Calls += row.MCPCalls
	}
	return o
}

type overview struct {
	view.Run
	Now *progressPage // nil if the run is not live or its progress is unknown
	place
	Verdict            verdict
	Strip              strip
	Failures           list[failure]
	Again              list[again]
	Absent             list[absent]
	Tasks              []taskRow
	Choices            []choice
	Contradicted       list[failure]
	Isolation          isolation
	Calls              int // of MCP servers
	HasTokens, HasCost bool
	HasAnswers         bool
	Cut                bool // only a part of the answers can be searched
}

// verdict is a verdict with its reasons.
type verdict struct {
	Mark
	Said []string
}

func verdictOf(r view.Run) verdict { return verdict{outcomeOf(r.Verdict()), r.Reasons()} }

// place is a page's position among the other pages.
type place struct {
	Links Links
	path  string
}

// Anchor returns the id of an element of the page.
func (p place) Anchor(anchor string) string { return p.Links.ID(p.path, anchor) }

// Here returns the address of an element of the page.
func (p place) Here(anchor string) template.URL { return p.Links.To(p.path, anchor) }

// Metrics returns the requested metrics, sorted by name.
func (o overview) Metrics() []results.Measure { return o.Results.MetricsByName() }

// MS returns the median agent time over all counted trials.
func (o overview) MS() *float64 { return results.MedianDurationMS(o.Results.Tasks...) }

// Columns returns the number of columns of the table of tasks.
func (o overview) Columns() int {
	n := 7
	for _, has := range []bool{o.HasTokens, o.HasCost, o.HasAnswers} {
		if has {
			n++
		}
	}
	return n
}

// K returns the k of pass@k and pass^k: the number of trials.
func (o overview) K() int { return len(o.Results.Summary.Statistics.PassAtK) }

// AtK and HatK return the last values of the run's curves.
func (o overview) AtK() float64  { return o.Results.Summary.Statistics.PassAtK[o.K()-1] }
func (o overview) HatK() float64 { return o.Results.Summary.Statistics.PassHatK[o.K()-1] }

// Attacked returns the tasks that were attacked, with the results.
func (o overview) Attacked() (all []attacked) {
	for _, row := range o.Tasks {
		if a := results.AttacksOn(row.Task.Task); a != nil {
			all = append(all, attacked{row.Task, *a, succeeded(row.Task)})
		}
	}
	return all
}

type attacked struct {
	Task view.Task
	results.Attacks
	In failure // trials in which the attack succeeded
}

func succeeded(t view.Task) failure {
	f := failure{Task: t}
	for _, trial := range t.Trials {
		if trial.Attacked() {
			f.Trials = append(f.Trials, trial.RunNumber)
		}
	}
	return f
}

// contradicted returns the trials whose agents misreport calls and were not failed by a grader for that.
func contradicted(tasks []view.Task) []failure {
	return view.Gather(tasks, func(trial view.Trial) (said []reason) {
		for _, text := range trial.Misreported() {
			said = append(said, reason{Why: text})
		}
		return said
	})
}

// failure is a group of a task's trials with the same reason.
type failure = view.Alike[reason]

// reason is a reason with its mark.
type reason struct {
	Mark Mark
	Why  string
}

// Limits of lists whose first entries are visible and others are collapsed.
const (
	seenAtFirst = 20
	seenAtAll   = 300
)

// list is a long list: the visible part, the collapsed part, and the number of other
// entries.
type list[T any] struct {
	First, Folded []T
	Left          int
}

func listOf[T any](all []T) list[T] {
	l := list[T]{First: all[:min(len(all), seenAtFirst)]}
	l.Folded = all[len(l.First):min(len(all), seenAtAll)]
	l.Left = len(all) - len(l.First) - len(l.Folded)
	return l
}

// Total returns the total number of entries.
func (l list[T]) Total() int { return len(l.First) + len(l.Folded) + l.Left }

// failuresOf returns the failures, except trials that ended as infra: see madeAgain.
func failuresOf(tasks []view.Task) (all []failure) {
	for _, f := range view.Failures(tasks, 0) {
		if f.First.Outcome == evidence.ClassInfra {
			continue
		}
		mark := outcomeOf(f.First.Outcome)
		if f.What.Attack {
			mark = labeledInjectionMark(evidence.AttackSucceeded)
		}
		said := reason{Mark{mark.Sign, f.What.Word, kindOf(f.What.State)}, f.What.Line}
		all = append(all, failure{Task: f.Task, What: said, Trials: f.Trials, First: f.First})
	}
	return all
}

// again is a trial with several attempts, or with a single attempt that ended as infra.
type again struct {
	Task     view.Task
	Number   int
	Mark     Mark // of the last attempt
	Attempts []attempt
}

// attempt is an earlier attempt, or the last one if it ended as infra.
type attempt struct {
	Number int
	Why    string
}

func madeAgain(tasks []view.Task) (all []again) {
	for _, task := range tasks {
		for _, trial := range task.Trials {
			a := again{Task: task, Number: trial.RunNumber, Mark: outcomeOf(trial.Outcome)}
			for _, before := range trial.Before {
				a.Attempts = append(a.Attempts, attempt{before.Attempt.Attempt, before.Text})
			}
			if trial.Outcome == evidence.ClassInfra {
				a.Attempts = append(a.Attempts, attempt{trial.Attempts, trial.Last()})
			}
			if len(a.Attempts) > 0 {
				all = append(all, a)
			}
		}
	}
	return all
}

// absent lists a task's trials without an outcome.
type absent struct {
	Task    view.Task
	Numbers string
}

func absentOf(tasks []taskRow) (all []absent) {
	for _, row := range tasks {
		if len(row.Missing) > 0 {
			all = append(all, absent{row.Task, ranges(row.Missing)})
		}
	}
	return all
}

// ranges formats increasing numbers compactly: 1–3, 5.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		part := strconv.Itoa(numbers[i])
		if last > i {
			part += "–" + strconv.Itoa(numbers[last])
		}
		parts = append(parts, part)
		i = last + 1
	}
	return strings.Join(parts, ", ")
}

// isolation describes how a run's trials were isolated.
type isolation struct {
	Mark
	view.Isolation
	Guarantees *evidence.Guarantees
	Proof      *proof // nil without a certificate
}

// proof is a certificate in figures.
type proof struct {
	*evidence.Certificate
	Strip    strip
	GotOut   []evidence.Attack
	NotTried []evidence.Attack
}

func isolationOf(r view.Run) isolation {
	i := isolation{Isolation: r.Isolation(), Guarantees: r.Guarantees, Proof: proofOf(r.Certificate)}
	i.Mark = Mark{"error", i.Isolation.Word, kindOf(i.State)}
	if i.State == view.Good {
		i.Sign = "pass"
	}
	return i
}

func proofOf(c *evidence.Certificate) *proof {
	if c == nil {
		return nil
	}
	p := &proof{Certificate: c, GotOut: c.With(evidence.AttackGotOut), NotTried: c.With(evidence.AttackNotTried)}
	p.Strip.add(attackMark(evidence.AttackHeld), len(c.With(evidence.AttackHeld)))
	p.Strip.add(attackMark(evidence.AttackNotTried), len(p.NotTried))
	p.Strip.add(attackMark(evidence.AttackGotOut), len(p.GotOut))
	p.Strip = p.Strip.scaled()
	return p
}

func attackMark(r evidence.AttackResult) Mark {
	switch r {
	case evidence.AttackHeld:
		return Mark{"pass", "held", "pass"}
	case evidence.AttackGotOut:
		return Mark{"fail", "got out", "fail"}
	}
	return Mark{"none", "not tried", "soft"}
}
