package grading

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/runner/capture"
)

// ToolConstraintConfig configures the tool_constraint grader: which tools were
// used and which were not. Each entry is one check.
type ToolConstraintConfig struct {
	ExpectTools []ToolPattern `json:"expect_tools,omitempty" jsonschema:"each describes a call that was made"`
	RejectTools []ToolPattern `json:"reject_tools,omitempty" jsonschema:"each describes a call that was not made"`
}

// ToolPattern describes calls. Its expressions are RE2, unanchored, and ignore
// case, as waza has it. An argument that is not there is matched as empty text,
// and one that is no string as its JSON.
type ToolPattern struct {
	Tool           string `json:"tool" jsonschema:"expression over the tool's name; of an MCP call also over SERVER-TOOL"`
	Source         string `json:"source,omitempty" jsonschema:"which calls: builtin, skill, mcp (any server) or mcp:NAME; all where left out"`
	CommandPattern string `json:"command_pattern,omitempty" jsonschema:"expression over the argument command"`
	SkillPattern   string `json:"skill_pattern,omitempty" jsonschema:"expression over the argument skill"`
	PathPattern    string `json:"path_pattern,omitempty" jsonschema:"expression over the argument path"`
}

// Validate refuses an empty config, an entry without a tool, an unknown source
// and expressions that do not compile.
func (c *ToolConstraintConfig) Validate() error {
	if len(c.ExpectTools)+len(c.RejectTools) == 0 {
		return errEmpty
	}
	var errs []error
	for i, p := range c.ExpectTools {
		errs = append(errs, p.validate(fmt.Sprintf("expect_tools[%d]", i)))
	}
	for i, p := range c.RejectTools {
		errs = append(errs, p.validate(fmt.Sprintf("reject_tools[%d]", i)))
	}
	return errors.Join(errs...)
}

// Servers names the servers that sources are about.
func (c *ToolConstraintConfig) Servers() []string {
	var names []string
	for _, p := range slices.Concat(c.ExpectTools, c.RejectTools) {
		if name, ok := p.server(); ok {
			names = append(names, name)
		}
	}
	return names
}

func (p ToolPattern) validate(field string) error {
	if strings.TrimSpace(p.Tool) == "" {
		return fmt.Errorf("%s.tool: missing", field)
	}
	if server, ok := p.server(); ok && server == "" ||
		!ok && !slices.Contains([]string{"", "builtin", "skill", "mcp"}, p.Source) {
		return fmt.Errorf("%s.source: %q is none of builtin, skill, mcp and mcp:NAME", field, p.Source)
	}
	var errs []error
	for _, e := range []struct{ key, expression string }{
		{"tool", p.Tool}, {"command_pattern", p.CommandPattern},
		{"skill_pattern", p.SkillPattern}, {"path_pattern", p.PathPattern},
	} {
		if _, err := regexp.Compile("(?i)" + e.expression); err != nil {
			errs = append(errs, fmt.Errorf("%s.%s: %w", field, e.key, err))
		}
	}
	return errors.Join(errs...)
}

// server is NAME of the source mcp:NAME.
func (p ToolPattern) server() (string, bool) { return strings.CutPrefix(p.Source, "mcp:") }

func (c *ToolConstraintConfig) grade(s *subject) (report, error) {
	for _, p := range slices.Concat(c.ExpectTools, c.RejectTools) {
		if err := p.known(s); err != nil {
			return report{}, err
		}
	}
	var r report
	for _, p := range c.ExpectTools {
		r.check(len(p.matches(s.uses)) > 0, "Expected a call of %s; there was none. Used: %s.", p, list(toolNames(s.uses)))
	}
	for _, p := range c.RejectTools {
		found := p.matches(s.uses)
		r.check(len(found) == 0, "Expected no call of %s; found %s.", p, describe(found))
	}
	r.details = map[string]any{"tools_used": toolNames(s.uses)}
	return r, nil
}

// known fails where the calls that p is about are not all known.
func (p ToolPattern) known(s *subject) error {
	server, named := p.server()
	switch {
	case named && !s.declared(server):
		return fmt.Errorf("source %q: the trial has no such server", p.Source)
	case named:
		return s.seen(server)
	case p.Source == "mcp":
		return s.seen()
	case p.Source == "":
		return errors.Join(s.seen(), s.told(false))
	}
	return s.told(true)
}

func (p ToolPattern) matches(uses []capture.Use) []capture.Use {
	tool := regexp.MustCompile("(?i)" + p.Tool)
	arguments := map[string]*regexp.Regexp{}
	for key, expression := range map[string]string{
		"command": p.CommandPattern, "skill": p.SkillPattern, "path": p.PathPattern,
	} {
		if expression != "" {
			arguments[key] = regexp.MustCompile("(?i)" + expression)
		}
	}
	var found []capture.Use
	for _, use := range uses {
		if p.covers(use) && slices.ContainsFunc(use.Names(), tool.MatchString) && argumentsMatch(use, arguments) {
			found = append(found, use)
		}
	}
	return found
}

// covers reports whether use is of the source that p is about.
func (p ToolPattern) covers(use capture.Use) bool {
	return p.Source == "" || p.Source == use.Source || p.Source == "mcp" && use.Call != nil
}

func argumentsMatch(use capture.Use, expressions map[string]*regexp.Regexp) bool {
	if len(expressions) == 0 {
		return true
	}
	var arguments map[string]json.RawMessage
	_ = json.Unmarshal(use.Arguments, &arguments) // what is no object has no arguments
	for key, expression := range expressions {
		value := string(arguments[key])
		var s string
		if json.Unmarshal(arguments[key], &s) == nil {
			value = s
		}
		if !expression.MatchString(value) {
			return false
		}
	}
	return true
}

// String describes p for a sentence.
func (p ToolPattern) String() string {
	text := "/" + p.Tool + "/"
	if p.Source != "" {
		text += " of " + p.Source
	}
	for _, e := range []struct{ key, expression string }{
		{"command", p.CommandPattern}, {"skill", p.SkillPattern}, {"path", p.PathPattern},
	} {
		if e.expression != "" {
			text += fmt.Sprintf(" with %s /%s/", e.key, e.expression)
		}
	}
	return text
}
