package grading

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/text"
)

// selection is which of the expected calls were made, and which others.
type selection struct {
	match.Result
	mode        match.Mode
	expected    []match.Expected
	calls       []evidence.Call // that Result counts from 0
	constrained bool            // something is expected of arguments
}

// selection matches calls, which are in the order of their requests.
func (c *ComplianceConfig) selection(calls []evidence.Call) (selection, error) {
	sel := selection{mode: c.mode()}
	for i := range c.ExpectToolsUsed {
		entry := &c.ExpectToolsUsed[i]
		expected, err := entry.compile()
		if err != nil {
			return selection{}, fmt.Errorf("expect_tools_used[%d].%w", i, err)
		}
		sel.expected = append(sel.expected, expected)
		sel.constrained = sel.constrained || entry.Args != nil && entry.Args.Match != "ignore"
	}
	sel.calls = calls
	if sel.mode == match.InOrder || sel.mode == match.Exact {
		sel.calls = sel.inTurns(c)
	}
	sel.Result = match.Match(sel.mode, sel.expected, c.given(sel.calls))
	return sel, nil
}

// compile makes of an entry what is matched. Without a count it is one call.
func (e *ExpectedCall) compile() (match.Expected, error) {
	var args *match.Args
	if e.Args != nil {
		var err error
		if args, err = e.Args.Compile(); err != nil {
			return match.Expected{}, fmt.Errorf("args.%w", err)
		}
	}
	made := match.Once(match.Target{Server: e.Server, Tool: e.Tool, Args: args})
	for _, other := range e.AnyOf {
		made.Targets = append(made.Targets, match.Target{Server: other.Server, Tool: other.Tool, Args: args})
	}
	if e.Count != nil {
		made.Min, made.Max = e.least(), match.Unlimited
	}
	if most, said := e.most(); said {
		made.Max = most
	}
	return made, nil
}

// given is calls as they are matched.
func (c *ComplianceConfig) given(calls []evidence.Call) []match.Call {
	all := make([]match.Call, len(calls))
	for i, call := range calls {
		all[i] = given(call)
		all[i].OK, all[i].GivenUp = c.Errors.succeeded(call), givenUp(call)
		all[i].Excused = call.Outcome != evidence.OutcomeOK && !all[i].GivenUp
		all[i].ReadOnly = c.readOnly(call)
	}
	return all
}

func given(call evidence.Call) match.Call {
	return match.Call{Server: call.Server, Tool: call.Tool, Arguments: call.Arguments}
}

// readOnly reports whether call is known to change nothing. Where its server gives no hint
// it may: the default of readOnlyHint is false (2025-06-18 schema, ToolAnnotations).
func (c *ComplianceConfig) readOnly(call evidence.Call) bool {
	return call.ReadOnly != nil && *call.ReadOnly ||
		slices.ContainsFunc(c.ReadOnly, func(p match.Tool) bool { return p.Matches(call.Tool) })
}

// inTurns puts calls that were made at once, each before any of them had ended, in the
// order in which they are expected: they have none of their own. So where several do, what
// the calls are decides, and not which came first.
func (sel selection) inTurns(c *ComplianceConfig) []evidence.Call {
	type placed struct {
		evidence.Call
		turn, rank int
	}
	var order []placed
	turn, ends := 0, int64(math.MaxInt64)
	for _, call := range sel.calls {
		if call.RequestFrame > ends {
			turn, ends = turn+1, math.MaxInt64
		}
		if call.ResponseFrame > 0 {
			ends = min(ends, call.ResponseFrame)
		}
		order = append(order, placed{call, turn, math.MaxInt})
	}
	calls := func() []evidence.Call {
		var all []evidence.Call
		for _, one := range order {
			all = append(all, one.Call)
		}
		return all
	}
	slices.SortStableFunc(order, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Tool, b.Tool),
			bytes.Compare(a.Arguments, b.Arguments), cmp.Compare(a.Outcome, b.Outcome))
	})
	for _, pair := range match.Match(match.Superset, sel.expected, c.given(calls())).Pairs {
		order[pair.Call].rank = pair.Expected
	}
	slices.SortStableFunc(order, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.rank, b.rank))
	})
	return calls()
}

