package junit

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/visible"
	"github.com/waza-isolate/waza/runner/evidence"
	"github.com/waza-isolate/waza/runner/results"
)

// trials are the cases of a task, of which so many trials were to run.
func trials(class string, planned int, task results.Task, texts *budget) (cases []testcase) {
	runs := map[int]results.RunResult{}
	for _, run := range task.Runs {
		runs[run.RunNumber] = run
		planned = max(planned, run.RunNumber)
	}
	for number := 1; number <= planned; number++ {
		c := testcase{Classname: class, Name: nameOf(task.TestID)}
		if planned > 1 {
			c.Name = fmt.Sprintf("%s #%d", c.Name, number)
		}
		if run, ran := runs[number]; ran {
			c.tell(run, texts)
		} else {
			c.Skipped = &skipped{Message: "the trial has no outcome: it did not run, or not to its end"}
		}
		cases = append(cases, c)
	}
	return cases
}

// tell says how a trial ended.
func (c *testcase) tell(run results.RunResult, texts *budget) {
	c.Time = milliseconds(run.DurationMS)
	if run.Outcome == evidence.ClassPass {
		return
	}
	why := &problem{Type: line(string(run.Outcome)), Message: line(cmp.Or(run.Why().Line(), run.Outcome.With(run.Reason))), Text: texts.take(reasons(run))}
	if run.Outcome == evidence.ClassFail {
		c.Failure = why
	} else {
		c.Error = why
	}
}

// reasons are how a trial ended and all that is said why.
func reasons(run results.RunResult) string {
	ended := run.Outcome.With(run.Reason)
	if run.Message != "" {
		ended += ": " + run.Message
	}
	why := run.Why()
	why.Own = ended
	return strings.Join(why.Reasons(), "\n") + "\n"
}

// again says of a task's trials what came before the attempts that count.
func again(task results.Task) string {
	var out strings.Builder
	for _, run := range task.Runs {
		for _, before := range run.Earlier {
			fmt.Fprintf(&out, "%s #%d, attempt %d: %s: %s\n", task.TestID, run.RunNumber, before.Attempt, before.Outcome.With(before.Reason), visible.FirstLine(before.Message))
		}
	}
	return out.String()
}
