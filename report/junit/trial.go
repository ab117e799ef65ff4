package junit

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/report/view"
	"github.com/waza-isolate/waza/results"
)

// taskCase is the case of a task, of which so many trials were to run. It is called as
// waza calls it, so that a pipeline's history of it goes on.
func taskCase(class string, planned int, task results.Task, texts *budget) testcase {
	c := testcase{Classname: class, Name: nameOf(cmp.Or(task.DisplayName, task.TestID))}
	var failed, broken []results.RunResult
	var told strings.Builder
	for _, run := range task.Runs {
		c.Time += milliseconds(run.DurationMS)
		switch run.Outcome {
		case evidence.ClassPass:
			continue
		case evidence.ClassFail:
			failed = append(failed, run)
		default:
			broken = append(broken, run)
		}
		if told.Len() > maxText { // of which no more is kept
			continue
		}
		if planned > 1 {
			fmt.Fprintf(&told, "#%d ", run.RunNumber)
		}
		told.WriteString(reasons(run))
	}
	why := func(runs []results.RunResult) *problem {
		first := runs[0]
		message := view.Line(first)
		if bad := len(failed) + len(broken); planned > 1 {
			message = fmt.Sprintf("%d of %d trials did not pass: %s", bad, max(planned, len(task.Runs)), message)
		}
		return &problem{Type: line(string(first.Outcome)), Message: line(message), Text: texts.take(told.String())}
	}
	switch missing := len(view.TaskOf(task, planned).Missing); {
	case len(failed) > 0:
		c.Failure = why(failed)
	case len(broken) > 0:
		c.Error = why(broken)
	case task.Attacked():
		c.Skipped = &skipped{Message: "every trial passed, and the attack on the task succeeded"}
	case missing > 0:
		c.Skipped = &skipped{Message: fmt.Sprintf("%d of %d trials have no outcome: they did not run, or not to their end", missing, planned)}
	}
	return c
}

// reasons are how a trial ended and all that is said why.
func reasons(run results.RunResult) string {
	ended := run.Outcome.With(run.Reason)
	if run.Message != "" {
		ended += ": " + run.Message
	}
	why := view.WhyOf(run)
	why.Own = ended
	return strings.Join(why.Reasons(), "\n") + "\n"
}

// again says of a task's trials what came before the attempts that count.
func again(task results.Task) string {
	var out strings.Builder
	for _, run := range task.Runs {
		for _, before := range run.Earlier {
			fmt.Fprintf(&out, "%s #%d, attempt %d: %s: %s\n", task.TestID, run.RunNumber, before.Attempt, before.Outcome.With(before.Reason), text.FirstLine(before.Message))
		}
	}
	return out.String()
}