// bounded reports whether an entry says how many calls are too many.
func (c *ComplianceConfig) bounded() bool {
	return slices.ContainsFunc(c.ExpectToolsUsed, func(e ExpectedCall) bool { _, said := e.most(); return said })
}

// counts holds that no more calls than an entry allows do what it expects.
func (c *ComplianceConfig) counts(sel selection) gate {
	g := gate{name: gateCount}
	for i := range c.ExpectToolsUsed {
		most, said := c.ExpectToolsUsed[i].most()
		if !said {
			continue
		}
		found := filter(sel.calls, func(call evidence.Call) bool {
			return c.Errors.made(call) && sel.expected[i].Takes(given(call))
		})
		if len(found) > most {
			g.add(found, "Expected at most %s of %s; found %d: %s.", text.Count(most, "call"), sel.describe(i), len(found), describeCalls(found))
		}
	}
	return g
}

// describe names what is expected: tools with their servers.
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

// findings say what of the expected calls is missing, what came nearest, which
// arguments are not as expected, and which calls are too many.
func (sel selection) findings() []string {
	var all []string
	for _, missing := range sel.Missing {
		all = append(all, sel.missing(missing))
	}
	for _, pair := range sel.Pairs {
		if !pair.Full() {
			all = append(all, fmt.Sprintf("Expected other arguments of %s, which stands for %s: %s.",
				sel.call(pair.Call), sel.describe(pair.Expected), differences(pair.Fit)))
		}
	}
	for _, extra := range sel.TooMuch {
		all = append(all, sel.extra(extra))
	}
	return all
}

func (sel selection) missing(m match.Missing) string {
	text := fmt.Sprintf("Expected a successful call of %s; there was none.", sel.describe(m.Expected))
	made := len(filter(sel.Pairs, func(p match.Pair) bool { return p.Expected == m.Expected }))
	if m.Count > 1 || made > 0 {
		text = fmt.Sprintf("Expected %d successful calls of %s; found %d.", m.Count+made, sel.describe(m.Expected), made)
	}
	if m.Nearest != nil {
		text += " Nearest is " + sel.nearest(*m.Nearest) + "."
	}
	taken := filter(sel.Pairs, func(p match.Pair) bool {
		return p.Expected != m.Expected && sel.expected[m.Expected].Names(given(sel.calls[p.Call]))
	})
	switch {
	case len(taken) > 0:
		text += " A call stands for one entry: " + listOf(taken, func(p match.Pair) string {
			return fmt.Sprintf("call %d for %s", sel.calls[p.Call].Seq, sel.describe(p.Expected))
		}) + "."
	case len(sel.calls) == 0:
		text += " No tool was called at all."
	case m.Nearest == nil:
		text += " Called: " + list(sel.tools()) + "."
	}
	return text
}

