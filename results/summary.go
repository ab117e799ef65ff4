package results

import (
	"maps"
	"math"
	"slices"
)

// Names of the metrics that can be computed; evals with others are refused.
const (
	metricCompletion = "task_completion"  // share of tasks that passed
	metricBehavior   = "behavior_quality" // mean score of behavior graders
)

func summarise(tasks []Task, duration int64) Summary {
	s := Summary{TotalTests: len(tasks), DurationMS: duration, Attacks: attacks(tasks)}
	var scores, weighted []float64
	for _, t := range tasks {
		for _, r := range t.Runs {
			s.Again += len(r.Earlier)
			s.Judge = s.Judge.plus(r.Judge)
			s.Usage = s.Usage.plus(r.Usage)
		}
		s.Models = s.Models.plus(t.Totals().Models)
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
	if s.TotalTests > 0 {
		s.SuccessRate = float64(s.Succeeded) / float64(s.TotalTests)
	}
	s.AggregateScore, s.WeightedScore = mean(scores), mean(weighted)
	if len(scores) > 0 {
		s.MinScore, s.MaxScore = slices.Min(scores), slices.Max(scores)
		s.StdDev = math.Sqrt(variance(scores))
		s.Statistics = statistics(tasks, wilson(s.Succeeded, s.TotalTests), weighted)
	}
	if s.TotalTests > 0 && tasks[0].Group != "" { // which is that of all
		s.Groups = []Group{{tasks[0].Group, s.Succeeded, s.TotalTests, s.AggregateScore}}
	}
	return s
}

// statistics are over the tasks that have a counted trial, of which there is one.
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
		first := 0
		for _, r := range runs {
			if r.passedAtFirst() {
				first++
			}
		}
		passes = append(passes, passValues(first, t.Stats.TotalRuns))
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

// measure computes the metrics asked for; one that has nothing to measure is left
// out.
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
			Passed: value >= spec.Threshold, Weight: spec.Weight,
		}
	}
	return measures
}

// MetricsByName are the metrics in the order of their names.
func (r Results) MetricsByName() (all []Measure) {
	for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
		all = append(all, r.Metrics[name])
	}
	return all
}

// Unmet are those that are under their thresholds.
func (r Results) Unmet() []Measure {
	return slices.DeleteFunc(r.MetricsByName(), func(m Measure) bool { return m.Passed })
}

func metric(name string, tasks []Task) (float64, bool) {
	var values []float64
	for _, t := range tasks {
		switch {
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
	slices.Sort(scores) // a sum of floats depends on its order
	return scores
}
