package report

import "github.com/waza-isolate/waza/runner/results"

// bar is an interval of a share, drawn on a scale of 0 to 100.
type bar struct{ Lower, Width, Mean float64 }

func barOf(i results.Interval) bar {
	scale := func(share float64) float64 { return 100 * min(max(share, 0), 1) }
	return bar{scale(i.Lower), scale(i.Upper) - scale(i.Lower), scale(i.Mean)}
}
