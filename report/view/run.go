// Package view decides what is shown of a run, for all outputs: pages, Markdown comments, JUnit XML and
// terminals. [Run] holds the verdict on a run and what the run lacks; [Task] how a task's trials ended; [Why]
// why a trial did not pass; [Conversation] what happened in it; [ServerRemarks] and [Events] what to review
// before trusting a server; [Figure] and [Difference] how runs differ.
//
// It evaluates nothing. Its texts quote untrusted data, which each output must escape for its format.
package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// Run is the view of a run, without its trials' evidence.
type Run struct {
	Dir         string // path as the reader opened it
	ID          string
	Eval        string // file name of the eval
	EvalSHA256  string
	Waza, Build string // waza's version, and the beginning of the executable's SHA-256
	Started     time.Time
	Ended       time.Time // zero if the run is live or was never completed
	Interrupted bool
	AtWork      bool   // the run is live
	FailFast    bool   // the run ends after the first trial that does not pass
	Planned     int    // number of trials
	Kept        int    // number of trials taken over from the run Repeats
	Repeats     string // ID of that run
	Isolated    bool
	Network     string
	Guarantees  *evidence.Guarantees
	Certificate *evidence.Certificate // nil if there is none
	Engine      map[string]string
	Images      evidence.ImageRecords
	Inputs      map[string]string // SHA-256 of the files read for the run, by path
	Made        []results.Setting // settings that may differ between compared runs
	Results     results.Results
}

// Trials returns the number of trials that have an outcome.
func (r Run) Trials() (n int) {
	for _, task := range r.Results.Tasks {
		n += len(task.Runs)
	}
	return n
}

// Verdicts on runs.
const (
	Passed     = "passed"
	Failed     = "failed"
	Incomplete = "incomplete"
	AtWork     = "at work"
)

// Verdict returns the verdict on the run, in a word.
func (r Run) Verdict() string {
	if r.AtWork {
		return AtWork
	}
	switch r.ExitCode() {
	case results.ExitPassed:
		return Passed
	case results.ExitFailed:
		return Failed
	}
	return Incomplete
}

// ExitCode returns the run's exit code.
func (r Run) ExitCode() int { return r.Results.ExitCode(r.Planned, r.FailFast) }

// Resumable reports whether resuming the run could add outcomes of trials. The record of a run whose process
// was killed does not say that it was interrupted.
func (r Run) Resumable() bool {
	return r.Interrupted || r.Trials() > 0 && r.ExitCode() == results.ExitIncomplete
}

// Reasons returns sentences about the reasons for the verdict.
func (r Run) Reasons() []string {
	said := slices.Concat(r.MissingSentences(), r.outcomeSentences())
	if line := r.KeptSentence(); line != "" {
		said = append(said, line)
	}
	if line := r.TriggerSentence(); line != "" {
		said = append(said, line+".")
	}
	if a := r.Results.Summary.Attacks; a != nil && a.Succeeded > 0 {
		said = append(said, r.AttackSentence())
	}
	for _, m := range r.Unmet() {
		said = append(said, fmt.Sprintf("%s %s.", m.Identifier, Lack(m)))
	}
	return said
}

// KeptSentence returns a sentence about the trials taken over from the run that this one repeats; "" if there
// are none.
func (r Run) KeptSentence() string {
	if r.Kept == 0 {
		return ""
	}
	return ofTrials(r.Kept, r.Planned, "is", "are") + " kept from the run " + r.Repeats + ", which this one repeats."
}

// Judged reports whether all trials that the verdict on the run depends on have ended.
func (r Run) Judged() bool {
	return !r.AtWork && (r.Missing() == 0 || r.ExitCode() != results.ExitIncomplete)
}

// Unmet returns the metrics below their thresholds, if the run is judged.
func (r Run) Unmet() []results.Measure {
	if !r.Judged() {
		return nil
	}
	return r.Results.Unmet()
}

// NextFailing returns the next trial, in the run's order and wrapping around, that did not pass or was
// attacked successfully. It returns nil if there is no other.
func (r Run) NextFailing(task string, number int) *evidence.TrialID {
	var first *evidence.TrialID
	behind := false
	for _, t := range r.Results.Tasks {
		for _, run := range t.Runs {
			switch {
			case t.TestID == task && run.RunNumber == number:
				behind = true
			case run.Outcome == evidence.ClassPass && !run.Attacked():
			case behind:
				return &evidence.TrialID{Task: t.TestID, Number: run.RunNumber}
			case first == nil:
				first = &evidence.TrialID{Task: t.TestID, Number: run.RunNumber}
			}
		}
	}
	return first
}

