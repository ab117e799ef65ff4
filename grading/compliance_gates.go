package grading

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/text"
)

// Severities of gates. Any other value turns the gate off.
const (
	failIt = "fail"
	warnOf = "warn"
)

// isSeverity reports whether the severity turns a gate on.
func isSeverity(severity string) bool { return severity == failIt || severity == warnOf }

// failIf returns failIt if a gate is configured.
func failIf(configured bool) string {
	if configured {
		return failIt
	}
	return ""
}

// gate is a condition that fails a trial whatever its score is.
type gate struct {
	name     string            // as in details and documentation
	severity string            // failIt or warnOf; any other value means off
	expects  string            // the expectation, as part of a sentence
	judge    func(*gate) error // adds a finding for each reason why the gate does not hold
	whole    bool              // not judged if calls may be missing, since they might make it hold

	findings []finding // reasons why it does not hold
}

// add adds a finding. If expected is empty, got is a complete sentence.
func (g *gate) add(calls []evidence.Call, expected, got string, args ...any) {
	g.findings = append(g.findings, finding{expected, fmt.Sprintf(got, args...) + ".", numbers(calls)})
}

// allGates returns all gates, including those that are turned off. The arguments are only needed to judge
// gates, and may be nil otherwise. If the record may lack calls, calls holds those of all whose end is known.
func (c *ComplianceConfig) allGates(s *subject, sel selection, calls, all []evidence.Call) []gate {
	wire, schema, requests := c.Wire, c.Schema, c.ServerRequests
	return []gate{
		{name: "reject_tools", severity: failIf(len(c.RejectTools) > 0), expects: "no call of " + join(c.RejectTools, " or "),
			judge: func(g *gate) error { c.rejected(g, all); return nil }},
		{name: "count", severity: failIf(c.bounded()), expects: "no more calls than count allows",
			judge: func(g *gate) error { c.counts(g, sel); return nil }},
		{name: "before", whole: true, severity: failIf(len(c.Before) > 0), expects: "each tool to succeed before the next is called",
			judge: func(g *gate) error { c.order(g, calls); return nil }},
		{name: "max_duplicate_calls", severity: failIf(c.MaxDuplicateCalls != nil), expects: noMore(c.MaxDuplicateCalls, "calls to repeat an earlier one"),
			judge: func(g *gate) error { c.duplicates(g, calls); return nil }},
		{name: "wire.unbacked_claims", whole: true, severity: wire.UnbackedClaims, expects: "each call that the agent reports to have been made",
			judge: func(g *gate) error { return g.claims(s, c.scope()) }},
		{name: "wire.unreported_calls", whole: true, severity: wire.UnreportedCalls, expects: "the agent to report each of its calls",
			judge: func(g *gate) error { return g.unreported(s, calls) }},
		{name: "schema.min_valid", whole: true, severity: failIf(schema.MinValid != nil), expects: "arguments to fit their tools' schemas",
			judge: func(g *gate) error { return schema.valid(g, calls) }},
		{name: "schema.max_unknown_tools", severity: failIf(schema.MaxUnknownTools != nil), expects: noMore(schema.MaxUnknownTools, "calls of tools that their server had not listed"),
			judge: func(g *gate) error { return schema.unknown(g, all) }},
		{name: "resources", severity: failIf(c.Resources.checks()), expects: "requests for the resources named, and none rejected",
			judge: func(g *gate) error { return c.reads(g, s, c.Resources, capture.ReadResource, sel.partial) }},
		{name: "prompts", severity: failIf(c.Prompts.checks()), expects: "requests for the prompts named, and none rejected",
			judge: func(g *gate) error { return c.reads(g, s, c.Prompts, capture.ReadPrompt, sel.partial) }},
		{name: "server_requests", severity: failIf(len(requests.Expect)+len(requests.Reject) > 0), expects: "servers to make the requests named, and none rejected",
			judge: func(g *gate) error { c.requested(g, s, sel.partial); return nil }},
		{name: "rug_pull", severity: failIf(c.RugPull == failIt), expects: "no server to change what it says of a tool",
			judge: func(g *gate) error { c.rugPulled(g, s); return nil }},
	}
}

// noMore describes a maximum number of calls, or returns "" if n is nil.
func noMore(n *int, calls string) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("at most %d %s", *n, calls)
}

