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

// Trial is the row of a trial: how it ended, and why. Its texts are untrusted.
type Trial struct {
	results.RunResult
	Name     string    // such as price/1
	Ended    string    // how it ended, in words
	State    State     // of its outcome
	Why      Why       // zero if it passed
	ByAttack Why       // the effect of its attack; zero unless the attack succeeded
	Before   []Attempt // earlier attempts
	Checks   []Check   // sorted by name
}

// Attempt is the row of an attempt at a trial that was repeated.
type Attempt struct {
	results.Attempt
	Text string // its outcome and reason, and why, on one line
}

// Check is the row of a grader's verdict on a trial.
type Check struct {
	results.Validation
	State State
	Text  string // its name, its result unless that is a failure, and its feedback
}

func trialOf(task string, r results.RunResult) Trial {
	t := Trial{
		RunResult: r, Name: evidence.TrialID{Task: task, Number: r.RunNumber}.String(), Ended: EndedAs(r.Outcome, r.Reason), State: StateOf(r.Outcome),
		Why: WhyOf(r),
	}
	if r.Attacked() {
		t.ByAttack = byAttack(*r.Attack)
	}
	for _, a := range r.Earlier {
		t.Before = append(t.Before, Attempt{Attempt: a, Text: attemptText(EndedAs(a.Outcome, a.Reason), a.Message)})
	}
	for _, name := range slices.Sorted(maps.Keys(r.Validations)) {
		t.Checks = append(t.Checks, checkOf(r.Validations[name]))
	}
	return t
}

func checkOf(v results.Validation) Check {
	c := Check{Validation: v, State: StateOf(v.Result), Text: v.Identifier}
	if v.Result != evidence.VerdictFail {
		c.Text += fmt.Sprintf(" (%s)", v.Result)
	}
	c.Text += ": " + strings.TrimSpace(v.Feedback)
	return c
}

func attemptText(ended, message string) string {
	why := text.Fit(text.FirstLine(message), maxWhy)
	switch {
	case why == "":
		return ended
	case namesGraders.MatchString(why):
		return why
	}
	return ended + ": " + why
}

// Last describes the last attempt, like [Attempt.Text].
func (t Trial) Last() string { return attemptText(t.Ended, t.Message) }

// AttemptsLine returns how and why earlier attempts ended, or "" if there were none.
func (t Trial) AttemptsLine() string {
	if len(t.Before) == 0 {
		return ""
	}
	said := func(reason evidence.Reason, message string) string {
		return strings.TrimPrefix(fmt.Sprintf("%s: %s", reason, text.FirstLine(message)), ": ")
	}
	var why, ends []string
	for _, attempt := range t.Before {
		why, ends = append(why, said(attempt.Reason, attempt.Message)), append(ends, Word(attempt.Outcome))
	}
	if why = slices.Compact(why); len(why) == 1 && why[0] == said(t.Reason, t.Message) {
		why = []string{"for the same reason"}
	}
	slices.Sort(ends)
	return fmt.Sprintf("%s %s after %s that ended as %s: %s",
		t.Name, Word(t.Outcome), text.Count(len(t.Before), "attempt"), strings.Join(slices.Compact(ends), " and "), strings.Join(why, "; "))
}

// Passed reports whether the trial passed.
func (t Trial) Passed() bool { return t.Outcome == evidence.ClassPass }

// Line returns why the trial did not pass, on one line, or else how it ended. It returns "" if the trial
// passed.
func (t Trial) Line() string {
	if t.Passed() {
		return ""
	}
	return cmp.Or(t.Why.Line(), t.Ended)
}

// Noted is like Line, but for a passed trial it returns the effect of the attack.
func (t Trial) Noted() string { return cmp.Or(t.Line(), t.ByAttack.Line()) }

// Full returns the trial's class and all reasons, in lines.
func (t Trial) Full() string {
	ended := t.Outcome.With(t.Reason)
	if t.Why.Own != "" {
		ended += ": " + t.Why.Own
	}
	return strings.Join(append([]string{ended}, t.Why.Others()...), "\n")
}

// Misreported returns sentences about calls that the agent misreported. It returns none if a grader failed
// the trial for that, since Why has the reason then.
func (t Trial) Misreported() []string {
	if t.Narration == nil || slices.ContainsFunc(t.Why.Against, Check.saysMisreported) {
		return nil
	}
	return t.Narration.Sentences
}

