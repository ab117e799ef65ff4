package grading

import (
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

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
	texts []string        // what of it does not hold; none where it does
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
