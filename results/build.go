package results

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/text"
)

// Builder computes a run's results from its trials, added one at a time. It keeps what the figures need and
// the beginnings of final outputs, but not the contents of calls and transcripts.
type Builder struct {
	run      Run
	trials   map[string][]taken // by task
	catalogs catalogs
}

// taken is the part of a trial that is kept in memory.
type taken struct {
	result  RunResult
	used    map[string]*tools // by server
	listed  map[string][]tool // by server
	answers answerTimes       // of the agent's models

	failedServer string // the server that crashed; empty if none did
}

// NewBuilder returns a builder for a run without trials.
func NewBuilder(run Run) *Builder {
	b := &Builder{run: run, trials: map[string][]taken{}, catalogs: catalogs{}}
	for _, task := range run.Tasks {
		b.trials[task.TestID] = nil
	}
	return b
}

// Add adds a trial. Trials may be added in any order. It returns an error for a trial of a task that the run
// does not have.
func (b *Builder) Add(trial Trial) error {
	if _, ok := b.trials[trial.Task]; !ok {
		return fmt.Errorf("results: trial %d is of task %q, which the run does not have", trial.Number, trial.Task)
	}
	t := taken{result: outline(trial), used: used(trial), failedServer: trial.FailedServer}
	t.listed = b.catalogs.look(t.result.Servers, trial.Catalogs)
	t.result.Models, t.answers = modelsOf(trial)
	t.result.Usage = t.result.SessionDigest.Usage
	b.trials[trial.Task] = append(b.trials[trial.Task], t)
	return nil
}

// Results returns the results of the trials added so far. Their runs lack the parts that [Results.Write]
// adds.
func (b *Builder) Results() Results {
	results := b.run.Results
	results.Tasks = append([]Task{}, b.run.Tasks...)
	var servers cards
	var answers answerTimes
	for i, task := range b.run.Tasks {
		trials := b.trials[task.TestID]
		slices.SortFunc(trials, func(a, b taken) int { return cmp.Compare(a.result.RunNumber, b.result.RunNumber) })
		results.Tasks[i] = withRuns(task, trials, results.Config.trialsOf(task))
		for _, t := range trials {
			answers.add(t.answers)
			if counts(t.result) {
				servers.add(t)
			}
			servers.failed(t.failedServer)
		}
	}
	results.Servers = servers.all()
	own := withoutTriggers(results.Tasks)
	results.Triggers, results.TriggerResults = triggers(results.Tasks)
	results.Summary = summarise(own, milliseconds(b.run.Timestamp, b.run.Ended))
	if m := results.Summary.Models; m != nil {
		m.Timing = answers.timing()
	}
	results.Metrics = measure(b.run.Specs, own, results.Triggers)
	return results
}

// withRuns returns a task with the results of its trials; planned is the planned number of trials.
func withRuns(t Task, trials []taken, planned int) Task {
	t.DisplayName, t.Runs = cmp.Or(t.DisplayName, t.TestID), []RunResult{}
	for _, trial := range trials {
		t.Runs = append(t.Runs, trial.result)
	}
	t.Status = taskStatus(t.Runs, planned)
	t.Stats = stats(counted(t.Runs))
	return t
}

// counted returns the runs that say something about the agent.
func counted(runs []RunResult) []RunResult {
	return slices.DeleteFunc(slices.Clone(runs), func(r RunResult) bool { return !counts(r) })
}

func counts(r RunResult) bool { return r.Outcome.OfAgent() }

// taskStatus returns the status of a task: failed if a counted run failed; otherwise error if one ended in an
// error, or if a server or a cassette miss broke a run; otherwise n/a while planned runs are missing;
// otherwise error if no counted run passed, and passed if all did.
func taskStatus(runs []RunResult, planned int) Status {
	has := func(status Status) bool {
		return slices.ContainsFunc(counted(runs), func(r RunResult) bool { return r.Status == status })
	}
	switch {
	case has(StatusFailed):
		return StatusFailed
	case has(StatusError) || slices.ContainsFunc(runs, func(r RunResult) bool { return r.Outcome.Fails() }):
		return StatusError
	case len(runs) < max(planned, 1):
		return StatusNone
	case !has(StatusPassed):
		return StatusError
	}
	return StatusPassed
}

// maxOutline is the number of bytes of a final output that are kept, for display and search.
const maxOutline = 1000

