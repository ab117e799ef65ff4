package conversation

import (
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// Mentions are the numbers of the calls that a verdict's details speak of, in their order.
func Mentions(v evidence.Verdict) []int {
	var found []int
	mentions(v.Details, &found)
	slices.Sort(found)
	return slices.Compact(found)
}

// mentions adds the numbers that stand in details where graders put those of calls.
func mentions(details any, found *[]int) {
	switch value := details.(type) {
	case map[string]any:
		for key, inner := range value {
			if number, ok := inner.(float64); ok && slices.Contains([]string{"call", "by", "nearest"}, key) {
				*found = append(*found, int(number))
			} else if slices.Contains([]string{"calls", "extras", "counted", "expected", "soft"}, key) {
				*found = append(*found, numbers(inner)...)
			}
			mentions(inner, found)
		}
	case []any:
		for _, inner := range value {
			mentions(inner, found)
		}
	}
}

// numbers are those of a list.
func numbers(value any) (all []int) {
	list, _ := value.([]any)
	for _, one := range list {
		if number, ok := one.(float64); ok {
			all = append(all, int(number))
		}
	}
	return all
}
