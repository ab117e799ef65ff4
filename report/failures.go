package report

import (
	"cmp"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/results"
)

// failure is a task's trials of which the same is to be said.
type failure struct {
	Task   results.Task
	Mark   Mark
	Why    string
	Trials []int
}

// manyTrials is how many trials of one failure are named.
const manyTrials = 40

// Named are the first of the trials, and More counts the others.
func (f failure) Named() []int { return f.Trials[:min(len(f.Trials), manyTrials)] }

func (f failure) More() int { return len(f.Trials) - len(f.Named()) }

// Bounds of lists of which the first entries are seen and others are folded.
const (
	seenAtFirst = 20
	seenAtAll   = 300
)

// list is what is seen of a long list, what is folded, and how much is in neither.
type list[T any] struct {
	First, Folded []T
	Left          int
}

func listOf[T any](all []T) list[T] {
	l := list[T]{First: all[:min(len(all), seenAtFirst)]}
	l.Folded = all[len(l.First):min(len(all), seenAtAll)]
	l.Left = len(all) - len(l.First) - len(l.Folded)
	return l
}

// Total is how many there are.
func (l list[T]) Total() int { return len(l.First) + len(l.Folded) + l.Left }

// inALine is why a trial did not pass; where nobody says it, how it ended.
func inALine(run results.RunResult) string {
	if run.Outcome == evidence.ClassPass {
		return ""
	}
	return cmp.Or(run.Why().Line(), run.Outcome.With(run.Reason))
}

// failuresOf are those of the trials that tell of the agent.
func failuresOf(tasks []results.Task) (all []failure) {
	for _, task := range tasks {
		from := len(all)
		for _, run := range task.Runs {
			if run.Outcome == evidence.ClassPass || run.Outcome == evidence.ClassInfra {
				continue
			}
			all = addFailure(all, from, failure{task, outcomeOf(run.Outcome), inALine(run), []int{run.RunNumber}})
		}
	}
	return all
}

// addFailure adds a trial's failure to the same one of its task, of which the first stands
// at from.
func addFailure(all []failure, from int, f failure) []failure {
	for i := from; i < len(all); i++ {
		if all[i].Mark == f.Mark && all[i].Why == f.Why {
			all[i].Trials = append(all[i].Trials, f.Trials...)
			return all
		}
	}
	return append(all, f)
}
