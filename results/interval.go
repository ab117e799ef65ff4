package results

import (
	"math"
)

// Interval is a 95% confidence interval around a mean.
type Interval struct {
	Lower           float64 `json:"lower"`
	Upper           float64 `json:"upper"`
	Mean            float64 `json:"mean"`
	ConfidenceLevel float64 `json:"confidence_level"`
	NumBootstraps   int     `json:"num_bootstraps,omitempty"` // for bootstrap intervals
}

const confidence = 0.95

// z is the 97.5% quantile of the normal distribution.
const z = 1.959963984540054

// wilson returns Wilson's score interval for c of n successes.
func wilson(c, n int) Interval { return score(float64(c), float64(n)) }

// score returns Wilson's score interval for the mean of n values from 0 to 1 with the given sum. Such values
// vary at most as much as successes and failures do.
func score(sum, n float64) Interval {
	if n == 0 {
		return Interval{Lower: 0, Upper: 1, ConfidenceLevel: confidence}
	}
	p := sum / n
	denominator := 1 + z*z/n
	centre := (p + z*z/(2*n)) / denominator
	half := z / denominator * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	interval := Interval{Lower: max(centre-half, 0), Upper: min(centre+half, 1), Mean: p, ConfidenceLevel: confidence}
	if sum == 0 {
		interval.Lower = 0
	}
	if sum == n {
		interval.Upper = 1
	}
	return interval
}

// Estimate is the mean over trials of a value from 0 to 1, with an interval that accounts for the similarity
// of trials of the same task.
type Estimate struct {
	Interval
	Trials int `json:"trials"` // trials that have the value
	Tasks  int `json:"tasks"`  // tasks of these trials
}

// negligible is a standard error that only comes from rounding.
const negligible = 1e-12

// estimate returns the mean over trials, given their values by task; nil if there are none. Its interval is
// Student's, with the cluster-robust standard error and tasks as clusters. If all trials belong to one task,
// each trial is a cluster. If the clusters do not vary, as with a single one, the interval is Wilson's for as
// many values as there are clusters.
func estimate(byTask [][]float64) *Estimate {
	var clusters [][]float64
	for _, values := range byTask {
		if len(values) > 0 {
			clusters = append(clusters, values)
		}
	}
	if len(clusters) == 0 {
		return nil
	}
	e := &Estimate{Tasks: len(clusters)}
	if len(clusters) == 1 {
		clusters = each(clusters[0])
	}
	var sum float64
	for _, values := range clusters {
		e.Trials += len(values)
		for _, v := range values {
			sum += v
		}
	}
	e.Interval = clustered(clusters, sum/float64(e.Trials), float64(e.Trials))
	return e
}

func each(values []float64) (alone [][]float64) {
	for _, v := range values {
		alone = append(alone, []float64{v})
	}
	return alone
}

// clustered returns the interval around the mean of n values in clusters.
func clustered(clusters [][]float64, mean, n float64) Interval {
	var squares float64
	for _, values := range clusters {
		var off float64
		for _, v := range values {
			off += v - mean
		}
		squares += off * off
	}
	count := float64(len(clusters))
	if standardError := math.Sqrt(count/max(count-1, 1)*squares) / n; standardError > negligible {
		half := student(0.5+confidence/2, len(clusters)-1) * standardError
		return Interval{Lower: max(mean-half, 0), Upper: min(mean+half, 1), Mean: mean, ConfidenceLevel: confidence}
	}
	return score(mean*count, count)
}

// student returns the quantile p of Student's t distribution with df degrees of freedom. p
// must be at least 0.5 and below 1, and df at least 1.
func student(p float64, df int) float64 {
	lower, upper := 0.0, math.Pi/2
	for range 64 {
		middle := (lower + upper) / 2
		if within(middle, df) < 2*p-1 {
			lower = middle
		} else {
			upper = middle
		}
	}
	return math.Sqrt(float64(df)) * math.Tan((lower+upper)/2)
}

// within returns the probability that the absolute value of t is at most √df·tan(angle): the finite sums of
// Abramowitz and Stegun, 26.7.3 and 26.7.4.
func within(angle float64, df int) float64 {
	sin, cos := math.Sincos(angle)
	odd := df%2 == 1
	sum, term := 0.0, 1.0
	if odd {
		term = cos
	}
	for power := df % 2; power <= df-2; power += 2 {
		sum += term
		term *= cos * cos * float64(power+1) / float64(power+2)
	}
	if odd {
		return 2 / math.Pi * (angle + sin*sum)
	}
	return sin * sum
}