// TasksLeft describes the number of tasks that have not ended. They count neither as passed nor as not
// passed. It returns "" if all have ended.
func (r Run) TasksLeft() string {
	s := r.Results.Summary
	return tasksLeft(s.TotalTests-s.Ended(), r.AtWork)
}

// TasksLeft is [Run.TasksLeft] of a run in a list.
func (r ListedRun) TasksLeft() string { return tasksLeft(r.Tasks-r.EndedTasks, r.State.Live()) }

func tasksLeft(n int, atWork bool) string {
	switch {
	case n <= 0:
		return ""
	case atWork:
		return fmt.Sprintf("%d to go", n)
	}
	return fmt.Sprintf("%d with no outcome", n)
}

// Missing returns the number of planned trials that did not end.
func (r Run) Missing() int { return max(r.Planned-r.Trials(), 0) }

// MissingSentence returns how many planned trials have no outcome, and the state of the run. It returns "" if
// all trials have an outcome and the run is not live.
func (r Run) MissingSentence() string {
	missing := r.Missing()
	state := "ended early"
	switch {
	case r.AtWork && missing == 0:
		return "The run is at work."
	case r.AtWork:
		state = "is at work"
	case missing == 0:
		return ""
	case r.Interrupted:
		state = "was interrupted"
	case r.Ended.IsZero():
		state = "broke off"
	}
	return fmt.Sprintf("The run %s: %s.", state, withoutOutcome(missing, r.Planned))
}

// MissingSentences returns sentences about what an incomplete run lacks.
func (r Run) MissingSentences() (said []string) {
	if r.AtWork || r.ExitCode() != results.ExitIncomplete {
		return nil
	}
	missing, infra := r.MissingSentence(), r.Outcomes()[evidence.ClassInfra]
	if missing != "" {
		said = append(said, missing)
	}
	if infra > 0 {
		ended := ended(evidence.ClassInfra) + ", which says nothing about the agent"
		said = append(said, ofTrials(infra, r.Trials(), ended, ended)+".")
	}
	if len(said) == 0 {
		said = append(said, "There is no trial.")
	}
	return said
}

// outcomeSentences returns sentences about how the counted trials ended, and how many trials were broken.
func (r Run) outcomeSentences() (said []string) {
	t := r.Results.Counted()
	switch {
	case t.Trials == 0:
	case t.Passed == t.Trials:
		which := "The only trial"
		if t.Trials > 1 {
			which = "All " + text.Count(t.Trials, "trial")
		}
		said = append(said, fmt.Sprintf("%s of %s passed.", which, text.Count(t.Tasks, "task")))
	default:
		var others []string
		for _, class := range evidence.Classes() {
			if n := t.Others[class]; n > 0 {
				others = append(others, fmt.Sprintf("%d %s", n, Word(class)))
			}
		}
		said = append(said, fmt.Sprintf("%s: %s.", ofTrials(t.Trials-t.Passed, t.Trials, "did not pass", "did not pass"), strings.Join(others, ", ")))
	}
	return append(said, r.BrokenSentences()...)
}

// BrokenSentences returns sentences about the trials that servers broke and those that a cassette could not
// answer. Both fail the run.
func (r Run) BrokenSentences() (said []string) {
	for _, class := range evidence.Classes() {
		if n := r.Outcomes()[class]; n > 0 && class.Fails() {
			ended := ended(class) + ", which fails the run, and says nothing about the agent"
			said = append(said, ofTrials(n, r.Trials(), ended, ended)+".")
		}
	}
	return said
}

// ended returns a phrase, to follow a number of trials, for a class that says nothing about the agent.
func ended(class evidence.Class) string {
	switch class {
	case evidence.ClassServerError:
		return "ended by the crash of a server"
	case evidence.ClassMiss:
		return "ended at a cassette miss"
	}
	return "could not be completed"
}

