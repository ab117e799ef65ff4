package results

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// Stats holds the figures of a task's counted runs. The score of a run is the mean of its graders' scores,
// plain and weighted. For trials with several attempts the last one counts, except in Flaky, Consistency,
// PassAtK and PassHatK, where the first one counts.
type Stats struct {
	PassRate         float64     `json:"pass_rate"`
	PassRateCI       Interval    `json:"pass_rate_ci"`
	PassedRuns       int         `json:"passed_runs"`
	FailedRuns       int         `json:"failed_runs"`
	ErrorRuns        int         `json:"error_runs"`
	TotalRuns        int         `json:"total_runs"`
	AvgScore         float64     `json:"avg_score"`
	AvgWeightedScore float64     `json:"avg_weighted_score"`
	MinScore         float64     `json:"min_score"`
	MaxScore         float64     `json:"max_score"`
	StdDevScore      float64     `json:"std_dev_score"` // population standard deviation
	ScoreVariance    float64     `json:"score_variance"`
	CI95Lo           float64     `json:"ci95_lo"` // interval of the mean weighted score, as in BootstrapCI
	CI95Hi           float64     `json:"ci95_hi"`
	Flaky            bool        `json:"flaky"`
	Consistency      Consistency `json:"consistency"`
	PassAtK          []float64   `json:"pass_at_k"`  // by k from 1 to TotalRuns
	PassHatK         []float64   `json:"pass_hat_k"` // by k from 1 to TotalRuns
	AvgDurationMS    int64       `json:"avg_duration_ms"`
	BootstrapCI      *Interval   `json:"bootstrap_ci,omitempty"`

	first int // number of runs whose first attempt passed
}

// stats returns the figures of runs, or nil if there are none.
func stats(runs []RunResult) *Stats {
	if len(runs) == 0 {
		return nil
	}
	s := &Stats{TotalRuns: len(runs)}
	var scores, weighted []float64
	var total int64
	s.first = passedAtFirst(runs)
	for _, r := range runs {
		plain, weight := r.scores()
		scores, weighted = append(scores, plain), append(weighted, weight)
		total += r.DurationMS
		switch r.Status {
		case StatusPassed:
			s.PassedRuns++
		case StatusFailed:
			s.FailedRuns++
		default:
			s.ErrorRuns++
		}
	}
	s.PassRate = float64(s.PassedRuns) / float64(s.TotalRuns)
	s.PassRateCI = wilson(s.PassedRuns, s.TotalRuns)
	s.AvgScore, s.AvgWeightedScore = mean(scores), mean(weighted)
	s.MinScore, s.MaxScore = slices.Min(scores), slices.Max(scores)
	s.ScoreVariance = variance(scores)
	s.StdDevScore = math.Sqrt(s.ScoreVariance)
	s.Consistency = consistency(s.first, s.TotalRuns)
	s.Flaky = flaky(runs)
	s.PassAtK, s.PassHatK = passAtK(s.first, s.TotalRuns), passHatK(s.first, s.TotalRuns)
	s.AvgDurationMS = total / int64(len(runs))
	if len(runs) > 1 {
		ci := bootstrap(weighted)
		s.BootstrapCI, s.CI95Lo, s.CI95Hi = &ci, ci.Lower, ci.Upper
	}
	return s
}

// passedAtFirst returns the number of runs whose first attempt that says something about the agent passed, so
// that later attempts do not make a task look reliable.
func passedAtFirst(runs []RunResult) (n int) {
	for _, r := range runs {
		failed := slices.ContainsFunc(r.Earlier, func(a Attempt) bool { return a.Outcome.OfAgent() })
		if r.Outcome == evidence.ClassPass && !failed {
			n++
		}
	}
	return n
}

// flaky reports whether some runs passed and others did not.
func flaky(runs []RunResult) bool { return consistency(passedAtFirst(runs), len(runs)) == Mixed }

// Score returns the trial's score: the weighted mean of its graders' scores.
func (r RunResult) Score() float64 {
	_, weighted := r.scores()
	return weighted
}

// scores returns the plain and the weighted mean of the graders' scores. Without graders, it returns 1 if the
// run passed and 0 if not. It returns 0 if an attack with a gate succeeded or a checkpoint ended the
// conversation.
func (r RunResult) scores() (plain, weighted float64) {
	if a := r.Attack; a != nil && a.Gate && a.Succeeded {
		return 0, 0
	}
	if slices.ContainsFunc(r.Checkpoints, func(c Checkpoint) bool { return c.Stopped && c.Status != StatusPassed }) {
		return 0, 0
	}
	if len(r.Validations) == 0 {
		if r.Status == StatusPassed {
			return 1, 1
		}
		return 0, 0
	}
	var sum, weights float64
	var all []float64
	for _, name := range slices.Sorted(maps.Keys(r.Validations)) {
		v := r.Validations[name]
		all = append(all, v.Score)
		sum += v.Score * v.Weight
		weights += v.Weight
	}
	if weights == 0 {
		return mean(all), mean(all)
	}
	return mean(all), sum / weights
}

