package grading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/text"
)

// ToolPattern describes uses of tools.
//
// Without a source its tool is read as waza has it: an RE2 expression, unanchored,
// whatever the case. With one it is the tool's exact name, or a "/expression/" over
// the whole name. The other expressions are read as waza has them either way; an
// argument that is not there is matched as empty text, and one that is no string as
// its JSON.
type ToolPattern struct {
	Tool           string `json:"tool" jsonschema:"with source the tool's exact name or a /expression/ over the whole of it; else an expression over a part of it in any case, of an MCP call also of SERVER-TOOL"`
	Source         string `json:"source,omitempty" jsonschema:"which uses: builtin, skill, mcp:* (any server) or mcp:NAME; all where left out"`
	CommandPattern string `json:"command_pattern,omitempty" jsonschema:"expression over the argument command"`
	SkillPattern   string `json:"skill_pattern,omitempty" jsonschema:"expression over the argument skill"`
	PathPattern    string `json:"path_pattern,omitempty" jsonschema:"expression over the argument path"`

	Args ArgMatchers `json:"args,omitempty" jsonschema:"what arguments are, by their names: a value, or a matcher"`
}

// anyServer is the source that stands for every MCP server.
const anyServer = "mcp:*"

func (p ToolPattern) validate(field string) error {
	if strings.TrimSpace(p.Tool) == "" {
		return fmt.Errorf("%s.tool: missing", field)
	}
	errs := []error{p.validateSource(field), p.validateTool(field)}
	for _, e := range p.expressions() {
		if _, err := regexp.Compile("(?i)" + e.text); err != nil {
			errs = append(errs, fmt.Errorf("%s.%s_pattern: %w", field, e.key, err))
		}
	}
	if _, err := p.Args.compile(); err != nil {
		errs = append(errs, fmt.Errorf("%s.args%w", field, err))
	}
	return errors.Join(errs...)
}

func (p ToolPattern) validateSource(field string) error {
	server, named := p.server()
	switch {
	case p.Source == "mcp":
		return fmt.Errorf(`%s.source: "mcp" names no server; write %q for every one, or mcp:NAME`, field, anyServer)
	case named && server != "" || p.Source == anyServer || slices.Contains([]string{"", capture.SourceBuiltin, capture.SourceSkill}, p.Source):
		return nil
	}
	return fmt.Errorf("%s.source: %q is none of builtin, skill, %s and mcp:NAME", field, p.Source, anyServer)
}

