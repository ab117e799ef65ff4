package grading

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/grading/match"
)

// ComplianceConfig configures the mcp_compliance grader: how the agent used MCP
// servers. Gates hold or fail; parts have a score, whose weighted mean is the
// grader's. It passes where every gate holds and the score reaches the threshold.
type ComplianceConfig struct {
	Server            Names          `json:"server,omitempty" jsonschema:"name of the server, or a list of names; every server where left out"`
	Match             string         `json:"match,omitempty" enum:"effects superset unordered in_order exact subset" jsonschema:"which calls beyond the expected are allowed, and whether order counts; default superset"`
	ReadOnly          []match.Tool   `json:"read_only,omitempty" jsonschema:"tools that only read, whatever their servers say: exact names or /expressions/"`
	ExpectToolsUsed   []ExpectedCall `json:"expect_tools_used,omitempty" jsonschema:"calls that were made: names or /expressions/ of tools, or more about each"`
	RejectTools       []match.Tool   `json:"reject_tools,omitempty" jsonschema:"tools that were not called, whatever came of it: exact names or /expressions/"`
	Before            [][]match.Tool `json:"before,omitempty" jsonschema:"lists of tools, each of which succeeded before the next one was called with success"`
	MaxToolErrors     *int           `json:"max_tool_errors,omitempty" min:"0" jsonschema:"how many calls may end as an error before the score of errors falls; 0 allows none"`
	Errors            *ErrorRules    `json:"errors,omitempty" jsonschema:"which calls count as errors"`
	MaxDuplicateCalls *int           `json:"max_duplicate_calls,omitempty" min:"0" jsonschema:"limit of calls that repeat an earlier one that succeeded: the same server, tool and arguments"`
	Schema            *SchemaRules   `json:"schema,omitempty" jsonschema:"what holds between calls and the servers' own lists of tools"`
	Wire              *WireRules     `json:"wire,omitempty" jsonschema:"what the agent tells of its calls, against what it sent"`
	Resources         *ReadRules     `json:"resources,omitempty" jsonschema:"resources that were and were not read"`
	Prompts           *ReadRules     `json:"prompts,omitempty" jsonschema:"prompts that were and were not taken"`
	RugPull           string         `json:"rug_pull,omitempty" enum:"fail warn off" jsonschema:"what a tool means that its server described anew after it had listed it; default warn"`
	Weights           *PartWeights   `json:"weights,omitempty" jsonschema:"weights of the parts of the score; each is 1 where left out"`
	Threshold         *float64       `json:"threshold,omitempty" min:"0" max:"1" jsonschema:"the score that it takes to pass; default 1"`
	Judged
}

// ExpectedCall is an entry of expect_tools_used. A name alone is the tool, with any
// arguments, once.
type ExpectedCall struct {
	Tool   match.Tool        `json:"tool" jsonschema:"exact name, or /expression/ (RE2) over a whole name"`
	Server string            `json:"server,omitempty" jsonschema:"the server it is of; any that is looked at where left out"`
	Count  *CallCount        `json:"count,omitempty" jsonschema:"how often; once where left out"`
	AnyOf  []ToolOf          `json:"any_of,omitempty" jsonschema:"tools that do as well"`
	Args   *match.ArgsConfig `json:"args,omitempty" jsonschema:"what the arguments are"`
}

// CallCount says how many calls an entry is about.
type CallCount struct {
	Min *int `json:"min,omitempty" min:"0" max:"1000" jsonschema:"as many are expected; default 1"`
	Max *int `json:"max,omitempty" min:"1" max:"1000" jsonschema:"more are not allowed, in any mode; no limit where left out"`
}

// ToolOf is a tool and the server it is of.
type ToolOf struct {
	Server string     `json:"server,omitempty" jsonschema:"the server it is of; any that is looked at where left out"`
	Tool   match.Tool `json:"tool" jsonschema:"exact name, or /expression/ (RE2) over a whole name"`
}

