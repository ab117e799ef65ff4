package grading

import (
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/evidence"
)

// Names of the gates on the agent's transcript.
const (
	gateClaims   = "wire.unbacked_claims"
	gateReported = "wire.unreported_calls"
)

// reported fails where there is no readable transcript. A gate that only warns says so
// instead, and is not run.
func (g *gate) reported(s *subject) (run bool, err error) {
	switch {
	case s.transcriptGap != nil:
		err = s.transcriptGap
	case s.narration == nil:
		err = fmt.Errorf("%w: the agent left no transcript, so what it tells of its calls is not known", errEvidence)
	default:
		return true, nil
	}
	if g.warns {
		g.add(nil, "%s cannot be judged, %s.", g.name, err)
		return false, nil
	}
	return false, err
}

// claims compares the calls in the transcript with those that were made.
func (w *WireRules) claims(s *subject, servers []string) (gate, error) {
	g := gate{name: gateClaims, warns: w.UnbackedClaims == warnOf}
	if run, err := g.reported(s); !run {
		return g, err
	}
	for _, claim := range about(servers, s.narration.Unbacked) {
		g.add(nil, "The agent tells of a call of %s with %s, which it never made.", claimed(claim), arguments(claim))
	}
	byNumber := map[int]evidence.Call{}
	for _, call := range s.calls {
		byNumber[call.Seq] = call
	}
	for _, d := range s.narration.Differs {
		if len(about(servers, []evidence.Claim{d.Claim})) > 0 {
			g.add([]evidence.Call{byNumber[d.Call]}, "The agent tells call %d (%s) with another %s: it says %s, and it was %s.",
				d.Call, claimed(d.Claim), differing(d.In), clip(d.Says), clip(d.Was))
		}
	}
	return g, nil
}

// ambiguous lists claims that may be calls of several tools.
func ambiguous(s *subject, servers []string) []string {
	if s.narration == nil {
		return nil
	}
	var texts []string
	for _, claim := range about(servers, s.narration.Ambiguous) {
		texts = append(texts, fmt.Sprintf("The agent tells of a call of %s, which may be any of %s.",
			quote(claim.Name), listOf(claim.Tools, describeTool)))
	}
	return texts
}

// reported checks that the transcript has each of the agent's calls.
func (w *WireRules) reported(s *subject, calls []evidence.Call) (gate, error) {
	g := gate{name: gateReported, warns: w.UnreportedCalls == warnOf}
	if run, err := g.reported(s); !run {
		return g, err
	}
	unreported := map[int]bool{}
	for _, seq := range s.narration.Unreported {
		unreported[seq] = true
	}
	hidden := filter(calls, func(call evidence.Call) bool { return unreported[call.Seq] })
	if len(hidden) > 0 {
		g.add(hidden, "Expected the agent to tell of each of its calls; it does not tell of %s.", describeCalls(hidden))
	}
	return g, nil
}

// about are the claims that may be of a tool of servers; no servers means any.
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
