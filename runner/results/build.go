package results

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/waza-isolate/waza/runner/evidence"
)

// Build computes a run's results from its trials, in whatever order they come.
// Of several attempts of a trial the last one counts. It refuses a trial of a
// task that the run does not have.
func Build(run Run, trials []Trial) (Results, error) {
	byTask := map[string][]Trial{}
	for _, task := range run.Tasks {
		byTask[task.ID] = nil
	}
	for _, trial := range trials {
		if _, ok := byTask[trial.Task]; !ok {
			return Results{}, fmt.Errorf("results: trial %d is of task %q, which the run does not have", trial.Number, trial.Task)
		}
		byTask[trial.Task] = append(byTask[trial.Task], trial)
	}
	results := Results{
		EvalID: run.ID, Skill: run.Skill, EvalName: run.EvalName, Timestamp: run.Started.UTC(),
		Config: Config{
			RunsPerTest: run.TrialsPerTask, ModelID: run.Model,
			EngineType: run.Executor, TimeoutSec: int(run.Timeout / time.Second),
			Isolated: run.Isolated, Weak: run.Weak,
		},
		Tasks: []Task{},
	}
	for _, info := range run.Tasks {
		results.Tasks = append(results.Tasks, task(info, byTask[info.ID]))
	}
	results.Summary = summarise(results.Tasks, milliseconds(run.Started, run.Ended))
	results.Metrics = measure(run.Metrics, results.Tasks)
	return results, nil
}

func task(info TaskInfo, trials []Trial) Task {
	trials = slices.Clone(trials)
	slices.SortStableFunc(trials, func(a, b Trial) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Attempt, b.Attempt))
	})
	t := Task{TestID: info.ID, DisplayName: cmp.Or(info.Name, info.ID), Runs: []RunResult{}}
	for i, trial := range trials {
		result := runResult(trial)
		if i > 0 && trials[i-1].Number == trial.Number {
			before := t.Runs[len(t.Runs)-1]
			result.Earlier = append(before.Earlier, Attempt{
				Attempt: trials[i-1].Attempt, Outcome: before.Outcome, Reason: before.Reason, Message: before.Message,
			})
			t.Runs = t.Runs[:len(t.Runs)-1]
		}
		t.Runs = append(t.Runs, result)
	}
	t.Status = taskStatus(t.Runs)
	t.Stats = stats(counted(t.Runs))
	return t
}

// counted leaves out the runs that say nothing of the agent.
func counted(runs []RunResult) []RunResult {
	return slices.DeleteFunc(slices.Clone(runs), func(r RunResult) bool {
		return r.Outcome == evidence.ClassInfra
	})
}

// taskStatus is passed when every counted run passed, and failed when one failed.
func taskStatus(runs []RunResult) Status {
	if len(runs) == 0 {
		return StatusNone
	}
	has := func(status Status) bool {
		return slices.ContainsFunc(counted(runs), func(r RunResult) bool { return r.Status == status })
	}
	switch {
	case has(StatusFailed):
		return StatusFailed
	case has(StatusError) || !has(StatusPassed):
		return StatusError
	}
	return StatusPassed
}

func runResult(trial Trial) RunResult {
	r := RunResult{
		RunNumber: trial.Number, Attempts: max(trial.Attempt, 1),
		Outcome: trial.Verdicts.Class, Reason: trial.Verdicts.Reason, Message: trial.Verdicts.Message,
		DurationMS:    duration(trial),
		Validations:   map[string]Validation{},
		SessionDigest: digest(trial),
		Servers:       serverReports(trial),
		ToolEvents:    toolEvents(trial),
		Transcript:    trial.Transcript,
		Narration:     narration(trial),
		FinalOutput:   trial.FinalOutput,
	}
	switch r.Outcome {
	case evidence.ClassPass:
		r.Status = StatusPassed
	case evidence.ClassFail:
		r.Status = StatusFailed
	default:
		r.Status = StatusError
		r.ErrorMsg = cmp.Or(r.Message, string(r.Outcome))
	}
	for _, v := range trial.Verdicts.Verdicts {
		r.Validations[v.Name] = Validation{
			Identifier: v.Name, Type: v.Type, Score: v.Score, Weight: v.Weight,
			Passed: v.Result == evidence.VerdictPass, Result: v.Result,
			Feedback: v.Feedback, Details: v.Details,
		}
	}
	return r
}

// duration is the agent's time, or the trial's where no agent started.
func duration(trial Trial) int64 {
	if trial.AgentStart.IsZero() || trial.AgentEnd.IsZero() {
		return milliseconds(trial.Started, trial.Ended)
	}
	return milliseconds(trial.AgentStart, trial.AgentEnd)
}

func milliseconds(from, to time.Time) int64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return max(0, to.Sub(from).Milliseconds())
}

// ExitCode is the run's: 3 where a trial has no outcome, else 1 where a trial did
// not pass or a metric is under its threshold, else 0.
func (r Results) ExitCode() int {
	passed, all := 0, 0
	for _, t := range r.Tasks {
		for _, run := range t.Runs {
			if run.Outcome == evidence.ClassInfra {
				return 3
			}
			all++
			if run.Outcome == evidence.ClassPass {
				passed++
			}
		}
	}
	if all == 0 {
		return 3
	}
	for _, m := range r.Metrics {
		if !m.Passed {
			return 1
		}
	}
	if passed < all {
		return 1
	}
	return 0
}