// SchemaRules hold calls to what servers list.
type SchemaRules struct {
	MinValid        *float64 `json:"min_valid,omitempty" min:"0" max:"1" jsonschema:"share of calls, at least, whose arguments fit the tool's input schema"`
	MaxUnknownTools *int     `json:"max_unknown_tools,omitempty" min:"0" jsonschema:"limit of calls of tools that the server had not listed by then"`
}

// WireRules compare the agent's transcript with what it did.
type WireRules struct {
	UnbackedClaims  string `json:"unbacked_claims,omitempty" enum:"fail warn off" jsonschema:"what a call means that the agent tells of and that was not made, or not so; default off"`
	UnreportedCalls string `json:"unreported_calls,omitempty" enum:"fail warn off" jsonschema:"what a call means that was made and that the agent does not tell of; default off"`
}

// ReadRules are about resources or prompts.
type ReadRules struct {
	Expect []match.Tool `json:"expect,omitempty" jsonschema:"each was asked for with success: exact names or URIs, or /expressions/"`
	Reject []match.Tool `json:"reject,omitempty" jsonschema:"none was asked for, whatever came of it: exact names or URIs, or /expressions/"`
}

// ErrorRules say which calls count as errors.
type ErrorRules struct {
	Count    []string        `json:"count,omitempty" enum:"tool protocol transport timeout" jsonschema:"outcomes that count against max_tool_errors; all four where left out"`
	Soft     string          `json:"soft,omitempty" enum:"off warn count" jsonschema:"what a success means whose result reads like an error; default off"`
	Expected []ExpectedError `json:"expected,omitempty" jsonschema:"errors that are not counted, and with which a call does what is expected of it"`
	Recovery *Recovery       `json:"recovery,omitempty" jsonschema:"when an error is made good, and not counted"`
}

// ExpectedError describes errors that are meant to come.
type ExpectedError struct {
	Tool   match.Tool `json:"tool" jsonschema:"exact name, or /expression/ (RE2) over a whole name"`
	Server string     `json:"server,omitempty" jsonschema:"the server it is of; any that is looked at where left out"`
	Code   *int64     `json:"code,omitempty" jsonschema:"code of a JSON-RPC error; any error where left out"`
}

// Recovery says when a later success makes an error good.
type Recovery struct {
	Window  int    `json:"window" min:"1" max:"1000" jsonschema:"how many calls after the error are looked at for a success of the same tool"`
	Require string `json:"require,omitempty" enum:"any adapted" jsonschema:"any: with whatever arguments; adapted: with other ones; default any"`
}

// PartWeights are the weights of the parts of a score.
type PartWeights struct {
	Selection *float64 `json:"selection,omitempty" min:"0" jsonschema:"of which calls were made"`
	Params    *float64 `json:"params,omitempty" min:"0" jsonschema:"of their arguments"`
	Errors    *float64 `json:"errors,omitempty" min:"0" jsonschema:"of how many failed"`
}

func (c *ComplianceConfig) grade(s *subject) (report, error) {
	calls, err := c.lookedAt(s)
	if err != nil {
		return report{}, err
	}
	calls, soft := c.Errors.hardened(calls)
	sel, err := c.selection(calls)
	if err != nil {
		return report{}, err
	}
	gates, err := c.gates(s, sel, calls)
	if err != nil {
		return report{}, err
	}
	failed := c.Errors.sort(calls)
	failed.soft = soft
	var r report
	r.gates(gates)
	r.details = c.details(calls, sel, failed, gates)
	r.aboutCompliance(gates, sel, failed)
	if err := s.judged(&r, c); err != nil {
		return report{}, err
	}
	r.parts(c, sel, failed)
	for _, text := range c.warnings(s) {
		r.warn(text)
	}
	return r, nil
}

// warnings are what ought to be known, and fails nothing: claims of which it cannot be
// said what they are of, and rug pulls where they are no gate.
func (c *ComplianceConfig) warnings(s *subject) []string {
	var all []string
	if c.Wire != nil && says(c.Wire.UnbackedClaims) {
		all = ambiguous(s, c.scope())
	}
	if c.RugPull == "" || c.RugPull == warnOf {
		all = append(all, c.rugPulled(s).texts...)
	}
	return all
}

