package results

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/waza-isolate/waza/evidence"
)

// Names of the metrics that can be computed. Evals that ask for others are refused.
const (
	metricCompletion = "task_completion"  // share of tasks that passed
	metricBehavior   = "behavior_quality" // mean score of behavior graders
)

func summarise(tasks []Task, duration int64) Summary {
	s := Summary{TotalTests: len(tasks), DurationMS: duration, Attacks: attacks(tasks), Faults: faults(tasks, nil)}
	var scores, weighted []float64
	for _, t := range tasks {
		for _, r := range t.Runs {
			s.Again += len(r.Earlier)
			s.Judge = s.Judge.plus(r.Judge)
		}
		totals := t.Totals()
		s.Usage, s.Models = s.Usage.plus(totals.Usage), s.Models.plus(totals.Models)
		switch t.Status {
		case StatusPassed:
			s.Succeeded++
		case StatusFailed:
			s.Failed++
		case StatusError:
			s.Errors++
		default:
			s.Skipped++
		}
		if t.Stats != nil {
			scores = append(scores, t.Stats.AvgScore)
			weighted = append(weighted, t.Stats.AvgWeightedScore)
		}
	}
	if ended := s.Ended(); ended > 0 {
		s.SuccessRate = float64(s.Succeeded) / float64(ended)
	}
	s.AggregateScore, s.WeightedScore = mean(scores), mean(weighted)
	if len(scores) > 0 {
		s.MinScore, s.MaxScore = slices.Min(scores), slices.Max(scores)
		s.StdDev = math.Sqrt(variance(scores))
		s.Statistics = statistics(tasks, wilson(s.Succeeded, s.Ended()), weighted)
	}
	if s.TotalTests > 0 && tasks[0].Group != "" { // all tasks have the same group
		s.Groups = []Group{{tasks[0].Group, s.Succeeded, s.TotalTests, s.AggregateScore}}
	}
	return s
}

// Ended returns the number of tasks that have ended: all of their trials have ended, or one did not pass and
// so decided the result.
func (s Summary) Ended() int { return s.TotalTests - s.Skipped }

// PassedTasks returns the rate of passed tasks among those that have ended, or nil if none has.
func (s Summary) PassedTasks() *Rate { return rate(s.Succeeded, s.Ended()) }

// statistics returns the statistics over the tasks that have a counted trial; there must be at least one.
func statistics(tasks []Task, success Interval, weighted []float64) *Statistics {
	s := &Statistics{SuccessRateCI: success}
	var atLeastOne, all, passes, scores, selection, params [][]float64
	several := false
	for _, t := range tasks {
		if t.Stats == nil {
			continue
		}
		s.Consistency.add(t.Stats.Consistency)
		atLeastOne, all = append(atLeastOne, t.Stats.PassAtK), append(all, t.Stats.PassHatK)
		runs := counted(t.Runs)
		passes = append(passes, passValues(t.Stats.first, t.Stats.TotalRuns))
		scores = append(scores, weightedScores(runs))
		selection = append(selection, parts(runs, partSelection))
		params = append(params, parts(runs, partParams))
		several = several || len(runs) > 1
	}
	s.PassAtK, s.PassHatK = meanCurve(atLeastOne), meanCurve(all)
	s.PassRate = estimate(passes)
	s.Score, s.Selection, s.Params = estimate(scores), estimate(selection), estimate(params)
	if several && len(weighted) > 1 {
		ci := bootstrap(weighted)
		s.BootstrapCI = &ci
	}
	return s
}

func weightedScores(runs []RunResult) (scores []float64) {
	for _, r := range runs {
		_, weighted := r.scores()
		scores = append(scores, weighted)
	}
	return scores
}

// measure computes the requested metrics. It omits metrics that have nothing to measure.
func measure(specs []MetricSpec, tasks []Task, triggers *TriggerMetrics) map[string]Measure {
	measures := map[string]Measure{}
	for _, spec := range specs {
		value, ok := metric(spec.Name, tasks)
		if spec.Name == metricTrigger && triggers != nil {
			value, ok = triggers.Accuracy, true
		}
		if !ok {
			continue
		}
		measures[spec.Name] = Measure{
			Identifier: spec.Name, Value: value, Threshold: spec.Threshold,
			Passed: evidence.Reaches(value, spec.Threshold), Weight: spec.Weight,
		}
	}
	return measures
}

// Counts holds counts of the trials of a run, by the last attempt of each. A trial counts if its outcome
// depends on the agent, as in [Stats]. So infra does not count, and leaves the run incomplete; nor do
// server_error and miss, which fail the run. Prompts of trigger_tests.yaml count through their metric.
type Counts struct {
	Trials, Passed int                    // trials that count
	Others         map[evidence.Class]int // trials that count and did not pass
	Tasks          int                    // tasks with a trial that counts
	Failed         int                    // tasks of which no counted trial passed
	Flaky          int                    // as in [Stats], by first attempts
}

// Counted counts the run's trials.
func (r Results) Counted() Counts {
	all := Counts{Others: map[evidence.Class]int{}}
	for _, t := range r.Tasks {
		if t.Trigger == nil {
			all.add(counted(t.Runs))
		}
	}
	return all
}

// add adds the trials of a task that count.
func (a *Counts) add(runs []RunResult) {
	passed := 0
	for _, run := range runs {
		if run.Outcome == evidence.ClassPass {
			passed++
		} else {
			a.Others[run.Outcome]++
		}
	}
	if len(runs) == 0 {
		return
	}
	a.Tasks, a.Trials, a.Passed = a.Tasks+1, a.Trials+len(runs), a.Passed+passed
	if passed == 0 {
		a.Failed++
	}
	if flaky(runs) {
		a.Flaky++
	}
}