// gates judges the gates that are on. The error missing says why some gates are not judged.
func (c *ComplianceConfig) gates(s *subject, sel selection, calls, all []evidence.Call) (gates []gate, missing error) {
	for _, g := range c.allGates(s, sel, calls, all) {
		if !isSeverity(g.severity) || g.whole && sel.partial {
			continue
		}
		if err := g.judge(&g); err != nil {
			missing = cmp.Or(missing, err)
			continue
		}
		gates = append(gates, g)
	}
	return gates, missing
}

func gateDetails(gates []gate) map[string]any {
	all := map[string]any{}
	for _, g := range gates {
		calls := []int{}
		for _, f := range g.findings {
			calls = append(calls, f.calls...)
		}
		all[g.name] = map[string]any{"result": g.result(), "calls": calls}
	}
	return all
}

func (g gate) result() string {
	switch {
	case len(g.findings) == 0:
		return checkPass
	case g.severity == warnOf:
		return checkWarn
	}
	return checkFail
}

func (c *ComplianceConfig) rejected(g *gate, calls []evidence.Call) {
	for _, tool := range c.RejectTools {
		if found := filter(calls, func(call evidence.Call) bool { return tool.Matches(call.Tool) }); len(found) > 0 {
			g.add(found, "no call of "+tool.String(), "found %s", describeCalls(found))
		}
	}
}

// bounded reports whether any entry has a maximum number of calls.
func (c *ComplianceConfig) bounded() bool {
	return slices.ContainsFunc(c.ExpectToolsUsed, func(e ExpectedCall) bool { _, said := e.most(); return said })
}

// counts checks that no entry has more matching calls than it allows.
func (c *ComplianceConfig) counts(g *gate, sel selection) {
	for i := range c.ExpectToolsUsed {
		most, said := c.ExpectToolsUsed[i].most()
		if !said {
			continue
		}
		found := filter(sel.calls, func(call evidence.Call) bool {
			return c.made(call) && sel.expected[i].Takes(given(call))
		})
		if len(found) > most {
			g.add(found, fmt.Sprintf("at most %s of %s", text.Count(most, "call"), sel.describe(i)), "found %d: %s", len(found), describeCalls(found))
		}
	}
}