// outline returns the part of a result that is kept; Complete adds the rest.
func outline(trial Trial) RunResult {
	r := RunResult{
		RunNumber: trial.Number, Attempts: max(trial.Attempt, 1),
		Outcome: trial.Verdicts.Class, Reason: trial.Verdicts.Reason, Message: trial.Verdicts.Message,
		DurationMS:    duration(trial),
		Validations:   validations(trial.Verdicts.Verdicts),
		Attack:        attackOf(trial),
		Faults:        faultsIn(trial),
		SessionDigest: digest(trial),
		Servers:       trial.Reports(),
		Judge:         judgeOf(trial.Steps),
		Narration:     narration(trial),
		Responder:     trial.Responder,
		Commands:      trial.Commands,
		Checkpoints:   checkpoints(trial.Verdicts.Checkpoints),
		FinalOutput:   strings.Clone(text.Shorten(trial.FinalOutput, maxOutline)),
		Took:          trial.Ended.Sub(trial.Started),
		Shared:        trial.Shared,
	}
	for _, a := range trial.Earlier {
		r.Earlier = append(r.Earlier, Attempt{Attempt: max(a.Attempt, 1), Outcome: a.Class, Reason: a.Reason, Message: a.Message, Shared: a.Shared})
	}
	if r.Status = statusOf(r.Outcome); r.Status == StatusError {
		r.ErrorMsg = cmp.Or(r.Message, string(r.Outcome))
	}
	return r
}

// Graded returns the part of a trial's result that its verdicts determine.
func Graded(v evidence.Verdicts) RunResult {
	return RunResult{Outcome: v.Class, Reason: v.Reason, Message: v.Message, Validations: validations(v.Verdicts), Checkpoints: checkpoints(v.Checkpoints)}
}

func checkpoints(verdicts []evidence.CheckpointVerdicts) (all []Checkpoint) {
	for _, c := range verdicts {
		all = append(all, Checkpoint{
			AfterTurn: c.AfterTurn, Status: statusOf(c.Class), Validations: validations(c.Verdicts.Verdicts), Stopped: c.Stopped,
		})
	}
	return all
}

func statusOf(outcome evidence.Class) Status {
	switch outcome {
	case evidence.ClassPass:
		return StatusPassed
	case evidence.ClassFail:
		return StatusFailed
	}
	return StatusError
}

// validations returns verdicts by the name of the grader.
func validations(verdicts []evidence.Verdict) map[string]Validation {
	all := map[string]Validation{}
	for _, v := range verdicts {
		all[v.Name] = Validation{
			Identifier: v.Name, Type: v.Type, Score: v.Score, Weight: v.Weight,
			Passed: v.Result == evidence.VerdictPass, Result: v.Result,
			Feedback: v.Feedback, Details: v.Details,
		}
	}
	return all
}

// Complete returns r with the tool calls and the transcript of its trial. It returns an error if a large
// result cannot be read.
func (r RunResult) Complete(trial Trial) (RunResult, error) {
	room := roomFor(trial)
	used, err := uses(trial)
	room.err = err
	r.SessionDigest.ToolCalls = slices.Collect(room.toolCalls(used))
	r.ToolEvents, r.Transcript = slices.Collect(room.toolEvents(used)), slices.Collect(room.transcript(trial))
	r.FinalOutput = trial.FinalOutput
	return r, room.err
}

// duration returns the agent's time in milliseconds, or the trial's time if no agent started.
func duration(trial Trial) int64 {
	if took, known := trial.AgentTime(); known {
		return max(0, took.Milliseconds())
	}
	return milliseconds(trial.Started, trial.Ended)
}

func milliseconds(from, to time.Time) int64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return max(0, to.Sub(from).Milliseconds())
}

// Run holds the facts about a run that do not depend on its trials.
type Run struct {
	Results // IDs, names, start, config, and the tasks in the order in which they are reported
	Ended   time.Time
	Specs   []MetricSpec // the metrics to compute
}

// MetricSpec is a metric of the eval. A Threshold of 0 means none.
type MetricSpec struct {
	Name      string  `json:"name"`
	Weight    float64 `json:"weight"`
	Threshold float64 `json:"threshold,omitempty"`
}

// Trial is the last attempt at a trial: its evidence and its verdicts.
type Trial struct {
	evidence.Trial
	Earlier    []evidence.Trial // earlier attempts, in order
	Path       string           // path of its evidence, in the run's directory
	Verdicts   evidence.Verdicts
	Calls      []evidence.Call
	Catalogs   []evidence.Catalog
	Events     []evidence.Event // those for which OfServers returns true
	Observed   []evidence.Observed
	Stderr     map[string]Written         // by server
	Echoes     map[string][]evidence.Echo // by server
	Transcript []evidence.TranscriptEvent
	Steps      []evidence.Step      // including those of checkpoints
	Narration  *evidence.Narration  // nil without a transcript
	Gateway    bool                 // the trial's models were called through the gateway
	Models     []evidence.ModelCall // without the bytes of requests and responses
}

// Narration is the agent's account of its calls, compared with the recorded calls.
type Narration struct {
	Sentences []string `json:"sentences,omitempty"` // differences in words
	evidence.Narration
}

func narration(trial Trial) *Narration {
	if trial.Narration == nil {
		return nil
	}
	n := Narration{Sentences: capture.Describe(*trial.Narration, trial.Calls), Narration: *trial.Narration}
	n.Tools = nil // narration.json has the compared names
	return &n
}
