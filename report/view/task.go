package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// Task is the row of a task: how its trials ended, and the resources that they used.
type Task struct {
	results.Task
	results.Totals
	Trials  []Trial
	Missing []int // numbers of planned trials without an outcome
}

// Tasks returns the rows of a run's tasks.
func Tasks(r results.Results) []Task {
	rows := make([]Task, len(r.Tasks))
	for i, task := range r.Tasks {
		rows[i] = TaskOf(task, r.Config.RunsPerTest)
	}
	return rows
}

// TaskOf returns the row of a task with the planned number of trials. A prompt of
// trigger_tests.yaml has one trial.
func TaskOf(task results.Task, planned int) Task {
	t := Task{Task: task, Totals: task.Totals()}
	for _, run := range task.Runs {
		t.Trials = append(t.Trials, trialOf(task.TestID, run))
	}
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

// IsQuiet reports whether the task passed and no attack on it succeeded.
func (t Task) IsQuiet() bool { return t.Status == results.StatusPassed && !t.Attacked() }

// Flaky describes a task of which some trials passed and others did not.
const Flaky = "flaky"

// NoOutcome describes a planned trial that did not end.
const NoOutcome = "no outcome"

// End is one way in which trials of a task ended.
type End struct {
	Lead  string         // text before Word, such as "2"; may be empty
	Word  string         // the outcome in words, [results.AttackSucceeded] or NoOutcome
	Class evidence.Class // empty unless Word is an outcome
	State State
}

// Text returns Lead and Word.
func (e End) Text() string { return strings.TrimSpace(e.Lead + " " + e.Word) }

// Ends returns how the task's trials ended, in this order: the outcomes other than pass, or pass if there are
// no others; successful attacks, instead of pass; trials without an outcome; earlier attempts. Outcomes are
// counted if there are several, since the number of passed trials is a separate figure.
func (t Task) Ends() []End {
	if len(t.Trials) == 0 {
		return []End{{Word: NoOutcome}}
	}
	var last, earlier endCounts
	for _, trial := range t.Trials {
		if !trial.Passed() {
			last.add(End{Word: trial.Ended, Class: trial.Outcome, State: trial.State})
		}
		for _, a := range trial.Earlier {
			earlier.add(End{Word: Word(a.Outcome), Class: a.Outcome})
		}
	}
	all := last.ends
	if len(all) > 1 {
		all = last.withLead("%d")
	}
	switch {
	case t.Attacked():
		all = append(all, End{Word: results.AttackSucceeded, State: Bad})
	case len(all) == 0:
		all = append(all, End{Word: Word(evidence.ClassPass), Class: evidence.ClassPass, State: Good})
	}
	if n := len(t.Missing); n > 0 {
		all = append(all, End{Lead: fmt.Sprintf("%d with", n), Word: NoOutcome})
	}
	return append(all, earlier.withLead("after %d")...)
}

// EndsOf returns the ways in which trials ended, with the number of trials for each, given the counts by
// outcome.
func EndsOf(outcomes map[evidence.Class]int) (all []End) {
	for _, class := range evidence.Classes() {
		if n := outcomes[class]; n > 0 {
			all = append(all, End{Lead: text.Number(n), Word: Word(class), Class: class, State: StateOf(class)})
		}
	}
	return all
}

// BriefEndsOf is like [EndsOf], but has a single end for all trials that count: how many of them passed.
func BriefEndsOf(outcomes map[evidence.Class]int) (all []End) {
	counted := 0
	for _, end := range EndsOf(outcomes) {
		if end.Class.OfAgent() {
			counted += outcomes[end.Class]
		} else {
			all = append(all, end)
		}
	}
	if counted == 0 {
		return all
	}
	passed := fmt.Sprintf("%s of %s", text.Number(outcomes[evidence.ClassPass]), text.Number(counted))
	return slices.Insert(all, 0, End{Lead: passed, Word: "passed"})
}

// endCounts counts ends, sorted by class and word.
type endCounts struct {
	ends   []End
	trials map[End]int
}

func (c *endCounts) add(e End) {
	if c.trials == nil {
		c.trials = map[End]int{}
	}
	if c.trials[e]++; c.trials[e] > 1 {
		return
	}
	c.ends = append(c.ends, e)
	slices.SortFunc(c.ends, func(a, b End) int {
		classes := evidence.Classes()
		return cmp.Or(slices.Index(classes, a.Class)-slices.Index(classes, b.Class), cmp.Compare(a.Word, b.Word))
	})
}

// withLead returns the ends, each with its formatted count as its Lead.
func (c *endCounts) withLead(format string) (all []End) {
	for _, e := range c.ends {
		e.Lead = fmt.Sprintf(format, c.trials[e])
		all = append(all, e)
	}
	return all
}

// MissingSentence returns how many of the task's planned trials have no outcome, or "" if all have one.
func (t Task) MissingSentence() string {
	if len(t.Missing) == 0 {
		return ""
	}
	return withoutOutcome(len(t.Missing), len(t.Trials)+len(t.Missing)) + "."
}

// Passed returns how many of the trials that count passed, such as 2/3, or [Unknown] if none counts.
func (t Task) Passed() string {
	if t.Stats == nil {
		return Unknown
	}
	return Share(t.Stats.PassedRuns, t.Stats.TotalRuns)
}

// PassInterval returns the interval of its pass rate, or [Unknown] if no trial counts.
func (t Task) PassInterval() string {
	if t.Stats == nil {
		return Unknown
	}
	return Interval(t.Stats.PassRateCI)
}

// NotPassed describes how many of the trials that count did not pass; it returns "" if all passed.
func (t Task) NotPassed() string {
	if t.Stats == nil || t.Stats.PassedRuns == t.Stats.TotalRuns {
		return ""
	}
	return fmt.Sprintf("%d of %s did not pass", t.Stats.TotalRuns-t.Stats.PassedRuns, text.Count(t.Stats.TotalRuns, "trial"))
}

// IsFlaky reports whether some trials passed and others did not, judged by first attempts.
func (t Task) IsFlaky() bool { return t.Stats != nil && t.Stats.Flaky }

// Score returns the mean of the trials' weighted scores, or [Unknown] if no trial counts.
func (t Task) Score() string {
	if t.Stats == nil {
		return Unknown
	}
	return fmt.Sprintf("%.2f", t.Stats.AvgWeightedScore)
}

// MS returns the median agent time in milliseconds, or nil if no trial counts.
func (t Task) MS() *float64 { return results.MedianDurationMS(t.Task) }

// MedianTime returns MS as text.
func (t Task) MedianTime() string { return MS(t.MS()) }

// Tokens returns the number of tokens that models read and wrote, as counted by the gateway or, without one,
// reported by the agent. It returns nil if that is unknown.
func (t Task) Tokens() *int64 {
	if t.Usage == nil {
		return nil
	}
	return new(t.Usage.Input + t.Usage.Output)
}

// Cost returns the cost of models in US dollars, or nil if unknown.
func (t Task) Cost() *float64 {
	if t.Models == nil {
		return nil
	}
	return t.Models.Cost
}

// Example returns the first trial that did not pass or was attacked successfully, or else the first trial. It
// returns nil if no trial has ended.
func (t Task) Example() *Trial {
	if len(t.Trials) == 0 {
		return nil
	}
	at := slices.IndexFunc(t.Trials, func(trial Trial) bool { return trial.Noted() != "" })
	return &t.Trials[max(at, 0)]
}
