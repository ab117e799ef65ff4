package grading

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
)

// ComplianceConfig configures the mcp_compliance grader, which checks how the agent used
// MCP servers. Gates hold or fail. Parts have a score; their weighted mean is the score of
// the grader. It passes if every gate holds and the score reaches the threshold. A finding is
// a sentence about why a gate does not hold or a part is below 1. A check, for reports, is a key
// of the config with its result and its findings.
type ComplianceConfig struct {
	Server            Names          `json:"server,omitempty" jsonschema:"name of a server, or a list of names: only calls to these are judged, and calls to servers that an entry names; default every server"`
	Match             string         `json:"match,omitempty" enum:"effects superset unordered in_order exact subset" jsonschema:"which calls besides the expected ones are allowed, and whether order matters; default superset"`
	ReadOnly          []match.Tool   `json:"read_only,omitempty" jsonschema:"with effects: tools that only read, whatever their servers declare: exact names or /expressions/"`
	ExpectToolsUsed   []ExpectedCall `json:"expect_tools_used,omitempty" jsonschema:"expected calls: exact names or /expressions/ of tools, or mappings with more detail"`
	RejectTools       []match.Tool   `json:"reject_tools,omitempty" jsonschema:"gate: tools that must not be called, successfully or not: exact names or /expressions/"`
	Before            [][]match.Tool `json:"before,omitempty" jsonschema:"gate: lists of tools, each of which must succeed before the first call of the next that succeeds or has no answer"`
	MaxToolErrors     *int           `json:"max_tool_errors,omitempty" min:"0" jsonschema:"number of failed calls to allow before the error score falls; 0 to allow none"`
	Errors            ErrorRules     `json:"errors,omitzero" jsonschema:"which calls count as errors"`
	MaxDuplicateCalls *int           `json:"max_duplicate_calls,omitempty" min:"0" jsonschema:"gate: limit of repeated calls: those with the server, tool and arguments of an earlier call that succeeded or has no answer"`
	Schema            SchemaRules    `json:"schema,omitzero" jsonschema:"gate: checks of calls against the servers' tool lists"`
	Wire              WireRules      `json:"wire,omitzero" jsonschema:"gate: checks of the calls in the agent's transcript against the recorded calls"`
	Resources         ReadRules      `json:"resources,omitzero" jsonschema:"gate: resources that were read, or were not"`
	Prompts           ReadRules      `json:"prompts,omitzero" jsonschema:"gate: prompts that were requested, or were not"`
	ServerRequests    RequestRules   `json:"server_requests,omitzero" jsonschema:"gate: requests that servers make of the agent, whatever the answer"`
	RugPull           string         `json:"rug_pull,omitempty" enum:"fail warn off" jsonschema:"gate: what to do if a server changes the description or input schema of a tool that it has listed, or turns one that may write into one that only reads; default warn"`
	Threshold         *float64       `json:"threshold,omitempty" min:"0" max:"1" jsonschema:"score needed to pass; default 1"`
	Judged

	expected []match.Expected // compiled by Validate
}

// ExpectedCall is an entry of expect_tools_used. A name alone is the tool, with any
// arguments, once.
type ExpectedCall struct {
	Tool   match.Tool        `json:"tool" jsonschema:"exact name, or an /expression/ (RE2) that must match the whole name"`
	Server string            `json:"server,omitempty" jsonschema:"server of the tool; default any of the servers being graded"`
	Count  *CallCount        `json:"count,omitempty" jsonschema:"expected number of calls; default 1"`
	AnyOf  []ToolOf          `json:"any_of,omitempty" jsonschema:"alternative tools that count as well"`
	Args   *match.ArgsConfig `json:"args,omitempty" jsonschema:"expected arguments"`
}

// CallCount limits the number of calls of an entry.
type CallCount struct {
	Min *int `json:"min,omitempty" min:"0" max:"1000" jsonschema:"minimum number of calls; default 1"`
	Max *int `json:"max,omitempty" min:"1" max:"1000" jsonschema:"gate: maximum number of calls, in any mode; default no limit"`
}

// ToolOf is a tool of a server.
type ToolOf struct {
	Server string     `json:"server,omitempty" jsonschema:"server of the tool; default any of the servers being graded"`
	Tool   match.Tool `json:"tool" jsonschema:"exact name, or an /expression/ (RE2) that must match the whole name"`
}

// SchemaRules compare calls with the tool definitions that servers list.
type SchemaRules struct {
	MinValid        *float64 `json:"min_valid,omitempty" min:"0" max:"1" jsonschema:"minimum share of calls whose arguments match the tool's input schema"`
	MaxUnknownTools *int     `json:"max_unknown_tools,omitempty" min:"0" jsonschema:"limit of calls of tools that the server had not listed before the call"`
}

