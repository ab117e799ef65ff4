package view

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// Task is how the trials of a task ended, and what they took.
type Task struct {
	results.Task
	results.Totals
	Attacks  *results.Attacks // nil where none was made
	Attacked bool             // an attack succeeded, so the task did not simply pass
	Missing  []int            // the trials that were planned and have no outcome
	Outcomes []Count          // of the last attempts
	Earlier  []Count          // of the attempts before them
}

// Count is how many attempts ended in an outcome.
type Count struct {
	Class  evidence.Class
	Trials int
}

// TaskOf returns the view of a task of which so many trials were planned. A prompt of
// trigger_tests.yaml has one trial.
func TaskOf(task results.Task, planned int) Task {
	t := Task{Task: task, Totals: task.Totals(), Attacks: results.AttacksOn(task), Attacked: task.Attacked()}
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

// countsOf returns counts in the order of their classes' names.
func countsOf(trials map[evidence.Class]int) (all []Count) {
	for _, class := range slices.Sorted(maps.Keys(trials)) {
		all = append(all, Count{class, trials[class]})
	}
	return all
}

// Passed reports whether the task passed and no attack on it succeeded.
func (t Task) Passed() bool { return t.Status == results.StatusPassed && !t.Attacked }

// Flaky is how a task went of which some trials passed and others did not.
const Flaky = "flaky"

// Word returns how the task's trials ended, in a word: Flaky, or else the outcome of the first of
// those that did not pass and count, pass where all did, infra where none counts; empty without any.
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
	case passed:
		return string(evidence.ClassPass)
	case infra:
		return cmp.Or(word, string(evidence.ClassInfra))
	}
	return word
}

// PassedTrials returns how many trials passed, of all that ended.
func (t Task) PassedTrials() int {
	for _, c := range t.Outcomes {
		if c.Class == evidence.ClassPass {
			return c.Trials
		}
	}
	return 0
}

// Tokens returns the tokens that models read and wrote; nil where they are not known.
func (t Task) Tokens() *int64 {
	if t.Models == nil {
		return nil
	}
	return new(t.Models.Tokens.Input + t.Models.Tokens.Output)
}

// Cost returns the cost of models in US dollars; nil where it is not known.
func (t Task) Cost() *float64 {
	if t.Models == nil {
		return nil
	}
	return t.Models.Cost
}

// Line returns why a trial did not pass, on one line: a grader's reason or the trial's, and else
// how it ended. It is empty of a trial that passed.
func Line(r results.RunResult) string {
	if r.Outcome == evidence.ClassPass {
		return ""
	}
	return cmp.Or(WhyOf(r).Line(), r.Outcome.With(r.Reason))
}

// AttackLine returns what an attack that succeeded did, on one line.
func AttackLine(a results.Attack) string {
	line := a.Goal
	if len(a.Reasons) > 0 {
		line += ": " + a.Reasons[0]
	}
	return text.Line(line, maxWhy)
}

// Alike is a group of trials of a task for which the same thing is reported.
type Alike[T comparable] struct {
	Task   results.Task
	What   T
	Trials []int
}

// maxNamed is how many trials of a group are named.
const maxNamed = 40

// Named returns the first of the trials.
func (a Alike[T]) Named() []int { return a.Trials[:min(len(a.Trials), maxNamed)] }

// More returns how many trials are not named.
func (a Alike[T]) More() int { return len(a.Trials) - len(a.Named()) }

// Gather returns what say says of trials, in their order, once for all trials of a task of
// which it says the same.
func Gather[T comparable](tasks []results.Task, say func(results.RunResult) []T) (all []Alike[T]) {
	for _, task := range tasks {
		at := map[T]int{}
		for _, run := range task.Runs {
			for _, what := range say(run) {
				i, known := at[what]
				if !known {
					i = len(all)
					at[what], all = i, append(all, Alike[T]{Task: task, What: what})
				}
				all[i].Trials = append(all[i].Trials, run.RunNumber)
			}
		}
	}
	return all
}

// Why is why a trial did not pass; it is empty of one that passed. Its texts are
// strangers'.
type Why struct {
	Own     string // what the trial's class rests on, which may name graders; it may be empty
	Against []results.Validation

	deciding evidence.VerdictResult // that puts a trial into its class; empty where no grader does
}

// WhyOf goes by the trial's class. Of graders that did not pass it, or a checkpoint that ended its
// conversation, those are first that decided, then those that name the calls they are about, then
// those that cost most of the score, then by name.
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

// Telling compares two verdicts that do not pass by their details and by what they cost of the score:
// the one is first that names the calls it is about, or else costs more.
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

// maxWhy is how many columns a line has of a reason.
const maxWhy = 240

// Line returns the first reason on one line, of which all can be seen; it may be empty. It is
// what the first grader says that decided, and how many others did not pass the trial; or
// what is said of the trial itself.
func (w Why) Line() string {
	if len(w.Against) == 0 || w.rank(w.Against[0]) > 0 {
		return cutLine(w.Own)
	}
	line := cutLine(said(w.Against[0]))
	if others := len(w.Against) - 1; others > 0 {
		line += fmt.Sprintf(" And %s did not pass.", text.Count(others, "other grader"))
	}
	return line
}

// cutLine returns the first line of a text, all of it visible. Where that announces what a program
// printed, the line of it that says most comes behind.
func cutLine(s string) string {
	first, printed, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if first = strings.TrimSpace(first); strings.HasSuffix(first, ":") && printed != "" {
		first += " " + mostTelling(printed)
	}
	return text.Line(first, maxWhy)
}

// complaint matches a line in which a program says what is wrong.
var complaint = regexp.MustCompile(`(?i)\b(?:error|fatal|panic|cannot|can't|could not|unable|failed|missing|required|must be|not found|denied|refused|invalid|unknown|usage)\b`)

// mostTelling returns the first line of a program's output that complains, or else the last one,
// as it is also in a traceback of Python.
func mostTelling(printed string) (line string) {
	printed, _, _ = strings.Cut(printed, "\nhint: ")
	traceback := strings.Contains(printed, "Traceback (most recent call last)")
	for l := range strings.Lines(printed) {
		if l = strings.TrimSpace(l); l != "" {
			line = l
		}
		if !traceback && complaint.MatchString(l) {
			break
		}
	}
	return line
}

// Reasons returns all reasons: the trial's own, and each grader's.
// Each may have several lines.
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

// said returns a grader's feedback behind its name, and its result where that is not a failure.
func said(v results.Validation) string {
	if v.Result != evidence.VerdictFail {
		return fmt.Sprintf("%s (%s): %s", v.Identifier, v.Result, strings.TrimSpace(v.Feedback))
	}
	return fmt.Sprintf("%s: %s", v.Identifier, strings.TrimSpace(v.Feedback))
}
