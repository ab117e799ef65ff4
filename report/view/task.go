package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// Task is the row of a task: how its trials ended, and what they used.
type Task struct {
	results.Task
	results.Totals
	Trials   []Trial
	Missing  []int   // numbers of planned trials without an outcome
	Outcomes []Count // of the last attempts
	Earlier  []Count // of earlier attempts
}

// Count is a number of attempts with an outcome.
type Count struct {
	Class  evidence.Class
	Trials int
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
	last, earlier := map[evidence.Class]int{}, map[evidence.Class]int{}
	for _, run := range task.Runs {
		t.Trials = append(t.Trials, trialOf(task.TestID, run))
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

// Score returns the mean of its trials' weighted scores, or [Unknown] if no trial counts.
func (t Task) Score() string {
	if t.Stats == nil {
		return Unknown
	}
	return fmt.Sprintf("%.2f", t.Stats.AvgWeightedScore)
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

// Example returns the first trial that did not pass, or in which an attack succeeded; otherwise the first
// one; nil if none ended.
func (t Task) Example() *Trial {
	if len(t.Trials) == 0 {
		return nil
	}
	at := slices.IndexFunc(t.Trials, func(trial Trial) bool { return trial.Noted() != "" })
	return &t.Trials[max(at, 0)]
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
