package grading

import (
	"errors"
	"slices"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// ToolConstraintConfig configures the tool_constraint grader: which tools were
// used and which were not. Each entry is one check, and allow_only is one.
type ToolConstraintConfig struct {
	_ struct{} `unknown:"warn"`

	ExpectTools []ToolPattern `json:"expect_tools,omitempty" jsonschema:"tool uses that there must be"`
	RejectTools []ToolPattern `json:"reject_tools,omitempty" jsonschema:"tool uses that there must not be"`
	AllowOnly   []ToolPattern `json:"allow_only,omitempty" jsonschema:"the only tool uses allowed of the sources that they name, or of all sources if one names none"`

	expect, reject, allow []selector // compiled by Validate
}

// Validate rejects an empty config or list, an entry without a tool, an unknown source,
// invalid expressions, and a tool pattern that would be misinterpreted.
func (c *ToolConstraintConfig) Validate() error {
	if len(c.ExpectTools)+len(c.RejectTools)+len(c.AllowOnly) == 0 {
		if c.AllowOnly != nil {
			return errors.New(`allow_only: empty; to allow no use at all, write reject_tools: [{tool: "."}]`)
		}
		return errEmpty
	}
	var errs [3]error
	c.expect, errs[0] = compilePatterns("expect_tools", c.ExpectTools)
	c.reject, errs[1] = compilePatterns("reject_tools", c.RejectTools)
	c.allow, errs[2] = compilePatterns("allow_only", c.AllowOnly)
	return errors.Join(errs[:]...)
}

// Servers names the servers that sources are about.
func (c *ToolConstraintConfig) Servers() []string { return serversOf(c.selectors()) }

// tools implements tooled.
func (c *ToolConstraintConfig) tools() (all []evidence.ToolRef) {
	for _, sel := range c.selectors() {
		server, ok := sel.server()
		if name, isName := sel.tool.Name(); ok && isName {
			all = append(all, evidence.ToolRef{Server: server, Tool: name})
		}
	}
	return all
}

func (c *ToolConstraintConfig) selectors() []selector {
	return slices.Concat(c.expect, c.reject, c.allow)
}

func (c *ToolConstraintConfig) grade(s *subject) (report, error) {
	var r report
	for _, sel := range c.selectors() {
		r.lacks(sel.known(s))
	}
	for _, sel := range c.expect {
		sel.expect(&r, "expect_tools", s.uses)
	}
	for _, sel := range c.reject {
		found := filter(s.uses, sel.selects)
		r.check("reject_tools", len(found) == 0, "Expected no call of %s; found %s.", sel, describe(found))
	}
	if len(c.allow) > 0 {
		others := filter(s.uses, c.disallows)
		r.check("allow_only", len(others) == 0, "Expected calls of nothing but %s; found %s.", join(c.allow, " or "), describe(others))
	}
	r.details = map[string]any{"tools_used": toolNames(s.uses)}
	return r, nil
}

// disallows reports whether a use is of one of the sources that allow_only is about, and no
// entry of allow_only describes it.
func (c *ToolConstraintConfig) disallows(use capture.Use) bool {
	return slices.ContainsFunc(c.allow, func(sel selector) bool { return sel.covers(use) }) &&
		!slices.ContainsFunc(c.allow, func(sel selector) bool { return sel.selects(use) || sel.selects(renamed(use)) })
}

// renamed returns a use with the other name that upstream waza has in allow_only for a file
// tool of the agent's own.
func renamed(use capture.Use) capture.Use {
	switch {
	case use.Call != nil:
	case use.Tool == "view":
		use.Tool = "read"
	case use.Tool == "edit":
		use.Tool = "write"
	}
	return use
}
