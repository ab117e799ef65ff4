package results

import (
	"maps"
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// What an mcp_compliance verdict tells of parts of its score: its details have a map of
// these, each with a score from 0 to 1 and its weight.
const (
	detailParts   = "parts"
	partSelection = "selection"
	partParams    = "params"
)

// parts are, of the runs that have it, the mean of a part over the run's verdicts. A
// verdict that could not be reached has none.
func parts(runs []RunResult, name string) (values []float64) {
	for _, r := range runs {
		var own []float64
		for _, grader := range slices.Sorted(maps.Keys(r.Validations)) {
			v := r.Validations[grader]
			if value, ok := part(v, name); ok && v.Type == "mcp_compliance" && v.Result != evidence.VerdictError {
				own = append(own, value)
			}
		}
		if len(own) > 0 {
			values = append(values, mean(own))
		}
	}
	return values
}

// part reads a part as a verdict's file has it.
func part(v Validation, name string) (float64, bool) {
	all, _ := v.Details[detailParts].(map[string]any)
	one, _ := all[name].(map[string]any)
	score, ok := one["score"].(float64)
	return score, ok && score >= 0 && score <= 1
}
