package report

import (
	"fmt"

	"github.com/waza-isolate/waza/results"
)

// bar is an interval of a share, drawn on a scale of 0 to 100.
type bar struct{ Lower, Width, Mean float64 }

func barOf(i results.Interval) bar {
	scale := func(share float64) float64 { return 100 * min(max(share, 0), 1) }
	return bar{scale(i.Lower), scale(i.Upper) - scale(i.Lower), scale(i.Mean)}
}

// between is an interval of a share in words.
func between(i results.Interval) string {
	return fmt.Sprintf("%.0f\u2013%.0f%%", 100*i.Lower, 100*i.Upper)
}

// within is an interval of a score in words.
func within(i results.Interval) string { return fmt.Sprintf("%.2f\u2013%.2f", i.Lower, i.Upper) }