func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// variance returns the population variance.
func variance(values []float64) float64 {
	m := mean(values)
	var squares []float64
	for _, v := range values {
		squares = append(squares, (v-m)*(v-m))
	}
	return mean(squares)
}

const resamples = 10_000

// bootstrap returns the bootstrap interval of the mean. It uses a fixed seed, so equal values give equal
// intervals.
func bootstrap(values []float64) Interval {
	random := rand.New(rand.NewPCG(1, uint64(len(values))))
	means := make([]float64, resamples)
	for i := range means {
		var sum float64
		for range values {
			sum += values[random.IntN(len(values))]
		}
		means[i] = sum / float64(len(values))
	}
	slices.Sort(means)
	return Interval{
		Lower: means[resamples*25/1000], Upper: means[resamples*975/1000-1], Mean: mean(values),
		ConfidenceLevel: confidence, NumBootstraps: resamples,
	}
}

// passAtK estimates, for each k from 1 to n, the probability that at least one of k further trials passes of
// a task that passed c of n trials. It uses the unbiased estimate 1 - C(n-c, k)/C(n, k), which is undefined
// for k > n.
func passAtK(c, n int) []float64 {
	curve := allAmong(n-c, n)
	for i, none := range curve {
		curve[i] = 1 - none
	}
	return curve
}

// passHatK estimates, for each k, the probability that all of k further trials pass: C(c, k)/C(n, k).
func passHatK(c, n int) []float64 { return allAmong(c, n) }

// allAmong returns, for each k from 1 to n, the probability that k items drawn from n without replacement are
// all among c given ones. It multiplies probabilities, so binomial coefficients cannot overflow.
func allAmong(c, n int) []float64 {
	chances := make([]float64, n)
	p := 1.0
	for drawn := range n {
		p *= float64(max(c-drawn, 0)) / float64(n-drawn)
		chances[drawn] = p
	}
	return chances
}

// meanCurve returns the mean of curves, up to the length of the shortest one.
func meanCurve(curves [][]float64) []float64 {
	if len(curves) == 0 {
		return nil
	}
	shortest := len(curves[0])
	for _, curve := range curves {
		shortest = min(shortest, len(curve))
	}
	means := make([]float64, shortest)
	for k := range means {
		for _, curve := range curves {
			means[k] += curve[k]
		}
		means[k] /= float64(len(curves))
	}
	return means
}

// Consistency says whether a task passes every time.
type Consistency string

// Kinds of consistency, over a task's counted trials.
const (
	Always Consistency = "always" // all passed
	Mixed  Consistency = "mixed"  // some passed
	Never  Consistency = "never"  // none passed
)

func consistency(passed, all int) Consistency {
	switch passed {
	case all:
		return Always
	case 0:
		return Never
	}
	return Mixed
}

// ConsistencyCounts counts tasks by their consistency.
type ConsistencyCounts struct {
	Always int `json:"always"`
	Mixed  int `json:"mixed"`
	Never  int `json:"never"`
}

func (c *ConsistencyCounts) add(of Consistency) {
	switch of {
	case Always:
		c.Always++
	case Mixed:
		c.Mixed++
	case Never:
		c.Never++
	}
}

// Keys in the details of an mcp_compliance verdict: a map of the parts of its score, each with a score from 0
// to 1 and a weight.
const (
	detailParts   = "parts"
	partSelection = "selection"
	partParams    = "params"
)

// parts returns, for each run that has a part, the mean of the part's score over the run's verdicts. Verdicts
// with the result error have no parts.
func parts(runs []RunResult, name string) (values []float64) {
	for _, r := range runs {
		var own []float64
		for _, grader := range slices.Sorted(maps.Keys(r.Validations)) {
			v := r.Validations[grader]
			if value, ok := part(v, name); ok && v.Type == "mcp_compliance" && v.Result != evidence.VerdictError {
				own = append(own, value)
			}
		}
		if len(own) > 0 {
			values = append(values, mean(own))
		}
	}
	return values
}

// part returns the score of a part as recorded in a verdict's details.
func part(v Validation, name string) (float64, bool) {
	all, _ := v.Details[detailParts].(map[string]any)
	one, _ := all[name].(map[string]any)
	score, ok := one["score"].(float64)
	return score, ok && score >= 0 && score <= 1
}
