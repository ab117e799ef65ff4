package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// Task is how the trials of a task ended, and what they used.
type Task struct {
	results.Task
	results.Totals
	Missing  []int   // planned trials without an outcome
	Outcomes []Count // of the last attempts
	Earlier  []Count // of earlier attempts
}

// Count is a number of attempts with an outcome.
type Count struct {
	Class  evidence.Class
	Trials int
}

// TaskOf returns the view of a task with the planned number of trials. A prompt of
// trigger_tests.yaml has one trial.
func TaskOf(task results.Task, planned int) Task {
	t := Task{Task: task, Totals: task.Totals()}
	last, earlier := map[evidence.Class]int{}, map[evidence.Class]int{}
	for _, run := range task.Runs {
		last[run.Outcome]++
		for _, attempt := range run.Earlier {
			earlier[attempt.Outcome]++
		}
	}
	t.Outcomes, t.Earlier = countsOf(last), countsOf(earlier)
	if task.Trigger != nil {
		planned = 1
	}
	for number := 1; number <= planned; number++ {
		if !slices.ContainsFunc(task.Runs, func(r results.RunResult) bool { return r.RunNumber == number }) {
			t.Missing = append(t.Missing, number)
		}
	}
	return t
}

// countsOf returns counts sorted by class name.
func countsOf(trials map[evidence.Class]int) (all []Count) {
	for _, class := range slices.Sorted(maps.Keys(trials)) {
		all = append(all, Count{class, trials[class]})
	}
	return all
}

// IsQuiet reports whether the task passed and no attack on it succeeded.
func (t Task) IsQuiet() bool { return t.Status == results.StatusPassed && !t.Attacked() }

// Flaky describes a task of which some trials passed and others did not.
const Flaky = "flaky"

// Word returns how the task's trials ended, in a word: Flaky, the outcome of the first
// counted trial that did not pass, pass if all did, infra if none counts, or "" if nothing that
// ended decides.
func (t Task) Word() string {
	word, passed, infra := "", false, false
	for _, r := range t.Runs {
		switch r.Outcome {
		case evidence.ClassPass:
			passed = true
		case evidence.ClassInfra:
			infra = true
		default:
			word = cmp.Or(word, string(r.Outcome))
		}
	}
	switch {
	case passed && word != "":
		return Flaky
	case passed && t.Status == results.StatusNone:
		return ""
	case passed:
		return string(evidence.ClassPass)
	case infra:
		return cmp.Or(word, string(evidence.ClassInfra))
	}
	return word
}

// MissingText says how many trials of a task that has begun are missing; "" if none is.
func (t Task) MissingText() string {
	if len(t.Runs) == 0 || len(t.Missing) == 0 {
		return ""
	}
	return fmt.Sprintf("%d without outcome", len(t.Missing))
}

// PassedTrials returns the number of trials that passed.
func (t Task) PassedTrials() int {
	for _, c := range t.Outcomes {
		if c.Class == evidence.ClassPass {
			return c.Trials
		}
	}
	return 0
}

// MS returns the median of its agents' times in milliseconds, or nil if no trial counts.
func (t Task) MS() *float64 { return results.MedianDurationMS(t.Task) }

// MedianTime returns the same as text.
func (t Task) MedianTime() string {
	ms := t.MS()
	if ms == nil {
		return Unknown
	}
	return Clock(time.Duration(*ms * float64(time.Millisecond)))
}

// Tokens returns the tokens that models read and wrote, or nil if unknown.
func (t Task) Tokens() *int64 {
	if t.Models == nil {
		return nil
	}
	return new(t.Models.Tokens.Input + t.Models.Tokens.Output)
}

// Cost returns the cost of models in US dollars, or nil if unknown.
func (t Task) Cost() *float64 {
	if t.Models == nil {
		return nil
	}
	return t.Models.Cost
}

// Line returns why a trial did not pass, on one line: a grader's reason or the trial's own,
// otherwise how it ended. It returns "" for a trial that passed.
func Line(r results.RunResult) string {
	if r.Outcome == evidence.ClassPass {
		return ""
	}
	return cmp.Or(WhyOf(r).Line(), r.Outcome.With(r.Reason))
}

// AttackSentence returns how the attacks on trials ended.
func AttackSentence(a results.Attacks) string {
	said := fmt.Sprintf("Of %s under attack the attack succeeded in %d and was resisted in %d", Several(a.Trials, "trial"), a.Succeeded, a.Resisted)
	if a.NotDelivered > 0 {
		said += fmt.Sprintf("; in %d it was not delivered", a.NotDelivered)
	}
	if a.Errors > 0 {
		said += fmt.Sprintf("; in %d evidence is missing", a.Errors)
	}
	return said + fmt.Sprintf(". The task itself passed in %d of %d.", a.BenignRate.Count, a.BenignRate.Of)
}

// AttackLine returns what a successful attack did, on one line.
func AttackLine(a results.Attack) string {
	line := a.Goal
	if len(a.Reasons) > 0 {
		line += ": " + a.Reasons[0]
	}
	return text.Line(line, maxWhy)
}

// Alike is a group of a task's trials with the same thing to report.
type Alike[T comparable] struct {
	Task   results.Task
	What   T
	Trials []int
	First  results.RunResult // the first of these trials
}

// maxNamed is the maximum number of trials listed for a group.
const maxNamed = 40

// Named returns the trials to list.
func (a Alike[T]) Named() []int { return a.Trials[:min(len(a.Trials), maxNamed)] }

