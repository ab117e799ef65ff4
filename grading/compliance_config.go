package grading

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
)

// What a finding may mean.
const (
	failIt = "fail"
	warnOf = "warn"
)

// SetShort reads an entry that is a tool's name and nothing more.
func (e *ExpectedCall) SetShort(tool string) (err error) {
	e.Tool, err = match.CompileTool(tool)
	return err
}

// UnmarshalJSON reads a tool's name, or an entry as a mapping.
func (e *ExpectedCall) UnmarshalJSON(data []byte) error {
	var tool string
	if json.Unmarshal(data, &tool) == nil {
		return e.SetShort(tool)
	}
	type plain ExpectedCall
	in := json.NewDecoder(bytes.NewReader(data))
	in.DisallowUnknownFields()
	return in.Decode((*plain)(e))
}

// least is how many calls are expected.
func (e *ExpectedCall) least() int {
	if e.Count == nil || e.Count.Min == nil {
		return 1
	}
	return *e.Count.Min
}

// most is how many are allowed, and whether that is said at all.
func (e *ExpectedCall) most() (int, bool) {
	if e.Count == nil || e.Count.Max == nil {
		return 0, false
	}
	return *e.Count.Max, true
}

// Validate refuses a config without a check, and keys that contradict each other or
// would change nothing.
func (c *ComplianceConfig) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if slices.Contains(c.Server, "") || c.Server != nil && len(c.Server) == 0 {
		wrong("server: empty")
	}
	for i := range c.ExpectToolsUsed {
		errs = append(errs, c.ExpectToolsUsed[i].validate(fmt.Sprintf("expect_tools_used[%d]", i)))
	}
	for i, chain := range c.Before {
		if len(chain) < 2 {
			wrong("before[%d]: give at least two tools, the first of which comes before the second", i)
		}
	}
	if len(c.ExpectToolsUsed) == 0 && (c.mode() == match.Superset || c.mode() == match.InOrder) && c.Match != "" {
		wrong("match: %s allows any call, so it checks nothing without expect_tools_used", c.Match)
	}
	if len(c.ReadOnly) > 0 && c.mode() != match.Effects {
		wrong("read_only: only match: effects tells reads from writes")
	}
	errs = append(errs, c.Errors.validate(c.MaxToolErrors != nil), c.Weights.validate())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if !c.checks() && c.Rubric == "" {
		return errEmpty
	}
	return c.checkJudged(!c.checks())
}

// checks reports whether anything can fail by c.
func (c *ComplianceConfig) checks() bool {
	return c.selects() || c.MaxToolErrors != nil || c.MaxDuplicateCalls != nil ||
		len(c.RejectTools)+len(c.Before) > 0 || c.RugPull == failIt || c.Schema.checks() ||
		c.Wire != nil && (c.Wire.UnbackedClaims == failIt || c.Wire.UnreportedCalls == failIt) ||
		c.Resources.checks() || c.Prompts.checks()
}

// mode is how calls are matched. Left out it is superset: what is expected was called,
// and whatever else was is the agent's affair.
func (c *ComplianceConfig) mode() match.Mode {
	return match.Mode(cmp.Or(c.Match, string(match.Superset)))
}

// selects reports whether c judges which calls were made.
func (c *ComplianceConfig) selects() bool { return len(c.ExpectToolsUsed) > 0 || c.Match != "" }

func (r *SchemaRules) checks() bool {
	return r != nil && (r.MinValid != nil || r.MaxUnknownTools != nil)
}

func (r *ReadRules) checks() bool { return r != nil && len(r.Expect)+len(r.Reject) > 0 }

func (e *ExpectedCall) validate(field string) error {
	var errs []error
	if most, said := e.most(); said && most < max(e.least(), 1) {
		errs = append(errs, fmt.Errorf("%s.count: at most %d and at least %d; for none at all use reject_tools", field, most, e.least()))
	}
	if e.Args != nil {
		if _, err := e.Args.Compile(); err != nil {
			errs = append(errs, within(field+".args", err))
		}
	}
	return errors.Join(errs...)
}

func (r *ErrorRules) validate(limited bool) error {
	if r == nil {
		return nil
	}
	var errs []error
	if r.Count != nil && !limited {
		errs = append(errs, errors.New("errors.count: it is for max_tool_errors, which is not there"))
	}
	if r.Recovery != nil && !limited {
		errs = append(errs, errors.New("errors.recovery: it is for max_tool_errors, which is not there"))
	}
	return errors.Join(errs...)
}

func (w *PartWeights) validate() error {
	if w == nil {
		return nil
	}
	selection, params, failed := weightOf(w.Selection), weightOf(w.Params), weightOf(w.Errors)
	if selection+params+failed == 0 {
		return errors.New("weights: all are zero")
	}
	return nil
}

func weightOf(w *float64) float64 {
	if w == nil {
		return 1
	}
	return *w
}

// Servers names the servers that c is about.
func (c *ComplianceConfig) Servers() []string {
	names := slices.Clone([]string(c.Server))
	for _, e := range c.ExpectToolsUsed {
		names = append(names, e.Server)
		for _, other := range e.AnyOf {
			names = append(names, other.Server)
		}
	}
	if c.Errors != nil {
		for _, e := range c.Errors.Expected {
			names = append(names, e.Server)
		}
	}
	slices.Sort(names)
	return filter(slices.Compact(names), func(name string) bool { return name != "" })
}

// Names of the gates on reads, and on what servers say of their tools.
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
	named := func(p match.Tool) []capture.Read {
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

// rugPulled checks that no server changed what it says of a tool.
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
