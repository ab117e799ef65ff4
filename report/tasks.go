package report

import (
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// taskRow is a row in the table of tasks.
type taskRow struct {
	view.Task
	Dots []dot
	Why  string // why its first trial did not pass, or was attacked successfully; other places show it unless it is a prompt of trigger_tests.yaml
	Is   string // filter words
	Rank int    // sort key of its status; tasks that did not pass come first

	Answer  string // first line of the final output of that trial, or of the first one
	Outputs string // beginnings of all trials' final outputs, for searching
	Cut     bool   // outputs are truncated
}

// dot is a trial in a row.
type dot struct {
	Mark
	Number int
	Ended  bool
}

func taskRows(tasks []view.Task) (rows []taskRow) {
	searched := min(maxOutputs, maxSearched/max(len(tasks), 1))
	for _, task := range tasks {
		row := taskRowOf(task, searched)
		row.Is = row.words()
		rows = append(rows, row)
	}
	return rows
}

// Limits on final outputs in rows: columns shown, bytes that can be searched per task, and
// bytes per run.
const (
	maxAnswer   = 120
	maxOutputs  = 4000
	maxSearched = 2 << 20
)

// taskRowOf returns a task's row with up to searched bytes of outputs.
func taskRowOf(task view.Task, searched int) taskRow {
	row := taskRow{Task: task}
	row.Rank = rank(row.Task)
	for i, trial := range task.Trials {
		row.Dots = append(row.Dots, dot{trialMark(trial), trial.RunNumber, true})
		// Later trials can use what earlier ones did not.
		part := text.Shorten(trial.FinalOutput, max(searched-len(row.Outputs), 0)/(len(task.Trials)-i))
		row.Cut = row.Cut || strings.HasSuffix(part, text.Ellipsis)
		row.Outputs += part + "\n"
	}
	if trial := task.Example(); trial != nil {
		row.Why, row.Answer = trial.Noted(), text.Line(text.FirstLine(strings.TrimSpace(trial.FinalOutput)), maxAnswer)
	}
	for _, number := range row.Missing {
		row.Dots = append(row.Dots, dot{missingMark(), number, false})
	}
	slices.SortFunc(row.Dots, func(a, b dot) int { return a.Number - b.Number })
	return row
}

// Marks returns how the task's trials ended.
func (t taskRow) Marks() (all []Mark) {
	for _, e := range t.Ends() {
		m := outcomeOf(e.Class)
		switch e.Word {
		case results.AttackSucceeded:
			m = labeledInjectionMark(evidence.AttackSucceeded)
		case view.NoOutcome:
			m = missingMark()
		}
		all = append(all, Mark{m.Sign, e.Text(), kindOf(e.State)})
	}
	return all
}

// wordOther is a filter word in addition to outcomes.
const wordOther = "not passed"

// words returns the filter words of a task, enclosed in bars.
func (t taskRow) words() string {
	var words []string
	for _, d := range t.Dots {
		words = append(words, d.Word)
	}
	if t.Attacked() {
		words = append(words, results.AttackSucceeded)
	}
	if t.IsFlaky() {
		words = append(words, view.Flaky)
	}
	if t.Status != results.StatusPassed && t.Status != results.StatusNone {
		words = append(words, wordOther)
	}
	slices.Sort(words)
	return "|" + strings.Join(slices.Compact(words), "|") + "|"
}

func rank(t view.Task) int {
	s := t.Status
	if t.Attacked() {
		s = results.StatusFailed
	}
	return slices.Index([]results.Status{results.StatusFailed, results.StatusError, results.StatusNone, results.StatusPassed}, s)
}

// choice is a filter word, with the number of tasks that match.
type choice struct {
	Word  string
	Tasks int
}

// choices returns the words by which the tasks can be filtered.
func choices(rows []taskRow) []choice {
	words := []string{wordOther, view.Flaky, results.AttackSucceeded}
	for _, class := range evidence.Classes() {
		words = append(words, view.Word(class))
	}
	tags := make([]string, len(rows))
	for i, row := range rows {
		tags[i] = row.Is
	}
	return choicesAmong(append(words, view.NoOutcome), tags)
}

// choicesAmong returns the words that some rows have and others do not.
func choicesAmong(words, rows []string) (all []choice) {
	for _, word := range words {
		n := 0
		for _, has := range rows {
			if strings.Contains(has, "|"+word+"|") {
				n++
			}
		}
		if n > 0 && n < len(rows) {
			all = append(all, choice{word, n})
		}
	}
	return all
}