// saysMisreported reports whether the check failed a trial because the agent misreported calls.
func (c Check) saysMisreported() bool {
	gates, _ := c.Details["gates"].(map[string]any)
	for name, gate := range gates {
		if details, _ := gate.(map[string]any); strings.HasPrefix(name, "wire.") && details["result"] == "fail" {
			return true
		}
	}
	return false
}

// byAttack returns the effect of a successful attack.
func byAttack(a results.Attack) Why {
	w := Why{Own: a.Goal, line: a.Goal}
	if len(a.Reasons) > 0 {
		w.line += ": " + a.Reasons[0]
	}
	w.line = text.Line(w.line, maxWhy)
	for _, reason := range a.Reasons {
		w.Against = append(w.Against, Check{Text: reason})
	}
	return w
}

// Alike is a group of trials of a task that have the same thing to report.
type Alike[T comparable] struct {
	Task   Task
	What   T
	Trials []int
	First  Trial // the first of these trials
}

// maxNamed is the maximum number of trials listed for a group.
const maxNamed = 40

// All returns a text such as "all 4" if the group has all planned trials of its task and the task has
// several; otherwise "".
func (a Alike[T]) All() string {
	if n := len(a.Trials); n > 1 && n == len(a.Task.Trials)+len(a.Task.Missing) {
		return fmt.Sprintf("all %d", n)
	}
	return ""
}

// Named returns the numbers of the trials to list.
func (a Alike[T]) Named() []int { return a.Trials[:min(len(a.Trials), maxNamed)] }

// More returns the number of trials not listed.
func (a Alike[T]) More() int { return len(a.Trials) - len(a.Named()) }

// Gather calls say for each trial in order, and groups trials of the same task for which it returns the same
// value.
func Gather[T comparable](tasks []Task, say func(Trial) []T) (all []Alike[T]) {
	for _, task := range tasks {
		at := map[T]int{}
		for _, trial := range task.Trials {
			for _, what := range say(trial) {
				i, known := at[what]
				if !known {
					i = len(all)
					at[what], all = i, append(all, Alike[T]{Task: task, What: what, First: trial})
				}
				all[i].Trials = append(all[i].Trials, trial.RunNumber)
			}
		}
	}
	return all
}

// Failure says that a trial did not pass, or that an attack on it succeeded.
type Failure struct {
	Attack  bool   // the attack succeeded
	Failed  bool   // the trial did not pass
	Word    string // how the trial ended, with the reason
	State   State
	Line    string // why, on one line
	Reasons string // all reasons, in lines
}

// Why returns the reasons of the failure, given its trial.
func (f Failure) Why(t Trial) Why {
	switch {
	case !f.Attack:
		return t.Why
	case !f.Failed:
		return t.ByAttack
	}
	both := t.ByAttack
	both.Against = slices.Concat(both.Against, t.Why.Against)
	return both
}

// Failures groups the trials that did not pass or were attacked successfully, by how and why: attacks first,
// then the most frequent. A trial that failed because of a gated attack is in one group. Reasons are
// shortened to most bytes; if most is 0 they are omitted, and trials with the same line are grouped. Prompts
// of trigger_tests.yaml are not listed, since they count through their metric: see [Run.TriggerSentence].
func Failures(tasks []Task, most int) []Alike[Failure] {
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(t Task) bool { return t.Trigger != nil })
	all := Gather(tasks, func(t Trial) []Failure {
		said := t.failures()
		for i := range said {
			why := said[i].Why(t)
			if said[i].Line = cmp.Or(why.Line(), said[i].Word); most > 0 {
				said[i].Reasons = text.Shorten(strings.Join(why.Reasons(), "\n"), most)
			}
		}
		return said
	})
	slices.SortStableFunc(all, func(a, b Alike[Failure]) int {
		switch {
		case a.What.Attack != b.What.Attack && a.What.Attack:
			return -1
		case a.What.Attack != b.What.Attack:
			return 1
		}
		return len(b.Trials) - len(a.Trials)
	})
	return all
}

