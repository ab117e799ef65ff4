package grading

import (
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
)

// details is what the verdict rests on, for reports: calls by their numbers, entries of
// expect_tools_used by their places, from 0.
func (c *ComplianceConfig) details(calls []evidence.Call, sel selection, failed failures, gates []gate) map[string]any {
	details := map[string]any{"calls": len(calls), "errors": errorDetails(failed)}
	if len(gates) > 0 {
		details["gates"] = gateDetails(gates)
	}
	parts := map[string]any{}
	for _, p := range c.parts(sel, failed) {
		parts[p.name] = map[string]any{"score": p.score, "weight": p.weight}
	}
	if len(parts) > 0 {
		details["parts"] = parts
	}
	if c.selects() {
		details["match"] = sel.mode
		details["matched"] = sel.matchedDetails()
		details["missing"] = sel.missingDetails()
		details["extras"] = numbers(sel.besides(sel.TooMuch))
	}
	return details
}

func errorDetails(f failures) map[string]any {
	made := []any{}
	for _, one := range f.recovered {
		made = append(made, map[string]any{"call": one.failed.Seq, "by": one.by.Seq})
	}
	return map[string]any{
		"counted": numbers(f.counted), "expected": numbers(f.expected), "recovered": made, "soft": numbers(f.soft),
	}
}

func gateDetails(gates []gate) map[string]any {
	all := map[string]any{}
	for _, g := range gates {
		result := "pass"
		switch {
		case len(g.texts) > 0 && g.warns:
			result = "warn"
		case len(g.texts) > 0:
			result = "fail"
		}
		all[g.name] = map[string]any{"result": result, "calls": numbers(g.calls)}
	}
	return all
}

func (sel selection) matchedDetails() []any {
	all := []any{}
	for _, pair := range sel.Pairs {
		one := map[string]any{"expected": pair.Expected, "call": sel.calls[pair.Call].Seq}
		if pair.Total > 0 {
			one["satisfied"], one["constraints"] = pair.Satisfied, pair.Total
		}
		if len(pair.Differences) > 0 {
			one["differences"] = differenceDetails(pair.Fit)
		}
		all = append(all, one)
	}
	return all
}

func differenceDetails(f match.Fit) []any {
	var all []any
	for _, d := range f.Differences {
		all = append(all, map[string]any{"path": d.Path, "expected": d.Want, "got": d.Got})
	}
	return all
}

func (sel selection) missingDetails() []any {
	all := []any{}
	for _, m := range sel.Missing {
		one := map[string]any{"expected": m.Expected, "count": m.Count}
		if m.Nearest != nil {
			one["nearest"] = sel.calls[m.Nearest.Call].Seq
		}
		all = append(all, one)
	}
	return all
}