// TriggerSentence returns a sentence about the prompts of trigger_tests.yaml, which count through their
// metric. It returns "" if there are none.
func (r Run) TriggerSentence() string {
	m := r.Results.Triggers
	if m == nil {
		return ""
	}
	line := fmt.Sprintf("trigger_accuracy %.3f: %d of %d prompts of trigger_tests.yaml were right", m.Accuracy, m.TruePositives+m.TrueNegatives, len(r.Results.TriggerResults))
	var wrong []string
	for _, task := range r.Results.Tasks {
		for _, run := range task.Runs {
			if task.Trigger != nil && run.Outcome != evidence.ClassPass {
				wrong = append(wrong, task.TestID)
			}
		}
	}
	if left := len(wrong) - maxWrong; left > 0 {
		wrong = append(wrong[:maxWrong], fmt.Sprintf("%d more", left))
	}
	if len(wrong) > 0 {
		line += "; not " + strings.Join(wrong, ", ")
	}
	return line
}

// maxWrong is the maximum number of listed prompts with a wrong result.
const maxWrong = 20

// Line returns the verdict with the counts that it is based on, such as "FAILED: 2 of 14 trials did not pass
// (1 task failed, 1 flaky)".
func (r Run) Line() string {
	verdict := strings.ToUpper(r.Verdict())
	if r.Interrupted && r.ExitCode() == results.ExitIncomplete {
		verdict += " (interrupted)"
	}
	var said []string
	if missing := r.Missing(); missing > 0 {
		said = append(said, withoutOutcome(missing, r.Planned))
	}
	outcomes := r.Outcomes()
	for _, class := range []evidence.Class{evidence.ClassInfra, evidence.ClassServerError, evidence.ClassMiss} {
		if n := outcomes[class]; n > 0 {
			said = append(said, ofTrials(n, r.Trials(), ended(class), ended(class)))
		}
	}
	said = append(said, r.counts()...)
	if a := r.Results.Summary.Attacks; a != nil && a.Succeeded > 0 {
		said = append(said, text.Count(a.Succeeded, "attack")+" succeeded")
	}
	if lines := SkillLines(r.Results); len(lines) > 0 {
		said = append(said, lines[0])
	}
	if line := FaultLine(r.Results); line != "" {
		said = append(said, line)
	}
	for _, m := range r.Unmet() {
		said = append(said, m.Identifier+" "+Lack(m))
	}
	return verdict + ": " + strings.Join(said, "; ")
}

// passedTrials describes how many of the counted trials passed, such as "2 of 3 trials".
func passedTrials(t results.Counts) string {
	return fmt.Sprintf("%d of %s", t.Passed, text.Count(t.Trials, "trial"))
}

// counts returns phrases about how many trials passed, with their tasks.
func (r Run) counts() []string {
	t := r.Results.Counted()
	did, tasks := passedTrials(t)+" passed", []string{text.Count(t.Tasks, "task")}
	if t.Passed < t.Trials {
		did, tasks = fmt.Sprintf("%d of %s did not pass", t.Trials-t.Passed, text.Count(t.Trials, "trial")), nil
	}
	if t.Failed > 0 {
		tasks = append(tasks, text.Count(t.Failed, "task")+" failed")
	}
	if t.Flaky > 0 {
		tasks = append(tasks, fmt.Sprintf("%d flaky", t.Flaky))
	}
	var said []string
	if len(tasks) > 0 {
		did += fmt.Sprintf(" (%s)", strings.Join(tasks, ", "))
	}
	if t.Trials > 0 {
		said = append(said, did)
	}
	if m := r.Results.Triggers; m != nil {
		said = append(said, fmt.Sprintf("trigger_accuracy is %.3f", m.Accuracy))
	}
	if len(said) == 0 && r.Missing() == 0 && r.Trials() == 0 {
		said = append(said, "no trial was run")
	}
	return said
}

// Outcomes counts trials by outcome.
func (r Run) Outcomes() map[evidence.Class]int {
	counts := map[evidence.Class]int{}
	for _, t := range r.Results.Tasks {
		for _, run := range t.Runs {
			counts[run.Outcome]++
		}
	}
	return counts
}

func withoutOutcome(n, all int) string { return ofTrials(n, all, "has no outcome", "have no outcome") }

func ofTrials(n, all int, one, more string) string {
	did := more
	if n == 1 {
		did = one
	}
	if n == all {
		return fmt.Sprintf("%s %s", text.Count(n, "trial"), did)
	}
	return fmt.Sprintf("%s of %s %s", text.Number(n), text.Count(all, "trial"), did)
}
