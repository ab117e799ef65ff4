package stub

import (
	"slices"

	"github.com/waza-isolate/waza/model/dialect"
)

// told is what a tool answered.
type told struct {
	item int // of the conversation
	mark mark
	text string // as its server said it
}

// toldIn are the results of the script's own calls, where results tell whose they are.
func toldIn(items []dialect.Item) []told {
	var all []told
	for i, item := range items {
		for _, result := range item.Results {
			if m, ours := readMark(result.ID); ours || result.ID == "" {
				all = append(all, told{i, m, unwrapped(result.Text)})
			}
		}
	}
	return all
}

// results are what tools answered before an item, in the order of their calls: agents
// give those of calls made at once as they come.
func (r *request) results(before int) []string {
	end, _ := slices.BinarySearchFunc(r.told, before, func(t told, item int) int { return t.item - item })
	all := slices.Clone(r.told[:end])
	slices.SortStableFunc(all, func(a, b told) int { return a.mark.compare(b.mark) })
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = one.text
	}
	return texts
}
