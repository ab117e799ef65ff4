package grading

import (
	"errors"
	"fmt"
)

// ToolCallsConfig configures the tool_calls grader, which checks which tools were used, how often in total,
// and with what arguments. Each name, bound and expectation is one check. Without a transcript, only tools of
// MCP servers are known.
type ToolCallsConfig struct {
	_ struct{} `unknown:"warn"`

	RequiredTools  []string     `json:"required_tools,omitempty" jsonschema:"exact names of tools that must be used; for an MCP call TOOL or SERVER-TOOL"`
	ForbiddenTools []string     `json:"forbidden_tools,omitempty" jsonschema:"exact names of tools that must not be used; for an MCP call TOOL or SERVER-TOOL"`
	MinCalls       *int         `json:"min_calls,omitempty" min:"0" jsonschema:"minimum number of tool calls of all kinds"`
	MaxCalls       *int         `json:"max_calls,omitempty" min:"0" jsonschema:"limit of tool calls of all kinds; 0 to allow none"`
	Expect         []ToolExpect `json:"expect,omitempty" jsonschema:"tool uses that there must be"`

	expect []selector // compiled by Validate
}

// Validate refuses an empty config, bounds that no number meets, and expectations without a tool or with
// invalid expressions.
func (c *ToolCallsConfig) Validate() error {
	if len(c.RequiredTools)+len(c.ForbiddenTools)+len(c.Expect) == 0 && c.MinCalls == nil && c.MaxCalls == nil {
		return errEmpty
	}
	var errs [2]error
	if c.MinCalls != nil && c.MaxCalls != nil && *c.MinCalls > *c.MaxCalls {
		errs[0] = fmt.Errorf("min_calls: %d is more than max_calls, %d", *c.MinCalls, *c.MaxCalls)
	}
	c.expect, errs[1] = compilePatterns("expect", mapped(c.Expect, ToolExpect.pattern), anywhere)
	return errors.Join(errs[:]...)
}

func (c *ToolCallsConfig) grade(s *subject) (report, error) {
	var r report
	r.lacks(errors.Join(s.seen(), s.builtinsKnown(false)))
	namedTools(&r, s, c.RequiredTools, c.ForbiddenTools)
	if c.MinCalls != nil && (r.missing == nil || len(s.uses) >= *c.MinCalls) {
		r.measure("min_calls", len(s.uses) >= *c.MinCalls, "Expected at least %d tool calls; found %d.", *c.MinCalls, len(s.uses))
	}
	if c.MaxCalls != nil {
		r.atMost("max_calls", *c.MaxCalls, "tool calls", s.uses)
	}
	for _, sel := range c.expect {
		sel.expect(&r, "expect", clearUses(&r, s.uses, sel))
	}
	r.details = map[string]any{"total_calls": len(s.uses), "unique_tools": toolNames(s.uses)}
	return r, nil
}