// WireRules compares the agent's transcript with the recorded calls.
type WireRules struct {
	UnbackedClaims  string `json:"unbacked_claims,omitempty" enum:"fail warn off" jsonschema:"what to do if the agent reports a call that was not made or was different; default off"`
	UnreportedCalls string `json:"unreported_calls,omitempty" enum:"fail warn off" jsonschema:"what to do if the agent does not report a call that it made; default off"`
}

// ReadRules are rules about resources or prompts.
type ReadRules struct {
	Expect []match.Tool `json:"expect,omitempty" jsonschema:"must be requested successfully: exact names or URIs, or /expressions/"`
	Reject []match.Tool `json:"reject,omitempty" jsonschema:"must not be requested, successfully or not: exact names or URIs, or /expressions/"`
}

// RequestRules are rules about requests that servers make of their client.
type RequestRules struct {
	Expect []string `json:"expect,omitempty" enum:"elicitation sampling roots" jsonschema:"kinds of requests that must be made, whatever the answer"`
	Reject []string `json:"reject,omitempty" enum:"elicitation sampling roots" jsonschema:"kinds of requests that must not be made"`
}

// ErrorRules say which calls count as errors.
type ErrorRules struct {
	Count    []string        `json:"count,omitempty" enum:"tool protocol transport timeout" jsonschema:"outcomes that count as errors for max_tool_errors; default all four"`
	Soft     string          `json:"soft,omitempty" enum:"off warn count" jsonschema:"what to do if a successful call's result reads like an error, such as an object with error; default off"`
	Expected []ExpectedError `json:"expected,omitempty" jsonschema:"expected errors: they are not counted, and such a call counts as an expected call"`
	Recovery *Recovery       `json:"recovery,omitempty" jsonschema:"when an error counts as recovered from, and is not counted"`
}

// ExpectedError describes errors that are expected.
type ExpectedError struct {
	Tool   match.Tool `json:"tool" jsonschema:"exact name, or an /expression/ (RE2) that must match the whole name"`
	Server string     `json:"server,omitempty" jsonschema:"server of the tool; default any of the servers being graded"`
	Code   *int64     `json:"code,omitempty" jsonschema:"code of a JSON-RPC error; default any error"`
}

// Recovery configures when a later success makes up for an error.
type Recovery struct {
	Window  int    `json:"window" min:"1" max:"1000" jsonschema:"number of calls after the error to search for a successful call of the same tool"`
	Require string `json:"require,omitempty" enum:"any adapted" jsonschema:"any: with any arguments; adapted: with different arguments; default any"`
}

// SetShort reads an entry that is only a tool's name.
func (e *ExpectedCall) SetShort(tool string) (err error) {
	e.Tool, err = match.CompileTool(tool)
	return err
}

// least returns how many calls are expected.
func (e *ExpectedCall) least() int {
	if e.Count == nil || e.Count.Min == nil {
		return 1
	}
	return *e.Count.Min
}

// most returns how many calls are allowed, and whether there is a limit.
func (e *ExpectedCall) most() (int, bool) {
	if e.Count == nil || e.Count.Max == nil {
		return 0, false
	}
	return *e.Count.Max, true
}

// Validate refuses a config without a check, and keys that contradict each other or would
// change nothing.
func (c *ComplianceConfig) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if slices.Contains(c.Server, "") || c.Server != nil && len(c.Server) == 0 {
		wrong("server: empty")
	}
	c.expected = nil
	for i := range c.ExpectToolsUsed {
		expected, err := c.ExpectToolsUsed[i].compile(fmt.Sprintf("expect_tools_used[%d]", i))
		c.expected, errs = append(c.expected, expected), append(errs, err)
	}
	for i, chain := range c.Before {
		if len(chain) < 2 {
			wrong("before[%d]: give at least two tools, the first of which comes before the second", i)
		}
		errs = append(errs, checkNames(fmt.Sprintf("before[%d]", i), chain))
	}
	errs = append(errs, checkNames("reject_tools", c.RejectTools), checkNames("read_only", c.ReadOnly))
	if len(c.ExpectToolsUsed) == 0 && (c.mode() == match.Superset || c.mode() == match.InOrder) && c.Match != "" {
		wrong("match: %s allows any call, so it checks nothing without expect_tools_used", c.Match)
	}
	if len(c.ReadOnly) > 0 && c.mode() != match.Effects {
		wrong("read_only: it works only with match: effects; set that, or remove read_only")
	}
	for _, kind := range c.ServerRequests.Expect {
		if slices.Contains(c.ServerRequests.Reject, kind) {
			wrong("server_requests: %s is both expected and rejected", kind)
		}
	}
	errs = append(errs, c.Errors.validate(c.MaxToolErrors != nil))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if !c.checks() && c.Rubric == "" {
		return errEmpty
	}
	return c.checkJudged(!c.checks())
}

