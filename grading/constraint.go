package grading

import (
	"errors"
	"fmt"

	"github.com/waza-isolate/waza/capture"
)

// ToolConstraintConfig configures the tool_constraint grader: which tools were
// used and which were not. Each entry is one check, and allow_only is one.
type ToolConstraintConfig struct {
	_ struct{} `unknown:"warn"`

	ExpectTools []ToolPattern `json:"expect_tools,omitempty" jsonschema:"each describes a use that there was"`
	RejectTools []ToolPattern `json:"reject_tools,omitempty" jsonschema:"each describes a use that there was not"`
	AllowOnly   []ToolPattern `json:"allow_only,omitempty" jsonschema:"together they describe every use there was of the sources that they name, or of all where one of them names none"`
}

// Validate refuses an empty config or list, an entry without a tool, an unknown
// source, expressions that do not compile, and a tool that is written as another
// kind of expression than it is read as.
func (c *ToolConstraintConfig) Validate() error {
	if len(c.ExpectTools)+len(c.RejectTools)+len(c.AllowOnly) == 0 {
		if c.AllowOnly != nil {
			return errors.New(`allow_only: empty; to allow no use at all, write reject_tools: [{tool: "."}]`)
		}
		return errEmpty
	}
	var errs []error
	for _, list := range c.lists() {
		for i, p := range list.patterns {
			errs = append(errs, p.validate(fmt.Sprintf("%s[%d]", list.key, i)))
		}
	}
	return errors.Join(errs...)
}

type patternList struct {
	key      string
	patterns []ToolPattern
}

func (c *ToolConstraintConfig) lists() []patternList {
	return []patternList{{"expect_tools", c.ExpectTools}, {"reject_tools", c.RejectTools}, {"allow_only", c.AllowOnly}}
}

// Servers names the servers that sources are about.
func (c *ToolConstraintConfig) Servers() []string {
	var names []string
	for _, list := range c.lists() {
		for _, p := range list.patterns {
			if name, ok := p.server(); ok {
				names = append(names, name)
			}
		}
	}
	return names
}

func (c *ToolConstraintConfig) grade(s *subject) (report, error) {
	for _, list := range c.lists() {
		for _, p := range list.patterns {
			if err := p.known(s); err != nil {
				return report{}, err
			}
		}
	}
	var r report
	for _, p := range c.ExpectTools {
		r.expect(p, s.uses)
	}
	for _, p := range c.RejectTools {
		found := p.matches(s.uses)
		r.check(len(found) == 0, "Expected no call of %s; found %s.", p, describe(found))
	}
	if len(c.AllowOnly) > 0 {
		r.allowOnly(c.AllowOnly, s.uses)
	}
	r.details = map[string]any{"tools_used": toolNames(s.uses)}
	return r, nil
}

// renamed is a use of a file tool of the agent's own by the other name that upstream waza has for
// it in allow_only.
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