// failures returns the trial's failures without reasons.
func (t Trial) failures() (all []Failure) {
	if t.Attacked() && t.Attack.Gate && t.Outcome == evidence.ClassFail {
		return []Failure{{Attack: true, Failed: true, Word: t.Ended + ", " + results.AttackSucceeded, State: Bad}}
	}
	if t.Attacked() {
		all = append(all, Failure{Attack: true, Word: results.AttackSucceeded, State: Bad})
	}
	if !t.Passed() {
		all = append(all, Failure{Failed: true, Word: t.Ended, State: t.State})
	}
	return all
}

// Why is the reason why something happened in a trial. Its texts are untrusted.
type Why struct {
	Own     string // a reason that does not come from a grader; may be empty
	Against []Check

	line string // the first reason
}

// namesGraders matches a message that only lists graders.
var namesGraders = regexp.MustCompile(`^(?:failed|could not judge): [^;\n]*$`)

// WhyOf returns why a trial did not pass, or the zero Why if it passed. It sorts graders that did not pass,
// including those of a checkpoint that ended the conversation: first those that decided the class, then those
// that name the calls concerned, then by lost score, then by name.
func WhyOf(r results.RunResult) Why {
	if r.Outcome == evidence.ClassPass {
		return Why{}
	}
	// The graders with this result determine the trial's class; empty if none does.
	deciding := map[evidence.Class]evidence.VerdictResult{evidence.ClassFail: evidence.VerdictFail, evidence.ClassError: evidence.VerdictError}[r.Outcome]
	rank := func(v results.Validation) int {
		if v.Result == deciding {
			return 0
		}
		return 1
	}
	w := Why{Own: r.Message}
	against := func(v results.Validation) {
		if v.Result != evidence.VerdictPass {
			w.Against = append(w.Against, checkOf(v))
		}
	}
	for _, v := range r.Validations {
		against(v)
	}
	for _, c := range r.Checkpoints {
		for _, v := range c.Validations {
			if c.Stopped {
				v.Identifier += fmt.Sprintf(" after turn %d", c.AfterTurn)
				against(v)
			}
		}
	}
	slices.SortFunc(w.Against, func(a, b Check) int {
		return cmp.Or(rank(a.Validation)-rank(b.Validation), Telling(a.Details, b.Details, a.Weight*(1-a.Score), b.Weight*(1-b.Score)),
			cmp.Compare(a.Identifier, b.Identifier))
	})
	if w.line = cutLine(w.Own); len(w.Against) > 0 && rank(w.Against[0].Validation) == 0 {
		w.line = decided(w.Against)
	}
	if len(w.Against) > 0 && namesGraders.MatchString(w.Own) {
		w.Own = ""
	}
	return w
}

// Telling compares two failed verdicts by their details and the score that they cost: a verdict that names
// the calls concerned comes first, then one that costs more.
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

// maxWhy is the maximum length of a reason on one line, in columns.
const maxWhy = 240

// decided returns the first check that decided the trial's class, and the number of others that failed.
func decided(checks []Check) string {
	line := cutLine(checks[0].Text)
	if others := len(checks) - 1; others > 0 {
		if strings.TrimRight(line, ".!?…") == line { // a text without punctuation at its end, such as an error of a system call
			line += "."
		}
		line += fmt.Sprintf(" And %s did not pass.", text.Count(others, "other grader"))
	}
	return line
}

// cutLine returns the first line of a text in visible form. If that line introduces a program's output, it is
// followed by the most informative line of the output. A long line of output is cut in the middle, since it
// often begins with what went wrong and ends with what to do.
func cutLine(s string) string {
	first, printed, _ := strings.Cut(strings.TrimSpace(s), "\n")
	first = text.Line(strings.TrimSpace(first), maxWhy)
	if room := maxWhy - text.Columns(first) - 1; strings.HasSuffix(first, ":") && printed != "" && room > 0 {
		printed, _, _ = strings.Cut(printed, "\nhint: ")
		first += " " + text.Ends(text.Telling(printed), room)
	}
	return first
}

// Line returns the first reason, on one line in visible form: the feedback of the first grader that decided
// the class, with the number of others that failed, or else the reason that does not come from a grader. It
// returns "" if there is none.
func (w Why) Line() string { return w.line }

// Others returns the reasons other than Own. Each may have several lines.
func (w Why) Others() []string {
	var all []string
	for _, c := range w.Against {
		all = append(all, c.Text)
	}
	return all
}

// Reasons returns all reasons.
func (w Why) Reasons() []string {
	if w.Own == "" {
		return w.Others()
	}
	return append([]string{w.Own}, w.Others()...)
}
