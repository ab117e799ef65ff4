package grading

import (
	"errors"
	"fmt"
	"slices"

	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/runner/evidence"
)

// ComplianceConfig configures the mcp_compliance grader: how the agent used MCP
// servers. Each expected tool and the limit of errors is one check.
type ComplianceConfig struct {
	Server          Names    `json:"server,omitempty" jsonschema:"name of the server, or a list of names; every server where left out"`
	ExpectToolsUsed []string `json:"expect_tools_used,omitempty" jsonschema:"tools that were called, whatever came of it: exact names, or /expressions/ (RE2) that match a whole name"`
	MaxToolErrors   *int     `json:"max_tool_errors,omitempty" jsonschema:"limit of calls that ended as tool_error, protocol_error, transport_error or timeout; 0 allows none"`
	Judged
}

// Validate refuses an empty config, a limit below zero, empty names and
// expressions that do not compile.
func (c *ComplianceConfig) Validate() error {
	empty := len(c.ExpectToolsUsed) == 0 && c.MaxToolErrors == nil
	if empty && c.Rubric == "" {
		return errEmpty
	}
	errs := []error{c.checkJudged(empty)}
	if c.MaxToolErrors != nil && *c.MaxToolErrors < 0 {
		errs = append(errs, errors.New("max_tool_errors: below zero"))
	}
	if slices.Contains(c.Server, "") || c.Server != nil && len(c.Server) == 0 {
		errs = append(errs, errors.New("server: empty"))
	}
	for i, name := range c.ExpectToolsUsed {
		if _, err := match.CompileTool(name); err != nil {
			errs = append(errs, fmt.Errorf("expect_tools_used[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Servers names the servers that are looked at; none for all.
func (c *ComplianceConfig) Servers() []string { return c.Server }

func (c *ComplianceConfig) grade(s *subject) (report, error) {
	for _, server := range c.Server {
		if !s.declared(server) {
			return report{}, fmt.Errorf("the trial has no server %s", quote(server))
		}
	}
	if err := s.seen(c.Server...); err != nil {
		return report{}, err
	}
	calls := filter(s.calls, func(call evidence.Call) bool {
		return len(c.Server) == 0 || slices.Contains(c.Server, call.Server)
	})
	failed := filter(calls, isError)
	var r report
	for _, name := range c.ExpectToolsUsed {
		if err := expectUsed(&r, name, calls); err != nil {
			return report{}, err
		}
	}
	if c.MaxToolErrors != nil {
		r.check(len(failed) <= *c.MaxToolErrors,
			"Expected at most %d failed calls; found %d: %s.", *c.MaxToolErrors, len(failed), describeCalls(failed))
	}
	r.details = map[string]any{"calls": numbers(calls), "errors": numbers(failed)}
	err := s.judged(&r, c)
	return r, err
}

// expectUsed checks that a tool was called. What came of the call is for the
// limit of errors to judge: a tool that is meant to fail is used too.
func expectUsed(r *report, name string, calls []evidence.Call) error {
	tool, err := match.CompileTool(name)
	if err != nil {
		return err
	}
	used := slices.ContainsFunc(calls, func(call evidence.Call) bool { return tool.Matches(call.Tool) })
	if len(calls) == 0 {
		r.check(used, "Expected tool %s to be called; no tool was.", quote(name))
		return nil
	}
	r.check(used, "Expected tool %s to be called; it was not. Found %s.", quote(name), describeCalls(calls))
	return nil
}

// isError reports whether a call counts as an error. A cancelled one does not:
// the client gave it up.
func isError(call evidence.Call) bool {
	switch call.Outcome {
	case evidence.OutcomeToolError, evidence.OutcomeProtocolError,
		evidence.OutcomeTransportError, evidence.OutcomeTimeout:
		return true
	}
	return false
}