// checks reports whether c has a check that can fail.
func (c *ComplianceConfig) checks() bool {
	return c.selects() || c.MaxToolErrors != nil ||
		slices.ContainsFunc(c.allGates(nil, selection{}, nil, nil), func(g gate) bool { return g.severity == failIt })
}

// mode returns how calls are matched. The default is superset: all expected calls are
// required, others are allowed.
func (c *ComplianceConfig) mode() match.Mode {
	return match.Mode(cmp.Or(c.Match, string(match.Superset)))
}

// selects reports whether c judges which calls were made.
func (c *ComplianceConfig) selects() bool { return len(c.ExpectToolsUsed) > 0 || c.Match != "" }

func (r ReadRules) checks() bool { return len(r.Expect)+len(r.Reject) > 0 }

func (r ErrorRules) validate(limited bool) error {
	var errs []error
	for i, e := range r.Expected {
		if err := checkName(e.Tool); err != nil {
			errs = append(errs, fmt.Errorf("errors.expected[%d].tool: %w", i, err))
		}
	}
	if r.Count != nil && !limited {
		errs = append(errs, errors.New("errors.count: it is for max_tool_errors, which is not set; set that too, or remove it"))
	}
	if r.Recovery != nil && !limited {
		errs = append(errs, errors.New("errors.recovery: it is for max_tool_errors, which is not set; set that too, or remove it"))
	}
	return errors.Join(errs...)
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
	for _, e := range c.Errors.Expected {
		names = append(names, e.Server)
	}
	slices.Sort(names)
	return filter(slices.Compact(names), func(name string) bool { return name != "" })
}

// tools implements tooled.
func (c *ComplianceConfig) tools() (all []evidence.ToolRef) {
	only := ""
	if len(c.Server) == 1 {
		only = c.Server[0]
	}
	add := func(tool match.Tool, server string) {
		if name, isName := tool.Name(); isName && cmp.Or(server, only) != "" {
			all = append(all, evidence.ToolRef{Server: cmp.Or(server, only), Tool: name})
		}
	}
	for _, e := range c.ExpectToolsUsed {
		add(e.Tool, e.Server)
	}
	for _, tool := range slices.Concat(append(c.Before, c.RejectTools)...) {
		add(tool, "")
	}
	return all
}

func (c *ComplianceConfig) grade(s *subject) (report, error) {
	var r report
	all, gap := c.lookedAt(s)
	r.lacks(gap)
	all, soft, err := c.Errors.hardened(all)
	if err != nil {
		return report{}, err
	}
	calls := all
	if gap != nil { // the answer to an unanswered call may be missing from the record
		calls = filter(all, func(call evidence.Call) bool { return !unanswered(call) })
	}
	clear, hidden := clearCalls(calls, c.expected)
	r.lacks(hidden)
	r.lacks(c.Errors.removed(all))
	sel := c.selection(clear)
	failed := c.Errors.sort(calls)
	if gap != nil || hidden != nil {
		sel.atBest(c.threshold())
	}
	if gap != nil && c.Errors.Recovery != nil {
		failed.counted = nil
	}
	failed.soft = soft
	gates, err := c.gates(s, sel, calls, all)
	r.lacks(err)
	r.details = c.details(calls, sel, failed, gates)
	r.aboutCompliance(sel, failed)
	r.listSelection(c, sel)
	r.listErrors(c, failed)
	r.gates(gates)
	s.judged(&r, c)
	r.parts(c, sel, failed)
	for _, text := range c.warnings(s, calls) {
		r.warn(text)
	}
	return r, nil
}

// warnings lists findings that do not fail the grader: claims that may refer to several
// tools, parts of schemas that could not be checked, and rug pulls if they are not a gate.
func (c *ComplianceConfig) warnings(s *subject, calls []evidence.Call) []string {
	var all []string
	if c.Schema.MinValid != nil {
		all = unchecked(calls)
	}
	if isSeverity(c.Wire.UnbackedClaims) {
		all = append(all, ambiguous(s, c.scope())...)
	}
	if c.RugPull == "" || c.RugPull == warnOf {
		var g gate
		c.rugPulled(&g, s)
		for _, f := range g.findings {
			all = append(all, f.String())
		}
	}
	return all
}

// lookedAt returns the calls to the servers in scope, with an error if the record may lack calls.
func (c *ComplianceConfig) lookedAt(s *subject) ([]evidence.Call, error) {
	return filter(s.calls, func(call evidence.Call) bool { return c.inScope(call.Server) }), s.seen(c.scope()...)
}