// More returns the number of trials not listed.
func (a Alike[T]) More() int { return len(a.Trials) - len(a.Named()) }

// Gather calls say for each trial in order, and groups identical results for trials of the
// same task.
func Gather[T comparable](tasks []results.Task, say func(results.RunResult) []T) (all []Alike[T]) {
	for _, task := range tasks {
		at := map[T]int{}
		for _, run := range task.Runs {
			for _, what := range say(run) {
				i, known := at[what]
				if !known {
					i = len(all)
					at[what], all = i, append(all, Alike[T]{Task: task, What: what, First: run})
				}
				all[i].Trials = append(all[i].Trials, run.RunNumber)
			}
		}
	}
	return all
}

// Failure is how a trial that did not pass ended, and all the reasons.
type Failure struct{ Outcome, Reasons string }

// Failures groups the trials that did not pass by how and why. Reasons are shortened to most
// bytes.
func Failures(tasks []results.Task, most int) []Alike[Failure] {
	return Gather(tasks, func(r results.RunResult) []Failure {
		if r.Outcome == evidence.ClassPass {
			return nil
		}
		return []Failure{{r.Outcome.With(r.Reason), text.Shorten(strings.Join(WhyOf(r).Reasons(), "\n"), most)}}
	})
}

// Why is why a trial did not pass; empty if it passed. Its texts are untrusted.
type Why struct {
	Own     string // reason for the trial's class, which may name graders; may be empty
	Against []results.Validation

	deciding evidence.VerdictResult // result that determines the trial's class; empty if no grader does
}

// WhyOf returns why a trial did not pass. Graders that did not pass, including those of a
// checkpoint that ended the conversation, are sorted: those that decided the class first,
// then those that name the calls concerned, then by lost score, then by name.
func WhyOf(r results.RunResult) Why {
	if r.Outcome == evidence.ClassPass {
		return Why{}
	}
	w := Why{Own: r.Message}
	switch r.Outcome {
	case evidence.ClassFail:
		w.deciding = evidence.VerdictFail
	case evidence.ClassError:
		w.deciding = evidence.VerdictError
	}
	for _, v := range r.Validations {
		if v.Result != evidence.VerdictPass {
			w.Against = append(w.Against, v)
		}
	}
	for _, c := range r.Checkpoints {
		for _, v := range c.Validations {
			if c.Stopped && v.Result != evidence.VerdictPass {
				v.Identifier += fmt.Sprintf(" after turn %d", c.AfterTurn)
				w.Against = append(w.Against, v)
			}
		}
	}
	slices.SortFunc(w.Against, func(a, b results.Validation) int {
		return cmp.Or(w.rank(a)-w.rank(b), Telling(a.Details, b.Details, a.Weight*(1-a.Score), b.Weight*(1-b.Score)),
			cmp.Compare(a.Identifier, b.Identifier))
	})
	return w
}

// Telling compares two failed verdicts by their details and the score that they cost: one
// that names the calls concerned comes first, then one that costs more.
func Telling(a, b map[string]any, costA, costB float64) int {
	_, namesA := a[evidence.DetailCalls]
	_, namesB := b[evidence.DetailCalls]
	if namesA != namesB {
		if namesA {
			return -1
		}
		return 1
	}
	return cmp.Compare(costB, costA)
}

func (w Why) rank(v results.Validation) int {
	if v.Result == w.deciding {
		return 0
	}
	return 1
}

// maxWhy is the maximum length of a reason in a line, in columns.
const maxWhy = 240

// Line returns the first reason on one line in visible form, or "": the feedback of the
// first grader that decided the class, and how many others failed; or the trial's own
// reason.
func (w Why) Line() string {
	if len(w.Against) == 0 || w.rank(w.Against[0]) > 0 {
		return cutLine(w.Own)
	}
	line := cutLine(said(w.Against[0]))
	if others := len(w.Against) - 1; others > 0 {
		if strings.TrimRight(line, ".!?…") == line { // such as the message of a system call
			line += "."
		}
		line += fmt.Sprintf(" And %s did not pass.", text.Count(others, "other grader"))
	}
	return line
}

// cutLine returns the first line of a text in visible form. If that introduces a program's
// output, the most informative line of the output is appended, of which a long one is cut in its middle:
// what went wrong is often said first, and what to do last.
func cutLine(s string) string {
	first, printed, _ := strings.Cut(strings.TrimSpace(s), "\n")
	first = text.Line(strings.TrimSpace(first), maxWhy)
	if room := maxWhy - text.Columns(first) - 1; strings.HasSuffix(first, ":") && printed != "" && room > 0 {
		printed, _, _ = strings.Cut(printed, "\nhint: ")
		first += " " + text.Ends(text.Telling(printed), room)
	}
	return first
}

// Reasons returns all reasons: the trial's own, and each grader's. Each may have several
// lines.
func (w Why) Reasons() []string {
	var all []string
	if w.Own != "" {
		all = append(all, w.Own)
	}
	for _, v := range w.Against {
		all = append(all, said(v))
	}
	return all
}

// said returns a grader's name and feedback, with its result if that is not a failure.
func said(v results.Validation) string {
	if v.Result != evidence.VerdictFail {
		return fmt.Sprintf("%s (%s): %s", v.Identifier, v.Result, strings.TrimSpace(v.Feedback))
	}
	return fmt.Sprintf("%s: %s", v.Identifier, strings.TrimSpace(v.Feedback))
}
