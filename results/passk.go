package results

// passAtK estimates, of a task that passed c of n trials, the chance that at least one
// of k further trials passes, for each k from 1 to n: 1 - C(n-c, k)/C(n, k), which is
// unbiased. For k above n there is no such estimate.
func passAtK(c, n int) []float64 {
	curve := allAmong(n-c, n)
	for i, none := range curve {
		curve[i] = 1 - none
	}
	return curve
}

// passHatK estimates likewise the chance that all of k further trials pass:
// C(c, k)/C(n, k).
func passHatK(c, n int) []float64 { return allAmong(c, n) }

// allAmong is, for each k from 1 to n, the chance that k drawn from n without putting
// any back are all among c of them. It multiplies chances, so that no binomial
// coefficient overflows.
func allAmong(c, n int) []float64 {
	chances := make([]float64, n)
	p := 1.0
	for drawn := range n {
		p *= float64(max(c-drawn, 0)) / float64(n-drawn)
		chances[drawn] = p
	}
	return chances
}

// meanCurve is the mean over tasks of curves, as far as the shortest goes.
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

// A task's trials that count.
const (
	Always Consistency = "always" // each passed
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

// ConsistencyCounts is how many tasks are of which consistency.
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
