package dialect

import "math"

// Total is all tokens of a call, read and written.
func (u Usage) Total() int64 { return sum(u.Input, u.Output) }

// Plus is the tokens of two calls.
func (u Usage) Plus(other Usage) Usage {
	return Usage{
		Input:       sum(u.Input, other.Input),
		Output:      sum(u.Output, other.Output),
		Cached:      sum(u.Cached, other.Cached),
		CacheWrites: sum(u.CacheWrites, other.CacheWrites),
		Reasoning:   sum(u.Reasoning, other.Reasoning),
	}
}

// counted is what a provider told, with no count below 0 and no part above its whole.
func counted(u Usage) *Usage {
	u.Input, u.Output = atLeast0(u.Input), atLeast0(u.Output)
	u.Cached = min(atLeast0(u.Cached), u.Input)
	u.CacheWrites = min(atLeast0(u.CacheWrites), u.Input-u.Cached)
	u.Reasoning = min(atLeast0(u.Reasoning), u.Output)
	return &u
}

func atLeast0(n int64) int64 { return max(n, 0) }

// sum adds counts that are not negative, and stays at the largest number.
func sum(counts ...int64) int64 {
	total := int64(0)
	for _, n := range counts {
		if n > math.MaxInt64-total {
			return math.MaxInt64
		}
		total += n
	}
	return total
}
