package grading

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
)

// Results of a check.
const (
	checkPass = "pass"
	checkWarn = "warn"
	checkFail = "fail"
)

// finding is a sentence about what was expected and what was found.
type finding struct {
	expected string // empty if got is a complete sentence
	got      string // with its full stop
	calls    []int  // numbers of calls
}

func (f finding) String() string {
	if f.expected == "" {
		return f.got
	}
	return "Expected " + f.expected + "; " + f.got
}

// findingf returns the finding for a sentence in the form that [report.check] takes.
func findingf(format string, args ...any) finding {
	expected, got, two := strings.Cut(strings.TrimPrefix(format, "Expected "), "; ")
	if !two {
		return finding{got: fmt.Sprintf(format, args...), calls: mentioned(args)}
	}
	n := strings.Count(expected, "%")
	return finding{expected: fmt.Sprintf(expected, args[:n]...), got: fmt.Sprintf(got, args[n:]...), calls: mentioned(args)}
}

// list adds a check to the details, by its key in the config.
func (r *report) list(key, result string, f finding) {
	r.listed = append(r.listed, evidence.Check{Key: key, Result: result, Expected: f.expected, Got: f.got, Calls: f.calls})
}

// maxChecks is the maximum number of checks in a verdict's details.
const maxChecks = 100

func failedFirst(all []evidence.Check) []evidence.Check {
	order := []string{checkFail, checkWarn, checkPass}
	slices.SortStableFunc(all, func(a, b evidence.Check) int {
		return cmp.Compare(slices.Index(order, a.Result), slices.Index(order, b.Result))
	})
	return all[:min(len(all), maxChecks)]
}

func (r *report) listSelection(c *ComplianceConfig, sel selection) {
	if !c.selects() {
		return
	}
	for i := range sel.expected {
		if sel.partial {
			break
		}
		result, f := sel.check(i)
		r.list("expect_tools_used", result, f)
	}
	for _, extra := range sel.TooMuch {
		r.list("match", checkFail, sel.extra(extra))
	}
	if len(sel.TooMuch) == 0 && sel.mode.Bounds() {
		r.list("match", checkPass, finding{expected: sel.others()})
	}
}

func (r *report) listErrors(c *ComplianceConfig, failed failures) {
	if c.MaxToolErrors == nil {
		return
	}
	result, f := checkPass, failed.finding(*c.MaxToolErrors)
	switch {
	case len(failed.counted) == 0:
		f.got = "none did."
	case len(failed.counted) > *c.MaxToolErrors:
		result = checkFail
	}
	r.list("max_tool_errors", result, f)
}

// check reports whether an expected call was made with the expected arguments.
func (sel selection) check(expected int) (result string, f finding) {
	made := filter(sel.Pairs, func(p match.Pair) bool { return p.Expected == expected })
	if i := slices.IndexFunc(sel.Missing, func(m match.Missing) bool { return m.Expected == expected }); i >= 0 {
		return checkFail, sel.missing(sel.Missing[i])
	}
	result, f = checkPass, finding{expected: "a successful call of " + sel.describe(expected), got: "there was none, which may be."}
	if len(made) > 0 {
		f.got = "found " + listOf(made, func(p match.Pair) string {
			f.calls = append(f.calls, sel.calls[p.Call].Seq)
			if p.Full() {
				return sel.call(p.Call)
			}
			result = checkFail
			return sel.call(p.Call) + " with other arguments: " + differences(p.Fit)
		}) + "."
	}
	return result, f
}
