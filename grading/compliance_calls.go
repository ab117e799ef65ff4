package grading

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/text"
)

// selection says which of the expected calls were made, and which other calls.
type selection struct {
	match.Result
	mode        match.Mode
	expected    []match.Expected
	calls       []evidence.Call // the calls that Result names by their index
	constrained bool            // arguments are checked
	partial     bool            // the record may lack calls
}

// atBest keeps in sel only what holds no matter which calls are missing from the record. It keeps excess
// calls only if the threshold is 1: for a lower threshold, missing calls may outweigh them.
func (sel *selection) atBest(threshold float64) {
	sel.partial, sel.Missing = true, nil
	sel.Pairs = filter(sel.Pairs, func(p match.Pair) bool { return p.Full() })
	if threshold < 1 {
		sel.TooMuch = nil
	}
}

// selection matches calls, which are in the order of their requests.
func (c *ComplianceConfig) selection(calls []evidence.Call) selection {
	sel := selection{mode: c.mode(), expected: c.expected, calls: calls}
	for _, entry := range c.ExpectToolsUsed {
		sel.constrained = sel.constrained || entry.Args != nil && entry.Args.Match != "ignore"
	}
	if sel.mode == match.InOrder || sel.mode == match.Exact {
		sel.calls = sel.sortParallel(c)
	}
	sel.Result = match.Match(sel.mode, sel.expected, c.given(sel.calls))
	return sel
}

// compile returns the entry for [match.Match]. An entry without a count expects one call. Errors name the key
// within field.
func (e *ExpectedCall) compile(field string) (match.Expected, error) {
	var errs []error
	most, limited := e.most()
	if limited && most < max(e.least(), 1) {
		errs = append(errs, fmt.Errorf("%s.count: at most %d and at least %d; for none at all use reject_tools", field, most, e.least()))
	}
	if err := checkName(e.Tool); err != nil {
		errs = append(errs, fmt.Errorf("%s.tool: %w", field, err))
	}
	for i, other := range e.AnyOf {
		if err := checkName(other.Tool); err != nil {
			errs = append(errs, fmt.Errorf("%s.any_of[%d].tool: %w", field, i, err))
		}
	}
	var args *match.Args
	if e.Args != nil {
		compiled, err := e.Args.Compile()
		args, errs = compiled, append(errs, within(field+".args", err))
	}
	made := match.Once(match.Target{Server: e.Server, Tool: e.Tool, Args: args})
	for _, other := range e.AnyOf {
		made.Targets = append(made.Targets, match.Target{Server: other.Server, Tool: other.Tool, Args: args})
	}
	if e.Count != nil {
		made.Min, made.Max = e.least(), match.Unlimited
	}
	if limited {
		made.Max = most
	}
	return made, errors.Join(errs...)
}

// given returns the calls in the form that [match.Match] takes.
func (c *ComplianceConfig) given(calls []evidence.Call) []match.Call {
	all := make([]match.Call, len(calls))
	for i, call := range calls {
		all[i] = given(call)
		all[i].OK, all[i].Unanswered = c.Errors.succeeded(call), unanswered(call) && c.made(call)
		all[i].Excused = call.Outcome != evidence.OutcomeOK && !all[i].Unanswered
		all[i].ReadOnly = c.readOnly(call)
	}
	return all
}

func given(call evidence.Call) match.Call {
	return match.Call{Server: call.Server, Tool: call.Tool, Arguments: call.Arguments}
}

// made reports whether a call counts for limits, order and writes. A call with the expected outcome counts,
// and so does one that the client gave up, since its answer may have come late. An unanswered call counts
// unless it only reads, since the server may have executed it.
func (c *ComplianceConfig) made(call evidence.Call) bool {
	return c.Errors.succeeded(call) || call.Outcome.GivenUp() || unanswered(call) && !c.readOnly(call)
}

// unanswered reports whether call got neither a result nor an error.
func unanswered(call evidence.Call) bool {
	return call.Outcome.Unanswered() || call.Outcome == evidence.OutcomeProtocolError && len(call.Error) == 0
}

// readOnly reports whether call is known to change nothing. Without a hint from the server, it may change
// something: the default of readOnlyHint is false (2025-06-18 schema, ToolAnnotations).
func (c *ComplianceConfig) readOnly(call evidence.Call) bool {
	return onlyReads(call) ||
		slices.ContainsFunc(c.ReadOnly, func(p match.Tool) bool { return p.Matches(call.Tool) })
}

// sortParallel sorts parallel calls, each of which was sent before any of the others had a
// response, in the order of the expected calls. Parallel calls have no order of their own,
// so the match must not depend on which came first.
func (sel selection) sortParallel(c *ComplianceConfig) []evidence.Call {
	type ranked struct {
		evidence.Call
		turn, rank int
	}
	var order []ranked
	turn, ends := 0, int64(math.MaxInt64)
	for _, call := range sel.calls {
		if call.RequestFrame > ends {
			turn, ends = turn+1, math.MaxInt64
		}
		if call.ResponseFrame > 0 {
			ends = min(ends, call.ResponseFrame)
		}
		order = append(order, ranked{call, turn, math.MaxInt})
	}
	calls := func() []evidence.Call {
		return mapped(order, func(one ranked) evidence.Call { return one.Call })
	}
	slices.SortStableFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool),
			bytes.Compare(a.Arguments, b.Arguments), cmp.Compare(a.Outcome, b.Outcome))
	})
	placed := match.Match(match.Unordered, sel.expected, c.given(calls()))
	for _, pair := range slices.Concat(placed.Pairs, placed.Unsure) {
		order[pair.Call].rank = pair.Expected
	}
	slices.SortStableFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.rank, b.rank))
	})
	return calls()
}

