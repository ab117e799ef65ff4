package grading

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
)

// ToolConstraintConfig configures the tool_constraint grader, which checks which tools were used and which
// were not. Each entry is one check; all of allow_only is one check.
type ToolConstraintConfig struct {
	_ struct{} `unknown:"warn"`

	ExpectTools []ToolPattern `json:"expect_tools,omitempty" jsonschema:"tool uses that there must be"`
	RejectTools []ToolPattern `json:"reject_tools,omitempty" jsonschema:"tool uses that there must not be"`
	AllowOnly   []ToolPattern `json:"allow_only,omitzero" jsonschema:"the only tool uses allowed of the sources that they name, or of all sources if one names none; an empty list allows no use. Without a source, tool is the exact name, ignoring case: SERVER-TOOL for an MCP call"`

	expect, reject, allow []selector // compiled by Validate
}

// Validate rejects an empty config, an entry without a tool, an unknown source,
// invalid expressions, and a tool pattern that would be misinterpreted.
func (c *ToolConstraintConfig) Validate() error {
	if len(c.ExpectTools)+len(c.RejectTools) == 0 && c.AllowOnly == nil {
		return errEmpty
	}
	var errs [3]error
	c.expect, errs[0] = compilePatterns("expect_tools", c.ExpectTools, anywhere)
	c.reject, errs[1] = compilePatterns("reject_tools", c.RejectTools, anywhere)
	c.allow, errs[2] = compilePatterns("allow_only", c.AllowOnly, exactly)
	return errors.Join(errs[:]...)
}

// Servers names the servers that sources are about.
func (c *ToolConstraintConfig) Servers() []string { return serversOf(c.selectors()) }

// needs implements limiting.
func (c *ToolConstraintConfig) needs() []string { return serversOf(c.expect) }

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
	selectors := c.selectors()
	if c.AllowOnly != nil && len(c.allow) == 0 {
		selectors = append(selectors, selector{}) // about all sources
	}
	for _, sel := range selectors {
		r.lacks(sel.known(s))
	}
	for _, sel := range c.expect {
		sel.expect(&r, "expect_tools", clearUses(&r, s.uses, sel))
	}
	for _, sel := range c.reject {
		found := filter(clearUses(&r, s.uses, sel), sel.selects)
		r.check("reject_tools", len(found) == 0, "Expected no call of %s; found %s.", sel, describe(found))
	}
	if c.AllowOnly != nil {
		others := filter(clearUses(&r, s.uses, c.allow...), c.disallows)
		r.check("allow_only", len(others) == 0, "Expected %s; found %s.%s", c.only(), describe(others), c.bareName(others))
	}
	r.details = map[string]any{"tools_used": toolNames(s.uses)}
	return r, nil
}

// only describes what allow_only allows.
func (c *ToolConstraintConfig) only() string {
	if len(c.allow) == 0 {
		return "no tool to be used"
	}
	return "calls of nothing but " + join(c.allow, " or ")
}

// disallows reports whether a use is of a source that allow_only covers and matches none of its entries. An
// empty list covers all sources.
func (c *ToolConstraintConfig) disallows(use capture.Use) bool {
	return (len(c.allow) == 0 || slices.ContainsFunc(c.allow, func(sel selector) bool { return sel.covers(use) })) &&
		!slices.ContainsFunc(c.allow, func(sel selector) bool { return sel.selects(use) })
}

// bareName returns a hint for the end of a sentence, if allow_only names the tool of one of the uses without
// its server: how to name it with its server.
func (c *ToolConstraintConfig) bareName(others []capture.Use) string {
	for _, use := range others {
		if use.Call != nil && slices.ContainsFunc(c.AllowOnly, func(p ToolPattern) bool { return p.Source == "" && isNamed(p.Tool, use.Tool) }) {
			return fmt.Sprintf(" Name a server's tool with its server: %s.", quote(use.FullName()))
		}
	}
	return ""
}

// aliases maps other names of an agent's own tools, which upstream waza's allow_only accepts, to waza's
// names. Keys are in lower case and without "_".
var aliases = map[string]string{
	"readfile": "read", "fileread": "read", "view": "read",
	"writefile": "write", "filewrite": "write", "edit": "write", "editfile": "write",
	"runcommand": "bash",
	"webfetch":   "fetch",
}

// ToolsOf returns the config of a tool_constraint grader for a custom agent that lists the tools it uses: the
// agent must use one of them, if there are any, and no others.
func ToolsOf(names []string) ToolConstraintConfig {
	c := ToolConstraintConfig{AllowOnly: []ToolPattern{}}
	var spellings []string
	for _, name := range names {
		c.AllowOnly = append(c.AllowOnly, ToolPattern{Tool: name})
		if prefix, rest, ok := strings.Cut(name, ":"); ok && slices.Contains([]string{"mcp", "builtin", "custom"}, strings.ToLower(prefix)) {
			name = rest
		}
		spellings = append(spellings, regexp.QuoteMeta(strings.ToLower(name)), regexp.QuoteMeta(alias(name)))
		for _, other := range sortedKeys(aliases) {
			if aliases[other] == alias(name) {
				spellings = append(spellings, other, ours[other])
			}
		}
	}
	if len(names) > 0 {
		spellings = slices.DeleteFunc(spellings, func(s string) bool { return s == "" })
		slices.Sort(spellings)
		c.ExpectTools = []ToolPattern{{Tool: "^(" + strings.Join(slices.Compact(spellings), "|") + ")$"}}
	}
	return c
}

// ours maps the aliases that are written with "_" to that spelling.
var ours = map[string]string{
	"readfile": "read_file", "writefile": "write_file", "editfile": "edit_file", "runcommand": "run_command", "webfetch": "web_fetch",
}

// alias returns the name that allow_only uses for one of the agent's own tools.
func alias(name string) string {
	name = strings.ToLower(name)
	return cmp.Or(aliases[strings.ReplaceAll(name, "_", "")], name)
}

// isNamed reports whether entry is the name of an agent's own tool, or an alias of the name.
func isNamed(entry, tool string) bool { return alias(entry) == alias(tool) }

// allowed reports whether an entry of allow_only matches a use. As in upstream waza, a server's tool is
// SERVER-TOOL, case does not matter, and a prefix names the owner of the tool.
func allowed(entry string, use capture.Use) bool {
	entry = strings.TrimSpace(entry)
	prefix, name, ok := strings.Cut(entry, ":")
	switch kind := strings.ToLower(prefix); {
	case ok && kind == "mcp":
		return use.Call != nil && strings.EqualFold(name, use.FullName())
	case ok && kind == "custom":
		return use.Call == nil && strings.EqualFold(name, use.Tool)
	case ok && kind == "builtin":
		return use.Call == nil && isNamed(name, use.Tool)
	case use.Call != nil:
		return strings.EqualFold(entry, use.FullName())
	}
	return isNamed(entry, use.Tool)
}
