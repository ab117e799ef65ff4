package grading

import (
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// Names of the gates on what else servers were asked for, and on what they told.
const (
	gateResources = "resources"
	gatePrompts   = "prompts"
	gateRugPull   = "rug_pull"
)

// reads holds that what is expected was read with success, and that nothing was asked
// for that is not to be.
func (r *ReadRules) reads(name string, reads []capture.Read) gate {
	g := gate{name: name}
	what := name[:len(name)-1]
	named := func(p NamePattern) []capture.Read {
		return filter(reads, func(read capture.Read) bool { return p.Matches(read.Name) })
	}
	for _, p := range r.Reject {
		if found := named(p); len(found) > 0 {
			g.add(nil, "Expected no request for the %s %s; found %s.", what, p, describeReads(found))
		}
	}
	for _, p := range r.Expect {
		found := named(p)
		switch {
		case slices.ContainsFunc(found, func(read capture.Read) bool { return read.Outcome == evidence.OutcomeOK }):
		case len(found) > 0:
			g.add(nil, "Expected a successful request for the %s %s; found %s.", what, p, describeReads(found))
		default:
			g.add(nil, "Expected a successful request for the %s %s; there was none. Asked for: %s.", what, p, list(names(reads)))
		}
	}
	return g
}

func describeReads(reads []capture.Read) string {
	return listOf(reads, func(read capture.Read) string {
		return fmt.Sprintf("%s of %s in frame %d (%s)", quote(read.Name), read.Server, read.RequestFrame, read.Outcome)
	})
}

func names(reads []capture.Read) []string {
	var all []string
	for _, read := range reads {
		all = append(all, read.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reads are those of a kind that c is about.
func (c *ComplianceConfig) reads(s *subject, kind string) []capture.Read {
	scope := c.scope()
	return filter(s.reads, func(read capture.Read) bool {
		return read.Kind == kind && (len(scope) == 0 || slices.Contains(scope, read.Server))
	})
}

// rugPulled holds that no server tells the agent another thing of a tool than at first.
func (c *ComplianceConfig) rugPulled(s *subject) gate {
	g := gate{name: gateRugPull}
	scope := c.scope()
	for _, change := range s.changes {
		if change.RugPull() && (len(scope) == 0 || slices.Contains(scope, change.Server)) {
			g.add(nil, "The server %s changed what it says of a tool: %s.", change.Server, change)
		}
	}
	return g
}