// describe names the tools of an expected call with their servers.
func (sel selection) describe(i int) string {
	var names []string
	for _, target := range sel.expected[i].Targets {
		name := target.Tool.String()
		if target.Server != "" {
			name += " of " + target.Server
		}
		names = append(names, name)
	}
	return strings.Join(names, " or ")
}

// findings describes the missing calls with their nearest match, wrong arguments, and
// excess calls.
func (sel selection) findings() []string {
	var all []string
	for _, missing := range sel.Missing {
		all = append(all, sel.missing(missing).String())
	}
	for _, pair := range sel.Pairs {
		if !pair.Full() {
			call := sel.calls[pair.Call]
			all = append(all, fmt.Sprintf("%s %s (call %d).", strings.Trim(quote(call.Tool), `"`), differences(pair.Fit), call.Seq))
		}
	}
	for _, extra := range sel.TooMuch {
		all = append(all, sel.extra(extra).String())
	}
	return all
}

func (sel selection) missing(m match.Missing) finding {
	f := finding{expected: fmt.Sprintf("a successful call of %s", sel.describe(m.Expected)), got: "there was none."}
	made := filter(sel.Pairs, func(p match.Pair) bool { return p.Expected == m.Expected })
	if m.Count > 1 || len(made) > 0 {
		f.expected = fmt.Sprintf("%d successful calls of %s", m.Count+len(made), sel.describe(m.Expected))
		f.got = fmt.Sprintf("found %d.", len(made))
	}
	if m.Nearest != nil {
		f.got += " Nearest is " + sel.nearest(*m.Nearest) + "."
		f.calls = []int{sel.calls[m.Nearest.Call].Seq}
	}
	taken := filter(sel.Pairs, func(p match.Pair) bool {
		return p.Expected != m.Expected && sel.expected[m.Expected].Names(given(sel.calls[p.Call]))
	})
	switch {
	case len(taken) > 0:
		f.got += " A call stands for one entry: " + listOf(taken, func(p match.Pair) string {
			return fmt.Sprintf("call %d for %s", sel.calls[p.Call].Seq, sel.describe(p.Expected))
		}) + "."
	case len(sel.calls) == 0:
		f.got += " No tool was called at all."
	case m.Nearest == nil:
		f.got += " Called: " + list(distinct(sel.calls, func(call evidence.Call) string { return call.Tool })) + "."
	}
	return f
}

func (sel selection) nearest(n match.Nearest) string {
	call := sel.calls[n.Call]
	text := fmt.Sprintf("call %d (%s of %s), ", call.Seq, quote(call.Tool), call.Server)
	switch n.Why {
	case match.OutOfOrder:
		text += "which is not in its place"
	case match.Failed:
		text += "which ended as " + why(call)
	case match.OtherServer:
		text += "which is of another server"
	default:
		text += "which is a tool of another name"
	}
	if !n.Full() {
		text += "; and its arguments differ: " + differences(n.Fit)
	}
	return text
}

// others describes the calls that are not allowed in addition to the expected ones.
func (sel selection) others() string {
	if sel.mode == match.Effects {
		return "no other call that writes"
	}
	return "no other call"
}

func (sel selection) extra(b match.Unmatched) finding {
	text := "found " + sel.call(b.Call) + "."
	if call := sel.calls[b.Call]; sel.mode == match.Effects && call.ReadOnly == nil {
		text += fmt.Sprintf(" Server %s does not say whether %s only reads; if it does, name it in read_only.", call.Server, quote(call.Tool))
	}
	if unanswered(sel.calls[b.Call]) {
		text += " It has no answer, so it counts as made."
	}
	if b.Expected >= 0 && !b.Full() {
		text += fmt.Sprintf(" It is not the expected one of %s: %s.", sel.describe(b.Expected), differences(b.Fit))
	}
	return finding{sel.others(), text, []int{sel.calls[b.Call].Seq}}
}

func (sel selection) besides(some []match.Unmatched) []evidence.Call {
	return mapped(some, func(one match.Unmatched) evidence.Call { return sel.calls[one.Call] })
}

func (sel selection) call(i int) string { return describeCall(sel.calls[i]) }

// differences lists where arguments are not as expected.
func differences(f match.Fit) string {
	return strings.Join(text.Some(f.Differences, maxShown, match.Difference.String), "; ")
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
	return mapped(f.Differences, func(d match.Difference) any {
		return map[string]any{"path": d.Path, "expected": d.Want, "got": d.Got}
	})
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
