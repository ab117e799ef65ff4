package results

import (
	"slices"
	"time"
)

// LatencyBucket counts timed calls that took at most so long, and longer than the bucket
// before it says.
type LatencyBucket struct {
	UpToMS float64 `json:"up_to_ms"` // 0 in the last, which has no bound
	Calls  int     `json:"calls"`
}

// latencyBounds are those of buckets: 1, 2 and 5 of each power of ten, from 0.1 ms to
// 100 s.
func latencyBounds() (bounds []time.Duration) {
	for unit := 100 * time.Microsecond; unit < 100*time.Second; unit *= 10 {
		bounds = append(bounds, unit, 2*unit, 5*unit)
	}
	return append(bounds, 100*time.Second)
}

// histogram counts sorted times by how long they are, from the first bucket with one to
// the last.
func histogram(sorted []time.Duration) (buckets []LatencyBucket) {
	if len(sorted) == 0 {
		return nil
	}
	left := sorted
	for _, bound := range latencyBounds() {
		n, _ := slices.BinarySearch(left, bound+1)
		if n > 0 || buckets != nil {
			buckets = append(buckets, LatencyBucket{*inMilliseconds(bound), n})
		}
		if left = left[n:]; len(left) == 0 {
			return buckets
		}
	}
	return append(buckets, LatencyBucket{Calls: len(left)})
}

func sorted(times []time.Duration) []time.Duration { return slices.Sorted(slices.Values(times)) }