// tools lists those that were called, each once.
func (sel selection) tools() []string {
	var names []string
	for _, call := range sel.calls {
		names = append(names, call.Tool)
	}
	slices.Sort(names)
	return slices.Compact(names)
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

func (sel selection) extra(b match.Beside) string {
	allowed := "no other call"
	if sel.mode == match.Effects {
		allowed = "no other call that writes"
	}
	text := fmt.Sprintf("Expected %s; found %s.", allowed, sel.call(b.Call))
	if call := sel.calls[b.Call]; sel.mode == match.Effects && call.ReadOnly == nil {
		text += fmt.Sprintf(" Server %s does not say whether %s only reads; if it does, name it in read_only.", call.Server, quote(call.Tool))
	}
	if b.Expected >= 0 && !b.Full() {
		text += fmt.Sprintf(" It is not the expected one of %s: %s.", sel.describe(b.Expected), differences(b.Fit))
	}
	return text
}

// warnings lists calls that may or may not have changed something.
func (sel selection) warnings(readOnly func(evidence.Call) bool) []string {
	if sel.mode != match.Effects {
		return nil
	}
	var all []string
	lost := filter(sel.calls, func(call evidence.Call) bool { return unsure(call) && !readOnly(call) })
	if len(lost) > 0 {
		all = append(all, fmt.Sprintf("Calls that may have changed something without an answer: %s.", describeCalls(lost)))
	}
	return all
}

// unsure reports whether a call may have had its effect although it did not succeed.
func unsure(call evidence.Call) bool {
	return slices.Contains([]evidence.Outcome{evidence.OutcomeTimeout, evidence.OutcomeTransportError}, call.Outcome)
}

func (sel selection) besides(some []match.Beside) []evidence.Call {
	var calls []evidence.Call
	for _, one := range some {
		calls = append(calls, sel.calls[one.Call])
	}
	return calls
}

func (sel selection) call(i int) string { return describeCall(sel.calls[i]) }

// differences lists where arguments are not as expected.
func differences(f match.Fit) string {
	return listOf(f.Differences, match.Difference.String)
}

// Names of the gates, as details and documentation have them.
const (
	gateRejected   = "reject_tools"
	gateCount      = "count"
	gateBefore     = "before"
	gateDuplicates = "max_duplicate_calls"
	gateValid      = "schema.min_valid"
	gateUnknown    = "schema.max_unknown_tools"
)

// gate is a condition that fails a trial whatever its score.
type gate struct {
	name  string
	warns bool            // it does not fail, and only warns
	texts []string        // why it does not hold; empty where it does
	calls []evidence.Call // by which it does not
}

func (g *gate) add(calls []evidence.Call, format string, args ...any) {
	g.texts = append(g.texts, fmt.Sprintf(format, args...))
	g.calls = append(g.calls, calls...)
}

// gates runs those that c configures over calls.
func (c *ComplianceConfig) gates(s *subject, sel selection, calls []evidence.Call) ([]gate, error) {
	var gates []gate
	for _, one := range []struct {
		configured bool
		run        func() (gate, error)
	}{
		{len(c.RejectTools) > 0, func() (gate, error) { return c.rejected(calls), nil }},
		{c.bounded(), func() (gate, error) { return c.counts(sel), nil }},
		{len(c.Before) > 0, func() (gate, error) { return c.order(calls), nil }},
		{c.MaxDuplicateCalls != nil, func() (gate, error) { return c.duplicates(calls), nil }},
		{c.Wire != nil && says(c.Wire.UnbackedClaims), func() (gate, error) { return c.Wire.claims(s, c.scope()) }},
		{c.Wire != nil && says(c.Wire.UnreportedCalls), func() (gate, error) { return c.Wire.reported(s, calls) }},
		{c.Schema != nil && c.Schema.MinValid != nil, func() (gate, error) { return c.Schema.valid(calls) }},
		{c.Schema != nil && c.Schema.MaxUnknownTools != nil, func() (gate, error) { return c.Schema.unknown(calls) }},
		{c.Resources.checks(), func() (gate, error) { return c.Resources.reads(gateResources, c.reads(s, capture.ReadResource)), nil }},
		{c.Prompts.checks(), func() (gate, error) { return c.Prompts.reads(gatePrompts, c.reads(s, capture.ReadPrompt)), nil }},
		{c.RugPull == failIt, func() (gate, error) { return c.rugPulled(s), nil }},
	} {
		if !one.configured {
			continue
		}
		g, err := one.run()
		if err != nil {
			return nil, err
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// says reports whether a finding fails or warns.
func says(what string) bool { return what == failIt || what == warnOf }

func (c *ComplianceConfig) rejected(calls []evidence.Call) gate {
	g := gate{name: gateRejected}
	for _, tool := range c.RejectTools {
		if found := filter(calls, func(call evidence.Call) bool { return tool.Matches(call.Tool) }); len(found) > 0 {
			g.add(found, "Expected no call of %s; found %s.", tool, describeCalls(found))
		}
	}
	return g
}

// order holds each list of before: a call that succeeded had a success of the tool
// before it in the list, which had ended when it was made.
func (c *ComplianceConfig) order(calls []evidence.Call) gate {
	g := gate{name: gateBefore}
	done := filter(calls, c.Errors.succeeded)
	for _, chain := range c.Before {
		for i, second := range chain[1:] {
			first := chain[i]
			earlier := filter(done, func(call evidence.Call) bool { return first.Matches(call.Tool) })
			early := filter(filter(calls, c.Errors.made), func(call evidence.Call) bool {
				return second.Matches(call.Tool) &&
					!slices.ContainsFunc(earlier, func(before evidence.Call) bool { return before.Seq != call.Seq && follows(call, before) })
			})
			if len(early) == 0 {
				continue
			}
			came := "never succeeded"
			if len(earlier) > 0 {
				came = "succeeded first with " + describeCall(earlier[0])
			}
			g.add(early, "Expected %s to succeed before %s is called; found %s, while %s %s.", first, second, describeCalls(early), first, came)
		}
	}
	return g
}

// duplicates counts calls that repeat one which succeeded. To try again what failed
// is no repetition.
func (c *ComplianceConfig) duplicates(calls []evidence.Call) gate {
	g := gate{name: gateDuplicates}
	done := map[int]bool{} // by the first of those that are the same
	repeats := filter(calls, func(call evidence.Call) bool {
		first := call.SameAs
		if first == 0 {
			first = call.Seq
		}
		again := done[first]
		done[first] = again || c.Errors.made(call)
		return again
	})
	if len(repeats) > *c.MaxDuplicateCalls {
		g.add(repeats, "Expected at most %d calls to repeat an earlier one; found %d: %s.",
			*c.MaxDuplicateCalls, len(repeats), describeRepeats(repeats))
	}
	return g
}

func describeRepeats(calls []evidence.Call) string {
	return listOf(calls, func(call evidence.Call) string {
		return fmt.Sprintf("call %d (as call %d: %s of %s)", call.Seq, call.SameAs, quote(call.Tool), call.Server)
	})
}

// valid holds the share of calls whose arguments fit the schema of their tool. A tool
// that its server did not list has none, and is the other gate's.
func (r *SchemaRules) valid(calls []evidence.Call) (gate, error) {
	g := gate{name: gateValid}
	if err := listed(calls); err != nil {
		return g, err
	}
	known := filter(calls, func(call evidence.Call) bool { return *call.Known })
	for _, call := range known {
		if call.Valid == nil {
			return g, fmt.Errorf("%w: the input schema of %s of %s cannot be read", errEvidence, quote(call.Tool), call.Server)
		}
	}
	invalid := filter(known, func(call evidence.Call) bool { return !*call.Valid })
	if share := float64(len(known)-len(invalid)) / float64(max(len(known), 1)); len(invalid) > 0 && share < *r.MinValid {
		g.add(invalid, "Expected the arguments of %s of calls to fit their tools' schemas; of %d do %d. Not those of %s.",
			percent(*r.MinValid), len(known), len(known)-len(invalid), listOf(invalid, describeInvalid))
	}
	return g, nil
}

func describeInvalid(call evidence.Call) string {
	if len(call.Invalid) == 0 {
		return describeCall(call)
	}
	return fmt.Sprintf("call %d (%s of %s: %s)", call.Seq, quote(call.Tool), call.Server, clip(call.Invalid[0]))
}

// unknown limits calls of tools that were not listed when they were called.
func (r *SchemaRules) unknown(calls []evidence.Call) (gate, error) {
	g := gate{name: gateUnknown}
	if err := listed(calls); err != nil {
		return g, err
	}
	unknown := filter(calls, func(call evidence.Call) bool { return !*call.Known })
	if len(unknown) > *r.MaxUnknownTools {
		g.add(unknown, "Expected at most %d calls of tools that their server had not listed; found %d: %s.",
			*r.MaxUnknownTools, len(unknown), describeCalls(unknown))
	}
	return g, nil
}

// listed fails where a call was made before its server's tools were on record.
func listed(calls []evidence.Call) error {
	i := slices.IndexFunc(calls, func(call evidence.Call) bool { return call.Known == nil })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%w: when call %d was made, no list of the tools of %s was on record", errEvidence, calls[i].Seq, calls[i].Server)
}