// lookedAt are the calls to the servers that c is about. It fails where there is no
// such server, and where calls may have gone unseen.
func (c *ComplianceConfig) lookedAt(s *subject) ([]evidence.Call, error) {
	for _, server := range c.Servers() {
		if !s.declared(server) {
			return nil, fmt.Errorf("the trial has no server %s", quote(server))
		}
	}
	scope := c.scope()
	return filter(s.calls, func(call evidence.Call) bool {
		return len(scope) == 0 || slices.Contains(scope, call.Server)
	}), s.seen(scope...)
}

// scope names the servers whose calls are looked at: none for all.
func (c *ComplianceConfig) scope() []string {
	if len(c.Server) == 0 {
		return nil
	}
	return c.Servers()
}

// gates adds the gates that do not hold.
func (r *report) gates(gates []gate) {
	for _, g := range gates {
		r.checks++
		switch {
		case !g.warns:
			for _, text := range g.texts {
				r.failures = append(r.failures, "Gate failed: "+text)
			}
		default:
			for _, text := range g.texts {
				r.warn(text)
			}
		}
	}
}

func (r *report) warn(text string) { r.notes = append(r.notes, "Warning: "+text) }

// parts takes in the score, and what it is short of. Below the threshold that fails. Where a
// gate failed before, the score is 0.
func (r *report) parts(c *ComplianceConfig, sel selection, failed failures) {
	parts := c.parts(sel, failed)
	score, any := weighted(parts)
	if !any {
		score = 1
	}
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
		short = append(short, failed.describe(*c.MaxToolErrors))
	}
	if len(short) > 0 && any {
		short = append(short, describeScore(own < score, score, c.threshold(), parts))
	}
	if any && score < c.threshold() {
		r.failures = append(r.failures, short...)
	} else {
		r.notes = append(r.notes, short...)
	}
	for _, text := range slices.Concat(failed.notes(), sel.warnings(c.readOnly)) {
		r.warn(text)
	}
}

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

// Names of the parts of a score.
const (
	partSelection = "selection"
	partParams    = "params"
	partErrors    = "errors"
)

// part is one part of a score, from 0 to 1.
type part struct {
	name          string
	score, weight float64
}

// parts are those that are configured and apply.
func (c *ComplianceConfig) parts(sel selection, failed failures) []part {
	weights := c.Weights
	if weights == nil {
		weights = new(PartWeights)
	}
	var parts []part
	if c.selects() {
		scores := sel.Scores()
		parts = append(parts, part{partSelection, scores.Selection, weightOf(weights.Selection)})
		if scores.Params != nil && sel.constrained {
			parts = append(parts, part{partParams, *scores.Params, weightOf(weights.Params)})
		}
	}
	if c.MaxToolErrors != nil {
		parts = append(parts, part{partErrors, failed.part(*c.MaxToolErrors), weightOf(weights.Errors)})
	}
	return parts
}

// mean is the weighted mean of parts; false where none has a weight.
func weighted(parts []part) (float64, bool) {
	var sum, weights float64
	for _, p := range parts {
		sum += p.score * p.weight
		weights += p.weight
	}
	if weights == 0 {
		return 0, false
	}
	return sum / weights, true
}

func (c *ComplianceConfig) threshold() float64 {
	if c.Threshold == nil {
		return 1
	}
	return *c.Threshold
}

// describeScore says what a score below 1 is made of, and that it is 0 where a gate failed.
func describeScore(gated bool, score, threshold float64, parts []part) string {
	var each []string
	for _, p := range parts {
		each = append(each, fmt.Sprintf("%s %.2f", p.name, p.score))
	}
	if gated {
		return fmt.Sprintf("The score is 0, since a gate failed; the parts make %.2f (%s) and it takes %.2f.", score, strings.Join(each, ", "), threshold)
	}
	return fmt.Sprintf("The score is %.2f (%s); it takes %.2f.", score, strings.Join(each, ", "), threshold)
}

func (c *ComplianceConfig) inquiry() (judgement, bool) {
	return judgement{JudgeConfig: c.judgeConfig(), rubric: c.Rubric, servers: c.Server}, c.Rubric != ""
}