func (p ToolPattern) validateTool(field string) error {
	if p.Source == "" {
		if _, err := regexp.Compile("(?i)" + p.Tool); err != nil {
			return fmt.Errorf("%s.tool: %w", field, err)
		}
		return nil
	}
	if _, err := match.CompileTool(p.Tool); err != nil {
		return fmt.Errorf("%s.tool: %w", field, err)
	}
	if !match.IsExpression(p.Tool) && strings.ContainsAny(p.Tool, `^$*+?()[]{}|\`) {
		return fmt.Errorf("%s.tool: with a source, tool is an exact name or a /expression/ over the whole name, and %q is no name; write %q", field, p.Tool, anchored(p.Tool))
	}
	return nil
}

// anchored writes an unanchored expression so that it matches the same whole names:
// as an exact name where it is one between anchors.
func anchored(expression string) string {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil || parsed.Op == syntax.OpAlternate {
		return "/.*(?:" + expression + ").*/"
	}
	inner, atStart := strings.CutPrefix(expression, "^")
	inner, atEnd := strings.CutSuffix(inner, "$")
	if atStart && atEnd && regexp.QuoteMeta(inner) == inner {
		return inner
	}
	if !atStart {
		inner = ".*" + strings.TrimPrefix(inner, ".*")
	}
	if !atEnd {
		inner = strings.TrimSuffix(inner, ".*") + ".*"
	}
	return "/" + inner + "/"
}

// server is NAME of the source mcp:NAME.
func (p ToolPattern) server() (string, bool) {
	if p.Source == anyServer {
		return "", false
	}
	return strings.CutPrefix(p.Source, "mcp:")
}

// known fails where the uses that p is about are not all known.
func (p ToolPattern) known(s *subject) error {
	server, named := p.server()
	switch {
	case named && !s.declared(server):
		return fmt.Errorf("source %q: the trial has no such server", p.Source)
	case named:
		return s.seen(server)
	case p.Source == anyServer:
		return s.seen()
	case p.Source == "":
		return errors.Join(s.seen(), s.reported(false))
	}
	return s.reported(true)
}

// covers reports whether use is of the source that p is about.
func (p ToolPattern) covers(use capture.Use) bool {
	return p.Source == "" || p.Source == use.Source || p.Source == anyServer && use.Call != nil
}

type expression struct{ key, text string }

// expressions are those over arguments that p has.
func (p ToolPattern) expressions() []expression {
	return slices.DeleteFunc([]expression{
		{"command", p.CommandPattern}, {"skill", p.SkillPattern}, {"path", p.PathPattern},
	}, func(e expression) bool { return e.text == "" })
}

// String describes p for a sentence.
func (p ToolPattern) String() string {
	var text string
	switch {
	case p.Source == "":
		text = "/" + p.Tool + "/"
	case match.IsExpression(p.Tool):
		text = p.Tool + " of " + p.Source
	default:
		text = quote(p.Tool) + " of " + p.Source
	}
	for _, e := range p.expressions() {
		text += fmt.Sprintf(" with %s /%s/", e.key, e.text)
	}
	for _, name := range sortedKeys(p.Args) {
		text += fmt.Sprintf(" with %s: %s", name, clip(compact(p.Args[name])))
	}
	return text
}

// compact is JSON on one line.
func compact(raw json.RawMessage) string {
	var line bytes.Buffer
	if json.Compact(&line, raw) != nil {
		return string(raw)
	}
	return line.String()
}

// toolMatch is a valid pattern, compiled.
type toolMatch struct {
	pattern   ToolPattern
	tool      func(string) bool
	arguments []argExpression
	args      argCheck
}

type argExpression struct {
	key string
	*regexp.Regexp
}

func (p ToolPattern) compile() toolMatch {
	m := toolMatch{pattern: p}
	m.args, _ = p.Args.compile() // validated
	if p.Source == "" {
		m.tool = regexp.MustCompile("(?i)" + p.Tool).MatchString
	} else {
		tool, _ := match.CompileTool(p.Tool) // validated
		m.tool = tool.Matches
	}
	for _, e := range p.expressions() {
		m.arguments = append(m.arguments, argExpression{e.key, regexp.MustCompile("(?i)" + e.text)})
	}
	return m
}

func (p ToolPattern) matches(uses []capture.Use) []capture.Use {
	return filter(uses, p.compile().matches)
}

func (m toolMatch) matches(use capture.Use) bool { return m.named(use) && len(m.differing(use)) == 0 }

// named reports whether use is of a tool and a source that m is about.
func (m toolMatch) named(use capture.Use) bool {
	if !m.pattern.covers(use) {
		return false
	}
	if m.pattern.Source != "" {
		return m.tool(use.Tool)
	}
	return slices.ContainsFunc(use.Names(), m.tool)
}

// differing lists where a use's arguments are not as m describes them.
func (m toolMatch) differing(use capture.Use) []string {
	var found []string
	given := members(use.Arguments)
	for _, e := range m.arguments {
		if text := asText(given[e.key]); !e.MatchString(text) {
			found = append(found, fmt.Sprintf("%s is %s", e.key, quote(text)))
		}
	}
	return append(found, m.args.differences(use.Arguments)...)
}

// nearest describes the use that differs in the fewest arguments, of those that m names.
func (m toolMatch) nearest(uses []capture.Use) mention {
	var near capture.Use
	var found []string
	for i, use := range uses {
		if differing := m.differing(use); i == 0 || len(differing) < len(found) {
			near, found = use, differing
		}
	}
	named := describe([]capture.Use{near})
	named.text = fmt.Sprintf("%s, whose %s", named, strings.Join(text.Few(found, maxShown), "; "))
	return named
}

// members are an object's; what is no object has none.
func members(raw json.RawMessage) map[string]json.RawMessage {
	var object map[string]json.RawMessage
	_ = json.Unmarshal(raw, &object)
	return object
}

// asText is a string's text, and anything else's JSON.
func asText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil && len(raw) > 0 && raw[0] == '"' {
		return s
	}
	return string(raw)
}
