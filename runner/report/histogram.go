package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/waza-isolate/waza/runner/results"
)

// Measures of a histogram's picture.
const (
	columnWide   = 46
	columnHigh   = 84.0
	aboveColumns = 16
	belowColumns = 20
)

// histogram is a picture of how long calls took, a column for each bucket.
type histogram struct {
	Columns    []histogramColumn
	Wide, High float64
	Floor      float64 // where columns stand
	ToAt       float64 // where their bounds do
	Said       string  // the same in words
}

type histogramColumn struct {
	Count          int
	To             string // how long its calls took at most, and longer than the one before says
	At, Top, Tall  float64
	Middle, Number float64 // where its words stand
}

func histogramOf(buckets []results.LatencyBucket) histogram {
	h := histogram{Wide: float64(columnWide * len(buckets)), Floor: aboveColumns + columnHigh}
	h.ToAt, h.High = h.Floor+15, h.Floor+belowColumns
	most := 1
	for _, b := range buckets {
		most = max(most, b.Calls)
	}
	var said []string
	for i, b := range buckets {
		c := histogramColumn{Count: b.Calls, To: "more"}
		if b.UpToMS > 0 {
			c.To = bound(b.UpToMS)
		}
		c.Tall = columnHigh * float64(b.Calls) / float64(most)
		c.At, c.Top = float64(columnWide*i+4), h.Floor-c.Tall
		c.Middle, c.Number = float64(columnWide*i+columnWide/2), c.Top-4
		h.Columns = append(h.Columns, c)
		if b.Calls > 0 {
			said = append(said, fmt.Sprintf("%d took up to %s", b.Calls, c.To))
		}
	}
	h.Said = strings.Join(said, ", ")
	return h
}

// bound is a bucket's bound in short.
func bound(ms float64) string {
	if d := time.Duration(ms * float64(time.Millisecond)); d >= time.Second {
		return fmt.Sprintf("%g s", d.Seconds())
	}
	return fmt.Sprintf("%g ms", ms)
}
