package inspection

import (
	"slices"

	"github.com/waza-isolate/waza/mcp/catalog"
	"github.com/waza-isolate/waza/mcp/finding"
)

// Mark marks places in what each server says. What names a tool of another server that
// was looked at beside it is one.
func (r *Report) Mark() {
	for i := range r.Servers {
		var others []string
		for j, other := range r.Servers {
			if j != i {
				others = append(others, other.tools()...)
			}
		}
		r.Servers[i].Marks = finding.Offer(r.Servers[i].Offer, others)
	}
}

// tools are the names of the tools that a server lists.
func (s Server) tools() (names []string) {
	for _, l := range s.Offer.Lists {
		if l.Kind == catalog.Tools {
			for _, e := range l.Entries {
				names = append(names, e.Key)
			}
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