// scope names the servers that c checks; an empty list means all.
func (c *ComplianceConfig) scope() []string {
	if len(c.Server) == 0 {
		return nil
	}
	return c.Servers()
}

func (c *ComplianceConfig) inScope(server string) bool {
	scope := c.scope()
	return len(scope) == 0 || slices.Contains(scope, server)
}

// gates counts and lists the gates.
func (r *report) gates(gates []gate) {
	for _, g := range gates {
		r.checks++
		for _, f := range g.findings {
			if g.severity == warnOf {
				r.warn(f.String())
			} else {
				r.failures = append(r.failures, "Gate failed: "+f.String())
			}
			r.calls = append(r.calls, f.calls...)
			f.expected = cmp.Or(f.expected, g.expects)
			r.list(g.name, g.result(), f)
		}
		if len(g.findings) == 0 {
			r.list(g.name, checkPass, finding{expected: g.expects})
		}
	}
}

func (r *report) warn(text string) { r.notes = append(r.notes, "Warning: "+text) }

// parts sets the score, and adds a failure if it is below the threshold. If a gate failed,
// the score is 0.
func (r *report) parts(c *ComplianceConfig, sel selection, failed failures) {
	parts := c.parts(sel, failed)
	score := meanScore(parts)
	own := score
	if len(r.failures) > 0 {
		own = 0
	}
	r.own = &own
	r.checks += len(parts)
	var short []string
	if c.selects() {
		short = sel.findings()
	}
	if c.MaxToolErrors != nil && len(failed.counted) > *c.MaxToolErrors {
		short = append(short, failed.finding(*c.MaxToolErrors).String())
	}
	if len(short) > 0 {
		short = append(short, "\n"+describeScore(own < score, score, c.threshold(), parts))
	}
	if !evidence.Reaches(score, c.threshold()) {
		r.failures = append(r.failures, short...)
	} else {
		r.notes = append(r.notes, short...)
	}
	for _, text := range failed.notes() {
		r.warn(text)
	}
}

// aboutCompliance records which calls lowered the score.
func (r *report) aboutCompliance(sel selection, failed failures) {
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

// details returns the basis of the verdict for reports. It refers to calls by number, and
// to entries of expect_tools_used by index.
func (c *ComplianceConfig) details(calls []evidence.Call, sel selection, failed failures, gates []gate) map[string]any {
	details := map[string]any{"calls": len(calls), "errors": errorDetails(failed)}
	if len(gates) > 0 {
		details["gates"] = gateDetails(gates)
	}
	parts := map[string]any{}
	for _, p := range c.parts(sel, failed) {
		parts[p.name] = map[string]any{"score": p.score, "weight": 1} // all parts weigh the same
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

// Names of the parts of a score.
const (
	partSelection = "selection"
	partParams    = "params"
	partErrors    = "errors"
)

// part is one part of a score, from 0 to 1.
type part struct {
	name  string
	score float64
}

// parts returns the parts that are configured and apply.
func (c *ComplianceConfig) parts(sel selection, failed failures) []part {
	var parts []part
	if c.selects() {
		scores := sel.Scores()
		parts = append(parts, part{partSelection, scores.Selection})
		if scores.Params != nil && sel.constrained {
			parts = append(parts, part{partParams, *scores.Params})
		}
	}
	if c.MaxToolErrors != nil {
		parts = append(parts, part{partErrors, failed.part(*c.MaxToolErrors)})
	}
	return parts
}

// meanScore returns the mean score of parts, 1 if there are none.
func meanScore(parts []part) float64 {
	if len(parts) == 0 {
		return 1
	}
	var sum float64
	for _, p := range parts {
		sum += p.score
	}
	return sum / float64(len(parts))
}

func (c *ComplianceConfig) threshold() float64 {
	if c.Threshold == nil {
		return 1
	}
	return *c.Threshold
}

// describeScore describes a score below 1 by its parts, and mentions a failed gate.
func describeScore(gated bool, score, threshold float64, parts []part) string {
	var each []string
	for _, p := range parts {
		each = append(each, fmt.Sprintf("%s %.2f", p.name, p.score))
	}
	if gated {
		return fmt.Sprintf("The score is 0, since a gate failed; the parts make %.2f (%s), and %.2f is needed to pass.", score, strings.Join(each, ", "), threshold)
	}
	return fmt.Sprintf("The score is %.2f (%s); %.2f is needed to pass.", score, strings.Join(each, ", "), threshold)
}

func (c *ComplianceConfig) inquiry() (judgement, bool) {
	return judgement{JudgeConfig: c.judgeConfig(), rubric: c.Rubric, servers: c.Server}, c.Rubric != ""
}
