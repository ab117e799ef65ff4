package results

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestEstimateByHand(t *testing.T) {
	for _, test := range []struct {
		name               string
		byTask             [][]float64
		mean, lower, upper float64
		trials, tasks      int
	}{
		// The tasks' sums of deviations from the mean 0.75 are 0, -0.5 and 0.5, so that the
		// standard error is √(3/2 · 0.5) / 6 = 0.14434; t with 2 degrees is 4.30265.
		{"three tasks of two trials", [][]float64{{1, .5}, {.5, .5}, {1, 1}}, .75, .128964, 1, 6, 3},
		// Sums of deviations from 0.5 are -0.5, 0.5, -0.3 and 0.3: √(4/3 · 0.68) / 8 = 0.11902; t is 3.18245.
		{"four tasks", [][]float64{{.2, .3}, {.7, .8}, {.3, .4}, {.6, .7}}, .5, .121213, .878787, 8, 4},
		// Off the mean 0.6: 0.4·3 and -0.6·2; √(2 · 2.88) / 5 = 0.48; t is 12.7062.
		{"two tasks of other sizes", [][]float64{{1, 1, 1}, {0, 0}}, .6, 0, 1, 5, 2},
		// One task: its trials are the sample. s = 0.1, n = 4, t with 3 degrees 3.18245.
		{"one task", [][]float64{{.4, .6, .5, .5}}, .5, .5 - 3.182446*math.Sqrt(.02/3)/2, .5 + 3.182446*math.Sqrt(.02/3)/2, 4, 1},
		{"tasks without a value are none", [][]float64{nil, {.4, .6, .5, .5}, nil}, .5, .5 - 3.182446*math.Sqrt(.02/3)/2, .5 + 3.182446*math.Sqrt(.02/3)/2, 4, 1},
		// Without spread, Wilson's: 3 of 3, 1 of 1.
		{"three tasks alike", [][]float64{{1, 1}, {1, 1}, {1, 1}}, 1, .438503, 1, 6, 3},
		{"one trial", [][]float64{{1}}, 1, .206549, 1, 1, 1},
		{"one trial, in part", [][]float64{{.5}}, .5, .054620, .945380, 1, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := estimate(test.byTask)
			if got == nil || got.Trials != test.trials || got.Tasks != test.tasks {
				t.Fatalf("%+v", got)
			}
			for _, v := range [][2]float64{{got.Mean, test.mean}, {got.Lower, test.lower}, {got.Upper, test.upper}} {
				if math.Abs(v[0]-v[1]) > 1e-5 {
					t.Errorf("%+v; want %v [%v, %v]", got, test.mean, test.lower, test.upper)
				}
			}
		})
	}
	if got := estimate([][]float64{nil, {}}); got != nil {
		t.Errorf("of nothing: %+v", got)
	}
}

// An interval contains its mean, is within 0 and 1, and does not depend on the order of tasks.
func TestIntervalProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 1), 0, 6)
		byTask := rapid.SliceOfN(values, 1, 8).Draw(t, "scores by task")
		got := estimate(byTask)
		if got == nil {
			return
		}
		const rounding = 1e-12
		if got.Lower < 0 || got.Upper > 1 || got.Lower > got.Mean+rounding || got.Upper < got.Mean-rounding || got.Lower >= got.Upper {
			t.Fatalf("%+v", got)
		}
		again := estimate(rapid.Permutation(byTask).Draw(t, "in another order"))
		if !near(got.Mean, again.Mean) || !near(got.Lower, again.Lower) || !near(got.Upper, again.Upper) {
			t.Fatalf("%+v, in another order %+v", got, again)
		}
	})
}

func TestWilsonProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 2000).Draw(t, "n")
		c := rapid.IntRange(0, n-1).Draw(t, "c")
		ci, better, surer := wilson(c, n), wilson(c+1, n), wilson(2*c, 2*n)
		switch {
		case ci.Lower > ci.Mean || ci.Upper < ci.Mean || ci.Lower < 0 || ci.Upper > 1:
			t.Fatalf("%+v", ci)
		case better.Lower < ci.Lower || better.Upper < ci.Upper:
			t.Fatalf("%d of %d: %+v; one more: %+v", c, n, ci, better)
		case surer.Upper-surer.Lower > ci.Upper-ci.Lower:
			t.Fatalf("%d of %d: %+v; twice as many: %+v", c, n, ci, surer)
		}
	})
}
