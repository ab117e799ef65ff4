package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/results"
)

// again is a trial that ended as infra, at last or before it was made again.
type again struct {
	Task     results.Task
	Number   int
	Mark     Mark // of the last attempt
	Attempts []attempt
}

// attempt is one that ended as infra.
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

// maxReason is how many columns of a reason are shown.
const maxReason = 240

// brokeBy says behind "infra" what broke a trial: whose doing it was in a word, and how.
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

// absent are a task's trials without an outcome.
type absent struct {
	Task    results.Task
	Numbers string
}

func absentOf(r Run) (all []absent) {
	for _, task := range r.Results.Tasks {
		if missing := missingTrials(task, r.Results.Config.RunsPerTest); len(missing) > 0 {
			all = append(all, absent{task, ranges(missing)})
		}
	}
	return all
}

// missingTrials are the numbers of those that a task was to have and has not.
func missingTrials(task results.Task, planned int) (missing []int) {
	if task.Trigger != nil {
		planned = 1
	}
	for number := 1; number <= planned; number++ {
		if !slices.ContainsFunc(task.Runs, func(r results.RunResult) bool { return r.RunNumber == number }) {
			missing = append(missing, number)
		}
	}
	return missing
}

// ranges are rising numbers in short: 1–3, 5.
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
