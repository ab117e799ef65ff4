package report

import (
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// taskRow is a task in the table of tasks.
type taskRow struct {
	view.Task
	Dots []dot
	MS   *float64 // median of agents' times, of trials that count
	Why  string   // of its first trial that did not pass, or in which an attack succeeded
	Is   string   // words to filter by
	Rank int      // of its status: what did not pass is first

	Answer  string // first line of the final output of that trial, or else of the first
	Awaited bool   // none of its trials has an outcome, and the run is at work
	Outputs string // the beginnings of all trials' final outputs, to search
	Cut     bool   // there is more of them
}

// dot is a trial in a row.
type dot struct {
	Mark
	Number int
	Ended  bool
}

func taskRows(r view.Run) (rows []taskRow) {
	searched := min(maxOutputs, maxSearched/max(len(r.Results.Tasks), 1))
	for _, task := range r.Results.Tasks {
		row := taskRowOf(task, r.Results.Config.RunsPerTest, searched)
		row.Awaited = r.AtWork && len(task.Runs) == 0
		row.Is = row.words()
		rows = append(rows, row)
	}
	return rows
}

// What a task's row has of answers: columns of the one that is shown, and bytes of all that can be
// searched; and how many bytes the rows of a run have together.
const (
	maxAnswer   = 120
	maxOutputs  = 4000
	maxSearched = 2 << 20
)

// taskRowOf returns a task's row, of whose outputs so many bytes can be searched.
func taskRowOf(task results.Task, planned, searched int) taskRow {
	row := taskRow{Task: view.TaskOf(task, planned), MS: results.MedianDurationMS(task)}
	row.Rank = rank(row.Task)
	for i, run := range task.Runs {
		mark := outcomeOf(run.Outcome)
		if run.Outcome == evidence.ClassPass && run.Attack != nil && run.Attack.Result == evidence.AttackSucceeded {
			mark = attackedMark(evidence.AttackSucceeded)
		}
		row.Dots = append(row.Dots, dot{mark, run.RunNumber, true})
		// The trials that come later have what the earlier ones left.
		part := text.Shorten(run.FinalOutput, max(searched-len(row.Outputs), 0)/(len(task.Runs)-i))
		row.Cut = row.Cut || strings.HasSuffix(part, text.Ellipsis)
		row.Outputs += part + "\n"
	}
	if run, why := telling(task); run != nil {
		row.Why, row.Answer = why, text.Line(text.FirstLine(strings.TrimSpace(run.FinalOutput)), maxAnswer)
	}
	for _, number := range row.Missing {
		row.Dots = append(row.Dots, dot{missingMark(), number, false})
	}
	slices.SortFunc(row.Dots, func(a, b dot) int { return a.Number - b.Number })
	return row
}

// telling returns the first trial that did not pass, or in which an attack succeeded, and why; or else
// the first one. It is nil where no trial ended.
func telling(task results.Task) (run *results.RunResult, why string) {
	for i, r := range task.Runs {
		why := view.Line(r)
		if a := r.Attack; why == "" && a != nil && a.Result == evidence.AttackSucceeded {
			why = view.AttackLine(*a)
		}
		if why != "" {
			return &task.Runs[i], why
		}
	}
	if len(task.Runs) > 0 {
		run = &task.Runs[0]
	}
	return run, ""
}

// Mark returns how the task's trials ended; one whose attack succeeded did not simply pass.
func (t taskRow) Mark() Mark {
	switch word := t.Word(); {
	case word == "":
		return missingMark()
	case t.Attacked && word == string(evidence.ClassPass):
		return attackedMark(evidence.AttackSucceeded)
	default:
		return outcomeOf(word)
	}
}

// Words that tasks are filtered by in addition to outcomes.
const (
	wordOther = "not passed"
	wordNone  = "no outcome"
)

// words returns the outcomes of a task's trials, each once, and other words that fit it, between
// bars.
func (t taskRow) words() string {
	var words []string
	for _, d := range t.Dots {
		words = append(words, d.Word)
	}
	if t.Stats != nil && t.Stats.Flaky {
		words = append(words, view.Flaky)
	}
	if !t.Passed() && !t.Awaited {
		words = append(words, wordOther)
	}
	slices.Sort(words)
	return "|" + strings.Join(slices.Compact(words), "|") + "|"
}

func rank(t view.Task) int {
	s := t.Status
	if t.Attacked {
		s = results.StatusFailed
	}
	return slices.Index([]results.Status{results.StatusFailed, results.StatusError, results.StatusNone, results.StatusPassed}, s)
}

// choice is a word that tasks can be filtered by, and how many it leaves.
type choice struct {
	Word  string
	Tasks int
}

// choices returns the words by which the tasks can be filtered.
func choices(rows []taskRow) []choice {
	words := []string{wordOther, view.Flaky}
	for _, class := range evidence.Classes() {
		words = append(words, string(class))
	}
	tags := make([]string, len(rows))
	for i, row := range rows {
		tags[i] = row.Is
	}
	return choicesAmong(append(words, wordNone), tags)
}

// choicesAmong returns the words that some rows have and others have not, by the words of rows
// between bars.
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
