package grading

import (
	"slices"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// detailCalls is the key of a verdict's details that has the numbers of the captured
// calls which its feedback is about, in order, at most [maxListed]. Reports lead there.
const detailCalls = "about_calls"

// mention is calls as a sentence tells of them.
type mention struct {
	text  string
	calls []int
}

func (m mention) String() string { return m.text }

// about notes the calls that a sentence mentions in its arguments.
func (r *report) about(args []any) {
	for _, arg := range args {
		if m, ok := arg.(mention); ok {
			r.calls = append(r.calls, m.calls...)
		}
	}
}

// described are the details with the calls that the report is about.
func (r *report) described() map[string]any {
	if len(r.calls) == 0 {
		return r.details
	}
	slices.Sort(r.calls)
	calls := slices.Compact(r.calls)
	if r.details == nil {
		r.details = map[string]any{}
	}
	r.details[detailCalls] = calls[:min(len(calls), maxListed)]
	return r.details
}

// captured are the numbers of uses that were captured.
func captured(uses []capture.Use) (calls []int) {
	for _, use := range uses {
		if use.Call != nil {
			calls = append(calls, use.Call.Seq)
		}
	}
	return calls
}

// aboutCompliance are the calls by which gates do not hold, and those that take from the
// score.
func (r *report) aboutCompliance(gates []gate, sel selection, failed failures) {
	for _, g := range gates {
		r.calls = append(r.calls, numbers(g.calls)...)
	}
	for _, calls := range [][]evidence.Call{failed.counted, sel.besides(sel.TooMuch)} {
		r.calls = append(r.calls, numbers(calls)...)
	}
	for _, m := range sel.Missing {
		if m.Nearest != nil {
			r.calls = append(r.calls, sel.calls[m.Nearest.Call].Seq)
		}
	}
	for _, pair := range sel.Pairs {
		if len(pair.Differences) > 0 {
			r.calls = append(r.calls, sel.calls[pair.Call].Seq)
		}
	}
}
