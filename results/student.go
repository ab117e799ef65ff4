package results

import "math"

// student is the quantile p, from 0.5 to below 1, of Student's t distribution with df
// degrees of freedom, of which there is at least one.
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

// within is the probability that t is at most √df·tan(angle) from 0: the finite sums
// of Abramowitz and Stegun, 26.7.3 and 26.7.4.
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