// order checks each list of before: when a tool was called, the tool before it in the list must have
// succeeded.
func (c *ComplianceConfig) order(g *gate, calls []evidence.Call) {
	done := filter(calls, c.Errors.succeeded)
	for _, chain := range c.Before {
		for i, second := range chain[1:] {
			first := chain[i]
			earlier := filter(done, func(call evidence.Call) bool { return first.Matches(call.Tool) })
			early := filter(filter(calls, c.made), func(call evidence.Call) bool {
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
			g.add(early, fmt.Sprintf("%s to succeed before %s is called", first, second), "found %s, while %s %s", describeCalls(early), first, came)
		}
	}
}

// duplicates counts the calls that repeat an earlier call. Retrying a failed call is not a repetition.
func (c *ComplianceConfig) duplicates(g *gate, calls []evidence.Call) {
	done := map[int]bool{} // keyed by the first of the identical calls
	repeats := filter(calls, func(call evidence.Call) bool {
		again := done[first(call)]
		done[first(call)] = again || c.made(call)
		return again
	})
	if len(repeats) > *c.MaxDuplicateCalls {
		g.add(repeats, g.expects, "found %d: %s", len(repeats), describeRepeats(repeats))
	}
}

func describeRepeats(calls []evidence.Call) string {
	return listOf(calls, func(call evidence.Call) string {
		return fmt.Sprintf("call %d (as call %d: %s of %s)", call.Seq, call.SameAs, quote(call.Tool), call.Server)
	})
}

// valid checks the share of calls whose arguments match the input schema of their tool. Tools that the server
// did not list have no schema; the gate schema.max_unknown_tools checks those. If too many calls do not
// match, calls that cannot be checked do not matter.
func (r SchemaRules) valid(g *gate, calls []evidence.Call) error {
	known := filter(calls, func(call evidence.Call) bool { return call.Known == nil || *call.Known })
	invalid := filter(known, func(call evidence.Call) bool { return call.Valid != nil && !*call.Valid })
	if share := float64(len(known)-len(invalid)) / float64(max(len(known), 1)); len(invalid) > 0 && !evidence.Reaches(share, *r.MinValid) {
		g.add(invalid, fmt.Sprintf("the arguments of %s of calls to fit their tools' schemas", percent(*r.MinValid)),
			"of %d do %d. Not those of %s", len(known), len(known)-len(invalid), listOf(invalid, describeInvalid))
		return nil
	}
	for _, call := range known {
		if call.Known != nil && call.Valid == nil {
			if err := argumentsRemoved(call); err != nil {
				return err
			}
			return fmt.Errorf("%w: the input schema of %s of %s cannot be read", errEvidence, quote(call.Tool), call.Server)
		}
	}
	return listed(calls)
}

// unchecked lists the parts of schemas that were not used to check calls' arguments.
func unchecked(calls []evidence.Call) []string {
	with := map[string][]evidence.Call{}
	for _, call := range calls {
		for _, note := range call.Notes {
			if why, ok := strings.CutPrefix(note, capture.NoteUnchecked+": "); ok && call.Valid != nil {
				with[why] = append(with[why], call)
			}
		}
	}
	var all []string
	for _, why := range slices.Sorted(maps.Keys(with)) {
		all = append(all, fmt.Sprintf("Not checked in %s: %s.", describeCalls(with[why]), why))
	}
	return text.Few(all, maxShown)
}

func describeInvalid(call evidence.Call) string {
	if len(call.Invalid) == 0 {
		return describeCall(call)
	}
	return describeAs(call, clip(call.Invalid[0]))
}

// unknown limits calls of tools that the server had not listed when they were called.
func (r SchemaRules) unknown(g *gate, calls []evidence.Call) error {
	unknown := filter(calls, func(call evidence.Call) bool { return call.Known != nil && !*call.Known })
	if len(unknown) > *r.MaxUnknownTools {
		g.add(unknown, g.expects, "found %d: %s", len(unknown), describeCalls(unknown))
		return nil
	}
	return listed(calls)
}

// listed returns an error if a call was made before the tools of its server were recorded.
func listed(calls []evidence.Call) error {
	i := slices.IndexFunc(calls, func(call evidence.Call) bool { return call.Known == nil })
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%w: when call %d was made, no list of the tools of %s was on record", errEvidence, calls[i].Seq, calls[i].Server)
}

// reads checks that expected resources or prompts were read successfully, unless reads may be missing from
// the record, and that rejected ones were not requested.
func (c *ComplianceConfig) reads(g *gate, s *subject, r ReadRules, kind string, partial bool) error {
	reads := filter(s.reads, func(read capture.Read) bool { return read.Kind == kind && c.inScope(read.Server) })
	for _, read := range reads {
		if len(read.Marks) > 0 {
			return removed(errSpoilt, read.Marks, fmt.Sprintf("the name of the %s that frame %d asks for", kind, read.RequestFrame))
		}
	}
	named := func(p match.Tool) []capture.Read {
		return filter(reads, func(read capture.Read) bool { return p.Matches(read.Name) })
	}
	for _, p := range r.Reject {
		if found := named(p); len(found) > 0 {
			g.add(nil, fmt.Sprintf("no request for the %s %s", kind, p), "found %s", describeReads(found))
		}
	}
	for _, p := range r.Expect {
		if partial {
			break
		}
		found, expected := named(p), fmt.Sprintf("a successful request for the %s %s", kind, p)
		switch {
		case slices.ContainsFunc(found, func(read capture.Read) bool { return read.Outcome == evidence.OutcomeOK }):
		case len(found) > 0:
			g.add(nil, expected, "found %s", describeReads(found))
		default:
			g.add(nil, expected, "there was none. Asked for: %s", list(distinct(reads, func(read capture.Read) string { return read.Name })))
		}
	}
	return nil
}

func describeReads(reads []capture.Read) string {
	return listOf(reads, func(read capture.Read) string {
		return fmt.Sprintf("%s of %s in frame %d (%s)", quote(read.Name), read.Server, read.RequestFrame, read.Outcome)
	})
}

// requested checks that servers made each expected kind of request, unless requests may be missing from the
// record, and none of a rejected kind.
func (c *ComplianceConfig) requested(g *gate, s *subject, partial bool) {
	of := func(kind string) []capture.ServerRequest {
		return filter(s.requests, func(r capture.ServerRequest) bool { return r.Kind == kind && c.inScope(r.Server) })
	}
	for _, kind := range c.ServerRequests.Reject {
		if found := of(kind); len(found) > 0 {
			g.add(nil, fmt.Sprintf("no server to request %s", kind), "found %s", listOf(found, func(r capture.ServerRequest) string {
				return fmt.Sprintf("%s by %s in frame %d", r.Kind, r.Server, r.Frame)
			}))
		}
	}
	for _, kind := range c.ServerRequests.Expect {
		if !partial && len(of(kind)) == 0 {
			g.add(nil, fmt.Sprintf("a server to request %s", kind), "none did")
		}
	}
}

// rugPulled checks that no server changed the definition of a tool.
func (c *ComplianceConfig) rugPulled(g *gate, s *subject) {
	for _, change := range s.changes {
		if change.RugPull() && c.inScope(change.Server) {
			g.add(nil, "", "The server %s changed what it says of a tool: %s", change.Server, change)
		}
	}
}

// hasTranscript reports whether there is a readable transcript. If there is none, a gate that only warns gets
// a finding; for other gates, an error is returned.
func (g *gate) hasTranscript(s *subject) (has bool, err error) {
	switch {
	case s.transcriptGap != nil:
		err = s.transcriptGap
	case s.narration == nil:
		err = fmt.Errorf("%w: the agent left no transcript, so what it reports about its calls is not known", errEvidence)
	default:
		return true, nil
	}
	if g.severity == warnOf {
		g.add(nil, "", "%s cannot be judged, %s", g.name, err)
		return false, nil
	}
	return false, err
}

// claims checks that each call in the transcript was made as the transcript reports it.
func (g *gate) claims(s *subject, servers []string) error {
	if has, err := g.hasTranscript(s); !has {
		return err
	}
	for _, claim := range about(servers, s.narration.Unbacked) {
		g.add(nil, "", "The agent reports calling %s with %s, but no such call was made", claimed(claim), arguments(claim))
	}
	for _, d := range s.narration.Differs {
		if len(about(servers, []evidence.Claim{d.Claim})) > 0 {
			g.add(s.recorded[d.Call-1:d.Call], "", "The agent reports call %d (%s) with a different %s: it says %s, but it was %s",
				d.Call, claimed(d.Claim), differing(d.In), clip(d.Claimed), clip(d.Actual))
		}
	}
	return nil
}

// ambiguous describes the claims that may refer to calls of several tools.
func ambiguous(s *subject, servers []string) []string {
	if s.narration == nil {
		return nil
	}
	var texts []string
	for _, claim := range about(servers, s.narration.Ambiguous) {
		texts = append(texts, fmt.Sprintf("The agent reports calling %s, which may be any of %s.",
			quote(claim.Name), listOf(claim.Tools, describeTool)))
	}
	return texts
}

// unreported checks that the transcript has each of the agent's calls.
func (g *gate) unreported(s *subject, calls []evidence.Call) error {
	if has, err := g.hasTranscript(s); !has {
		return err
	}
	unreported := map[int]bool{}
	for _, seq := range s.narration.Unreported {
		unreported[seq] = true
	}
	hidden := filter(calls, func(call evidence.Call) bool { return unreported[call.Seq] })
	if len(hidden) > 0 {
		g.add(hidden, g.expects, "it does not report %s", describeCalls(hidden))
	}
	return nil
}

// about returns the claims that may refer to calls of the servers' tools; no servers means all.
func about(servers []string, claims []evidence.Claim) []evidence.Claim {
	if len(servers) == 0 {
		return claims
	}
	return filter(claims, func(claim evidence.Claim) bool {
		return slices.ContainsFunc(claim.Tools, func(t evidence.ToolRef) bool { return slices.Contains(servers, t.Server) })
	})
}

func differing(in string) string {
	if in == evidence.DiffersArguments {
		return "set of arguments"
	}
	return in
}

func claimed(claim evidence.Claim) string {
	if len(claim.Tools) == 1 {
		return describeTool(claim.Tools[0])
	}
	return quote(claim.Name)
}

func describeTool(t evidence.ToolRef) string { return fmt.Sprintf("%s of %s", quote(t.Tool), t.Server) }

func arguments(claim evidence.Claim) string {
	if len(claim.Arguments) == 0 {
		return "no arguments"
	}
	return clip(string(claim.Arguments))
}
