package capture

import (
	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/runner/evidence"
)

// sameCall is what makes calls indistinguishable to a transcript.
type sameCall struct {
	tool      evidence.ToolRef
	arguments string
}

// places says of each call where the transcript tells of it: the telling's number, or
// 0. Calls alike are told in their order, and only if exactly as many tellings say them
// and none of these may be about another call: otherwise which is whose would be a
// guess.
func (p *pairing) places() []int {
	alike := map[sameCall][]int{}
	for i, call := range p.calls {
		if form := p.input[i]; form != "" {
			key := sameCall{evidence.ToolRef{Server: call.Server, Tool: call.Tool}, form}
			alike[key] = append(alike[key], i)
		}
	}
	told, unclear := map[sameCall][]int{}, map[sameCall]bool{}
	for i, t := range p.told {
		form, ok := "{}", true
		if input := t.input(); len(input) > 0 {
			form, ok = jsonvalue.Canonical(input)
		}
		if !ok {
			continue
		}
		for _, ref := range t.means.Tools {
			key := sameCall{ref, form}
			told[key] = append(told[key], i+1)
			unclear[key] = unclear[key] || t.means.Kind != NameTool
		}
	}
	places := make([]int, len(p.calls))
	for key, calls := range alike {
		if unclear[key] || len(told[key]) != len(calls) {
			continue
		}
		for n, i := range calls {
			places[i] = told[key][n]
		}
	}
	return places
}
