package report

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
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
	o := overview{
		Run: r, place: place{l, PathOverview}, Verdict: verdictOf(r), Strip: trialStrip(r),
		Failures: listOf(failuresOf(r.Results.Tasks)), Again: listOf(madeAgain(r.Results.Tasks)),
		Tasks: taskRows(r), Contradicted: listOf(contradicted(r.Results.Tasks)), Isolation: isolationOf(r),
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
	Cut                bool // not all of the answers can be searched
}

// verdict is a verdict with its reasons.
type verdict struct {
	Mark
	Said []string
}

func verdictOf(r view.Run) verdict { return verdict{verdictMark(r.Verdict()), r.Reasons()} }

// verdictMark returns the mark of a run's verdict.
func verdictMark(word string) Mark {
	signs := map[string]Mark{
		view.AtWork: {"none", word, "infra"}, view.Incomplete: {"infra", word, "infra"},
		view.Passed: {"pass", word, "pass"}, view.Failed: {"fail", word, "fail"},
	}
	return signs[word]
}

// place is the position of a page among the others.
type place struct {
	Links Links
	path  string
}

// Trial returns the address of a trial's page.
func (p place) Trial(task string, number int) template.URL {
	return p.Links.To(TrialPath(task, number))
}

// Anchor returns the id of an element of the page.
func (p place) Anchor(anchor string) string { return p.Links.ID(p.path, anchor) }

// Here returns the address of an element of the page.
func (p place) Here(anchor string) template.URL { return p.Links.To(p.path, anchor) }

// Metrics returns the requested metrics, sorted by name.
func (o overview) Metrics() []results.Measure { return o.Results.MetricsByName() }

// MS returns the median agent time over all counted trials.
func (o overview) MS() *float64 { return results.MedianDurationMS(o.Results.Tasks...) }

// K returns the k of pass@k and pass^k: the number of trials.
func (o overview) K() int { return len(o.Results.Summary.Statistics.PassAtK) }

// AtK and HatK return the last values of the run's curves.
func (o overview) AtK() float64  { return o.Results.Summary.Statistics.PassAtK[o.K()-1] }
func (o overview) HatK() float64 { return o.Results.Summary.Statistics.PassHatK[o.K()-1] }

// AttackSentence returns how attacks ended; there was one.
func (o overview) AttackSentence() string { return view.AttackSentence(*o.Results.Summary.Attacks) }

// Attacked returns the tasks under attack, with the results.
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
	In failure // trials in which the attack succeeded
}

func succeeded(t results.Task) failure {
	f := failure{Task: t}
	for _, r := range t.Runs {
		if r.Outcome.OfAgent() && r.Attacked() {
			f.Trials = append(f.Trials, r.RunNumber)
		}
	}
	return f
}

// contradicted returns where agents misreport their calls.
func contradicted(tasks []results.Task) []failure {
	return view.Gather(tasks, func(run results.RunResult) (said []reason) {
		if run.Narration != nil {
			for _, text := range run.Narration.Sentences {
				said = append(said, reason{Why: text})
			}
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

// failuresOf returns successful attacks and failures of counted trials, the most frequent
// first.
func failuresOf(tasks []results.Task) []failure {
	all := view.Gather(tasks, func(run results.RunResult) (said []reason) {
		if run.Attacked() && run.Outcome.OfAgent() {
			said = append(said, reason{labeledInjectionMark(evidence.AttackSucceeded), view.AttackLine(*run.Attack)})
		}
		if run.Outcome != evidence.ClassPass && run.Outcome != evidence.ClassInfra {
			said = append(said, reason{outcomeOf(run.Outcome), view.Line(run)})
		}
		return said
	})
	slices.SortStableFunc(all, func(a, b failure) int {
		return cmp.Or(rankOf(a.What.Mark)-rankOf(b.What.Mark), len(b.Trials)-len(a.Trials))
	})
	return all
}

// rankOf returns 0 for the mark of a successful attack, and 1 otherwise.
func rankOf(m Mark) int {
	if m == labeledInjectionMark(evidence.AttackSucceeded) {
		return 0
	}
	return 1
}

// again is a trial with an attempt that ended as infra.
type again struct {
	Task     results.Task
	Number   int
	Mark     Mark // of the last attempt
	Attempts []attempt
}

// attempt is an attempt that ended as infra.
type attempt struct {
	Number int
	Why    string
}

func madeAgain(tasks []results.Task) (all []again) {
	for _, task := range tasks {
		for _, run := range task.Runs {
			a := again{Task: task, Number: run.RunNumber, Mark: outcomeOf(run.Outcome)}
			for _, e := range run.Earlier {
				if e.Outcome != evidence.ClassInfra {
					continue
				}
				a.Attempts = append(a.Attempts, attempt{e.Attempt, brokeBy(e.Reason, e.Message)})
			}
			if run.Outcome == evidence.ClassInfra {
				a.Attempts = append(a.Attempts, attempt{run.Attempts, brokeBy(run.Reason, run.Message)})
			}
			if len(a.Attempts) > 0 {
				all = append(all, a)
			}
		}
	}
	return all
}

// maxReason is the maximum length of a reason, in columns.
const maxReason = 240

// brokeBy returns what to show after "infra": who broke the trial, in a word, and how.
func brokeBy(by evidence.Reason, message string) string {
	message = text.Fit(text.FirstLine(message), maxReason)
	switch {
	case message == "":
		return fmt.Sprintf(" (%s)", by)
	case by == "":
		return ": " + message
	}
	return fmt.Sprintf(" (%s): %s", by, message)
}

// absent lists a task's trials without an outcome.
type absent struct {
	Task    results.Task
	Numbers string
}

func absentOf(tasks []taskRow) (all []absent) {
	for _, row := range tasks {
		if len(row.Missing) > 0 {
			all = append(all, absent{row.Task.Task, ranges(row.Missing)})
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
	Said       string
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
	i := isolation{Guarantees: r.Guarantees, Proof: proofOf(r.Certificate)}
	switch {
	case !r.Isolated:
		i.Mark = Mark{"broke", "Not isolated", "warn"}
		i.Said = "Agents and servers ran as processes of this machine: they could read and change what its user can, and reach what it reaches."
	case i.Proof != nil && len(i.Proof.GotOut) > 0:
		i.Mark = Mark{"broke", "Weakly isolated", "warn"}
		i.Said = "Every trial ran in containers of its own; not every wall holds."
	case r.Guarantees != nil && len(r.Guarantees.Missing) > 0:
		i.Mark = Mark{"error", "Isolated, with gaps", "warn"}
		i.Said = "Every trial ran in containers of its own; something could not be enforced."
	default:
		i.Mark = Mark{"pass", "Isolated", "pass"}
		i.Said = "Every trial ran in containers of its own."
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
