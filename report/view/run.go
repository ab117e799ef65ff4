// Package view decides what a person is shown of a run, whatever shows it: pages, comments
// in Markdown, JUnit XML or a terminal. [Run] has the verdict on a run and what is missing
// of it; [Task] how a task's trials ended; [Why] why a trial did not pass; [Remarks] and
// [Events] what to look at in a server before trusting it; [Figure] and [Difference] how
// runs differ.
//
// It is pure. Its texts quote strangers, so whoever shows them makes them harmless in its
// own format.
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

// Run is what is shown of a run, without its trials' evidence.
type Run struct {
	Dir         string // as its reader knows it
	ID          string
	Eval        string // the eval's file
	EvalSHA256  string
	Waza, Build string // our version, and the beginning of our executable's SHA-256
	Started     time.Time
	Ended       time.Time // zero while it is at work, or where it never came to its end
	Interrupted bool
	AtWork      bool // somebody is at it
	FailFast    bool // it was to end with the first trial that does not pass
	Planned     int  // trials
	Isolated    bool
	Network     string
	Guarantees  *evidence.Guarantees
	Certificate *evidence.Certificate // nil without any
	Engine      map[string]string
	Images      []Image
	Inputs      []Input
	Made        []results.Setting // settings that may differ from those of runs that it is compared with
	Results     results.Results
}

// Image is an image that the run's containers were made of.
type Image struct{ Ref, ID string }

// Input is a file that the run read, by its SHA-256.
type Input struct{ Path, SHA256 string }

// Trials returns how many trials of the run have an outcome.
func (r Run) Trials() (n int) {
	for _, task := range r.Results.Tasks {
		n += len(task.Runs)
	}
	return n
}

// The words of a run's verdict.
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

// Reasons returns sentences that say what the verdict rests on.
func (r Run) Reasons() []string {
	said := slices.Concat(r.MissingSentences(), r.outcomeSentences())
	if a := r.Results.Summary.Attacks; a != nil && a.Succeeded > 0 {
		said = append(said, fmt.Sprintf("The attack succeeded in %d of %s under attack.", a.Succeeded, Several(a.Trials, "trial")))
	}
	for _, m := range r.Results.Unmet() {
		said = append(said, fmt.Sprintf("%s %s.", m.Identifier, Lack(m)))
	}
	return said
}

// Trial names a trial of the run.
type Trial struct {
	Task   string
	Number int
}

// NextFailing returns the trial behind one, in the run's order, of those that did not pass or in which
// an attack succeeded; behind the last comes the first. It is nil where there is no other.
func (r Run) NextFailing(task string, number int) *Trial {
	var first *Trial
	behind := false
	for _, t := range r.Results.Tasks {
		for _, run := range t.Runs {
			attacked := run.Attack != nil && run.Attack.Result == evidence.AttackSucceeded
			switch {
			case t.TestID == task && run.RunNumber == number:
				behind = true
			case run.Outcome == evidence.ClassPass && !attacked:
			case behind:
				return &Trial{t.TestID, run.RunNumber}
			case first == nil:
				first = &Trial{t.TestID, run.RunNumber}
			}
		}
	}
	return first
}

// Missing returns how many of the trials that were planned did not come to an end.
func (r Run) Missing() int { return max(r.Planned-r.Trials(), 0) }

// MissingSentences says of a run that is incomplete what is missing, a sentence for each; of
// others nothing.
func (r Run) MissingSentences() (said []string) {
	if r.AtWork || r.ExitCode() != results.ExitIncomplete {
		return nil
	}
	outcomes := r.Outcomes()
	missing, infra := r.Missing(), outcomes[evidence.ClassInfra]
	switch {
	case missing > 0 && r.Interrupted:
		said = append(said, fmt.Sprintf("It was interrupted: %s.", ofTrials(missing, r.Planned, "has no outcome", "have no outcome")))
	case missing > 0 && r.Ended.IsZero():
		said = append(said, fmt.Sprintf("It broke off: %s.", ofTrials(missing, r.Planned, "has no outcome", "have no outcome")))
	case missing > 0:
		said = append(said, ofTrials(missing, r.Planned, "has no outcome", "have no outcome")+".")
	}
	if infra > 0 {
		said = append(said, ofTrials(infra, r.Trials(), "ended as infra, which says nothing about the agent", "ended as infra, which says nothing about the agent")+".")
	}
	if missing == 0 && infra == 0 {
		said = append(said, "There is no trial.")
	}
	return said
}