// MetricsByName returns the metrics sorted by name.
func (r Results) MetricsByName() (all []Measure) {
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		all = append(all, r.Metrics[name])
	}
	return all
}

// Unmet returns the metrics below their thresholds.
func (r Results) Unmet() []Measure {
	return slices.DeleteFunc(r.MetricsByName(), func(m Measure) bool { return m.Passed })
}

func metric(name string, tasks []Task) (float64, bool) {
	var values []float64
	for _, t := range tasks {
		switch {
		case name == metricCompletion && t.Status == StatusNone:
		case name == metricCompletion && t.Status == StatusPassed:
			values = append(values, 1)
		case name == metricCompletion:
			values = append(values, 0)
		case name == metricBehavior:
			values = append(values, behaviorScores(t)...)
		}
	}
	return mean(values), len(values) > 0
}

func behaviorScores(t Task) []float64 {
	var scores []float64
	for _, r := range counted(t.Runs) {
		for _, v := range r.Validations {
			if v.Type == "behavior" {
				scores = append(scores, v.Score)
			}
		}
	}
	slices.Sort(scores) // the sum of floats depends on their order
	return scores
}

// Exit codes of a run.
const (
	ExitPassed     = 0
	ExitFailed     = 1
	ExitIncomplete = 3 // a trial has no outcome
)

// ExitCode returns the exit code of a run with the given number of planned trials. It is [ExitIncomplete] if
// a trial is missing, for example after an interruption, or ended as infra; otherwise [ExitFailed] if a trial
// did not pass or a metric is below its threshold. With failFast, trials may be missing after a failure. A
// run that is compared with a run without skills passes if skills raise the pass rate.
func (r Results) ExitCode(planned int, failFast bool) int {
	code := r.exitCode()
	for _, t := range r.Tasks {
		planned -= len(t.Runs)
	}
	if planned > 0 && !(failFast && code == ExitFailed) {
		return ExitIncomplete
	}
	return code
}

// exitCode is like ExitCode, but ignores missing trials.
func (r Results) exitCode() int {
	passed, all := 0, 0
	for _, t := range r.Tasks {
		for _, run := range t.Runs {
			if run.Outcome == evidence.ClassInfra {
				return ExitIncomplete
			}
			all++
			if t.Trigger != nil { // it counts through its metric
				passed++
				continue
			}
			if run.Outcome == evidence.ClassPass {
				passed++
			}
		}
	}
	if all == 0 {
		return ExitIncomplete
	}
	if r.Baseline != nil && r.Summary.Faults == nil {
		if _, _, adds, _ := r.Impact(); adds > 0 {
			return ExitPassed
		}
		return ExitFailed
	}
	if passed < all || len(r.Unmet()) > 0 {
		return ExitFailed
	}
	return ExitPassed
}

// SkillImpact is the effect of skills on a task. Rates are over the counted trials.
type SkillImpact struct {
	WithSkills    float64 `json:"pass_rate_with_skills"`
	Baseline      float64 `json:"pass_rate_baseline"`
	Delta         float64 `json:"delta"`
	PercentChange float64 `json:"percent_change"` // relative to the baseline; 100 if only the baseline is 0
}

// Against adds a comparison with a baseline. With a run without faults, it compares trials. With a run
// without skills, it compares tasks; a task without counted trials in one of the runs has no impact.
func (r *Results) Against(base Results) (err error) {
	base.IsBaseline, base.Baseline = true, nil
	if r.Baseline, err = evidence.Marshal(base); err != nil {
		return err
	}
	if base.Config.NoFaults {
		r.Summary.Faults = faults(r.Tasks, base.Tasks)
		return nil
	}
	for i, task := range r.Tasks {
		at := slices.IndexFunc(base.Tasks, func(t Task) bool { return t.TestID == task.TestID })
		if at < 0 || task.Stats == nil || base.Tasks[at].Stats == nil {
			continue
		}
		impact := SkillImpact{WithSkills: task.Stats.PassRate, Baseline: base.Tasks[at].Stats.PassRate}
		impact.Delta = impact.WithSkills - impact.Baseline
		switch {
		case impact.Baseline > 0:
			impact.PercentChange = 100 * impact.Delta / impact.Baseline
		case impact.Delta > 0:
			impact.PercentChange = 100
		}
		r.Tasks[i].SkillImpact = &impact
	}
	return nil
}

// Impact returns the means over tasks of the pass rates with and without skills and of their differences, and
// the number of tasks. All are 0 if there are no tasks.
func (r Results) Impact() (with, without, adds float64, tasks int) {
	var all, base, deltas []float64
	for _, t := range r.Tasks {
		if i := t.SkillImpact; i != nil {
			all, base, deltas = append(all, i.WithSkills), append(base, i.Baseline), append(deltas, i.Delta)
		}
	}
	return mean(all), mean(base), mean(deltas), len(deltas)
}

// Totals sums up the trials of a task.
type Totals struct {
	MCPCalls int
	Usage    *Usage  // nil if unknown
	Models   *Models // nil without a gateway
}

// Totals returns the totals of all trials, including those that ended as infra.
func (t Task) Totals() (all Totals) {
	for _, r := range t.Runs {
		all.MCPCalls += r.SessionDigest.MCPToolCalls
		all.Usage = all.Usage.plus(r.Usage)
		all.Models = all.Models.plus(r.Models)
	}
	return all
}

// MedianDurationMS returns the median agent time of the tasks' counted trials, in milliseconds; nil if there
// are none.
func MedianDurationMS(tasks ...Task) *float64 {
	var took []time.Duration
	for _, t := range tasks {
		for _, r := range counted(t.Runs) {
			took = append(took, time.Duration(r.DurationMS)*time.Millisecond)
		}
	}
	slices.Sort(took)
	return median(took)
}
