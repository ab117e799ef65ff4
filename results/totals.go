package results

import (
	"slices"
	"time"
)

// Totals are what the trials of a task took in all.
type Totals struct {
	MCPCalls int
	Time     time.Duration // of agents
	Models   *Models       // nil where no gateway was in the way
}

// Totals are of all trials, also of those that ended as infra.
func (t Task) Totals() (all Totals) {
	for _, r := range t.Runs {
		all.MCPCalls += r.SessionDigest.MCPToolCalls
		all.Time += time.Duration(r.DurationMS) * time.Millisecond
		all.Models = all.Models.plus(r.Models)
	}
	return all
}

// MedianDurationMS is the median of agents' times, of the tasks' trials that count; nil
// without any.
func MedianDurationMS(tasks ...Task) *float64 {
	var took []time.Duration
	for _, t := range tasks {
		for _, r := range counted(t.Runs) {
			took = append(took, time.Duration(r.DurationMS)*time.Millisecond)
		}
	}
	slices.Sort(took)
	return median(took)
}