// outcomeSentences returns how the trials that count ended.
func (r Run) outcomeSentences() []string {
	outcomes := r.Outcomes()
	passed := outcomes[evidence.ClassPass]
	all := r.Trials() - outcomes[evidence.ClassInfra]
	switch {
	case all == 0:
		return nil
	case passed == all:
		return []string{fmt.Sprintf("All %s of %s passed.", Several(all, "trial"), Several(r.gradedTasks(), "task"))}
	}
	var others []string
	for _, class := range evidence.Classes() {
		if n := outcomes[class]; n > 0 && class != evidence.ClassPass && class != evidence.ClassInfra {
			others = append(others, fmt.Sprintf("%d %s", n, class))
		}
	}
	return []string{fmt.Sprintf("%s: %s.", ofTrials(all-passed, all, "did not pass", "did not pass"), strings.Join(others, ", "))}
}

// gradedTasks returns how many tasks have a trial that counts.
func (r Run) gradedTasks() (n int) {
	for _, t := range r.Results.Tasks {
		if t.Stats != nil {
			n++
		}
	}
	return n
}

// Line returns the verdict and the counts that it rests on, as in "FAILED: 2 of 14 trials did not
// pass (1 task failed, 1 flaky)".
func (r Run) Line() string {
	verdict := strings.ToUpper(r.Verdict())
	if r.Interrupted && r.ExitCode() == results.ExitIncomplete {
		verdict += " (interrupted)"
	}
	var said []string
	if missing := r.Missing(); missing > 0 {
		said = append(said, ofTrials(missing, r.Planned, "has no outcome", "have no outcome"))
	}
	if infra := r.Outcomes()[evidence.ClassInfra]; infra > 0 {
		said = append(said, ofTrials(infra, r.Trials(), "ended as infra", "ended as infra"))
	}
	said = append(said, r.counts()...)
	if lines := SkillLines(r.Results); len(lines) > 0 {
		said = append(said, lines[0])
	}
	for _, m := range r.Results.Unmet() {
		said = append(said, m.Identifier+" "+Lack(m))
	}
	return verdict + ": " + strings.Join(said, "; ")
}

// counts returns how many trials passed of those that a verdict rests on, with their tasks. Prompts
// of trigger_tests.yaml count by their metric.
func (r Run) counts() []string {
	var trials, passed, tasks, failed, flaky int
	for _, t := range r.Results.Tasks {
		did, of := 0, 0
		for _, run := range t.Runs {
			switch run.Outcome {
			case evidence.ClassPass:
				did, of = did+1, of+1
			case evidence.ClassInfra:
			default:
				of++
			}
		}
		if t.Trigger != nil || of == 0 {
			continue
		}
		tasks, trials, passed = tasks+1, trials+of, passed+did
		switch did {
		case of:
		case 0:
			failed++
		default:
			flaky++
		}
	}
	var which []string
	if failed > 0 {
		which = append(which, text.Count(failed, "task")+" failed")
	}
	if flaky > 0 {
		which = append(which, fmt.Sprintf("%d flaky", flaky))
	}
	var said []string
	switch {
	case passed < trials:
		said = append(said, fmt.Sprintf("%d of %s did not pass (%s)", trials-passed, text.Count(trials, "trial"), strings.Join(which, ", ")))
	case trials > 0:
		said = append(said, fmt.Sprintf("%d of %s passed (%s)", passed, text.Count(trials, "trial"), text.Count(tasks, "task")))
	}
	if m := r.Results.Triggers; m != nil {
		said = append(said, fmt.Sprintf("trigger_accuracy is %.3f", m.Accuracy))
	}
	if len(said) == 0 && r.Missing() == 0 && r.Trials() == 0 {
		said = append(said, "no trial was run")
	}
	return said
}

// Outcomes counts trials by how they ended.
func (r Run) Outcomes() map[evidence.Class]int {
	counts := map[evidence.Class]int{}
	for _, t := range r.Results.Tasks {
		for _, run := range t.Runs {
			counts[run.Outcome]++
		}
	}
	return counts
}

func ofTrials(n, all int, one, more string) string {
	did := more
	if n == 1 {
		did = one
	}
	if n == all {
		return fmt.Sprintf("%s %s", Several(n, "trial"), did)
	}
	return fmt.Sprintf("%s of %s %s", Number(n), Several(all, "trial"), did)
}
