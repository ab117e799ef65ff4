package capture

import "github.com/waza-isolate/waza/evidence"

// sameCall is what makes calls indistinguishable to a transcript.
type sameCall struct {
	tool      evidence.ToolRef
	arguments string
}

// places says of each call where the transcript tells of it: the telling's number, or
// 0. Calls alike are told in their order, and only if exactly as many tellings say them
// and none of these may be about another call: otherwise which is whose would be a
// guess.
func (p *Pairing) places() []int {
	alike := map[sameCall][]int{}
	for i, form := range p.input {
		if form != "" {
			key := sameCall{evidence.ToolRef{Server: p.calls[i].Server, Tool: p.calls[i].Tool}, form}
			alike[key] = append(alike[key], i)
		}
	}
	told, unclear := map[sameCall][]int{}, map[sameCall]bool{}
	for i, t := range p.told {
		form := t.form
		if len(t.input()) == 0 {
			form = "{}"
		}
		if form == "" {
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
