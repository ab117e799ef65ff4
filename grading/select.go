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

	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// selector selects uses of tools: by their source, the tool's name and the arguments.
type selector struct {
	source string // as in [ToolPattern]
	tool   match.Tool
	args   []*match.Args
	only   string // instead of tool: the name in an entry of allow_only without a source or with source builtin
	text   string // for a sentence
}

// Sources of MCP calls.
const (
	mcpSource = "mcp:"  // followed by the name of a server
	anyServer = "mcp:*" // every server
)

// ofServer selects all uses of a server's tools.
func ofServer(server string) selector { return selector{source: mcpSource + server} }

// server returns the MCP server whose tools alone the selector selects, if there is one.
func (sel selector) server() (string, bool) {
	if sel.source == anyServer {
		return "", false
	}
	return strings.CutPrefix(sel.source, mcpSource)
}

// serversOf lists the servers that selectors name.
func serversOf(selectors []selector) (names []string) {
	for _, sel := range selectors {
		if server, ok := sel.server(); ok {
			names = append(names, server)
		}
	}
	return names
}

// known returns an error if some uses of the source are unknown.
func (sel selector) known(s *subject) error {
	server, isServer := sel.server()
	switch {
	case isServer:
		return s.seen(server)
	case sel.source == anyServer:
		return s.seen()
	case sel.source == "":
		return errors.Join(s.seen(), s.builtinsKnown(false))
	}
	return s.builtinsKnown(true)
}

// covers reports whether a use comes from the selector's source.
func (sel selector) covers(use capture.Use) bool {
	return sel.source == "" || sel.source == use.Source || sel.source == anyServer && use.Call != nil
}

// names reports whether a use has the selector's source and tool, whatever its arguments.
func (sel selector) names(use capture.Use) bool {
	if !sel.covers(use) {
		return false
	}
	if sel.only != "" {
		return allowed(sel.only, use)
	}
	if sel.source != "" {
		return sel.tool.Matches(use.Tool)
	}
	return slices.ContainsFunc(use.Names(), sel.tool.Matches)
}

// selects reports whether a use is selected.
func (sel selector) selects(use capture.Use) bool {
	return sel.names(use) && len(sel.misfits(use)) == 0
}

// misfits lists the differences between the arguments of a use and the expected ones.
// Arguments that are not an object are ignored.
func (sel selector) misfits(use capture.Use) (found []string) {
	arguments := use.Arguments
	if !bytes.HasPrefix(jsontext.TrimSpace(arguments), []byte("{")) {
		arguments = nil
	}
	for _, args := range sel.args {
		for _, difference := range args.Check(arguments).Differences {
			found = append(found, difference.String())
		}
	}
	return found
}

// String describes the selected uses for a sentence.
func (sel selector) String() string { return sel.text }

// ToolPattern selects uses of tools.
//
// Without a source, the tool is a case-insensitive, unanchored RE2 expression or, in allow_only, a name, as
// in upstream waza. With a source, it is the exact name of the tool, or a "/expression/" that matches whole
// names. The other expressions work as in upstream waza: a missing argument is matched as "", and an argument
// that is not a string as JSON.
type ToolPattern struct {
	Tool           string `json:"tool" jsonschema:"with source, the tool's exact name or an /expression/ that must match all of it; otherwise an expression that matches part of the name, ignoring case; for an MCP call the name may also be SERVER-TOOL"`
	Source         string `json:"source,omitempty" jsonschema:"kind of tool: builtin, skill, mcp:* for any server, or mcp:NAME; default all"`
	CommandPattern string `json:"command_pattern,omitempty" jsonschema:"expression that must match in the argument command, ignoring case; a missing argument is matched as empty text, one that is not a string as JSON"`
	SkillPattern   string `json:"skill_pattern,omitempty" jsonschema:"expression that must match in the argument skill, ignoring case"`
	PathPattern    string `json:"path_pattern,omitempty" jsonschema:"expression that must match in the argument path, ignoring case"`

	Args match.Matchers `json:"args,omitempty" jsonschema:"expected arguments by name: each a value or a matcher"`
}

// Ways to name a tool without a source.
const (
	anywhere = false // by an expression that matches part of the name
	exactly  = true  // as in allow_only
)

// compile returns the pattern's selector. Its errors name the key within field.
func (p ToolPattern) compile(field string, named bool) (selector, error) {
	if strings.TrimSpace(p.Tool) == "" {
		return selector{}, fmt.Errorf("%s.tool: missing", field)
	}
	errs := []error{p.checkSource(field)}
	sel := selector{source: p.Source}
	if named && p.Source == "" {
		sel.only, sel.text = p.Tool, quote(p.Tool)
	} else {
		tool, err := p.compileTool()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.tool: %w", field, err))
		}
		sel.tool, sel.text = tool, tool.String()
		if name, isName := tool.Name(); named && isName && p.Source == capture.SourceBuiltin {
			sel.only = name
		}
	}
	if p.Source != "" {
		sel.text += " of " + p.Source
	}
	for _, e := range []struct{ key, text string }{{"command", p.CommandPattern}, {"skill", p.SkillPattern}, {"path", p.PathPattern}} {
		if e.text == "" {
			continue
		}
		args, err := argumentPattern(e.key, e.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%s_pattern: %w", field, e.key, err))
		}
		sel.args = append(sel.args, args)
		sel.text += fmt.Sprintf(" with %s /%s/", e.key, e.text)
	}
	args, err := p.Args.Compile()
	errs = append(errs, within(field, err))
	sel.args = append(sel.args, args)
	for _, name := range sortedKeys(p.Args) {
		sel.text += fmt.Sprintf(" with %s: %s", name, clip(jsontext.Encode(p.Args[name])))
	}
	return sel, errors.Join(errs...)
}

func (p ToolPattern) checkSource(field string) error {
	server, isServer := selector{source: p.Source}.server()
	switch {
	case p.Source == "mcp":
		return fmt.Errorf(`%s.source: "mcp" names no server; write %q for every one, or mcp:NAME`, field, anyServer)
	case isServer && server == "", !isServer && !slices.Contains([]string{"", anyServer, capture.SourceBuiltin, capture.SourceSkill}, p.Source):
		return fmt.Errorf("%s.source: %q is none of builtin, skill, %s and mcp:NAME", field, p.Source, anyServer)
	}
	return nil
}

func (p ToolPattern) compileTool() (match.Tool, error) {
	if p.Source == "" {
		return match.CompilePart(p.Tool)
	}
	tool, err := match.CompileTool(p.Tool)
	if err != nil {
		return tool, err
	}
	if err := checkName(tool); err != nil {
		return tool, fmt.Errorf("with a source, %w", err)
	}
	return tool, nil
}

// checkName refuses an exact name that no tool has: it is meant as an expression or as a glob.
func checkName(tool match.Tool) error {
	name, isName := tool.Name()
	flagged := flaggedExpression.FindStringSubmatch(name)
	if !isName || flagged == nil && canBeName(name) {
		return nil
	}
	meant := anchored(name)
	if flagged != nil {
		meant = "/(?" + flagged[2] + ")" + flagged[1] + "/"
	} else if canBeName(strings.ReplaceAll(name, "*", "")) && !strings.Contains(name, ".*") {
		meant = "/" + strings.ReplaceAll(name, "*", ".*") + "/" // a glob
	}
	return fmt.Errorf("a tool is an exact name or a /expression/ over the whole name, and %q is no name; write %q", name, meant)
}

// flaggedExpression matches an expression with flags behind it, as in JavaScript.
var flaggedExpression = regexp.MustCompile(`^/(.+)/([ims]{1,3})$`)

// canBeName reports whether name has none of the characters that mark expressions and globs.
func canBeName(name string) bool { return !strings.ContainsAny(name, `^$*+?()[]{}|\`) }

// checkNames is checkName for the tools of a list.
func checkNames(list string, tools []match.Tool) error {
	var errs []error
	for i, tool := range tools {
		if err := checkName(tool); err != nil {
			errs = append(errs, fmt.Errorf("%s[%d]: %w", list, i, err))
		}
	}
	return errors.Join(errs...)
}

// anchored converts an unanchored expression to one that matches the same whole names, or
// to an exact name if possible.
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

// argumentPattern expects that a case-insensitive expression matches the text of an argument. A missing
// argument has the text "".
func argumentPattern(argument, expression string) (*match.Args, error) {
	expression = "(?i)" + expression
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	matcher := map[string]any{"regex": expression}
	if compiled.MatchString("") {
		matcher = map[string]any{"absent_or": matcher}
	}
	return match.Matchers{argument: json.RawMessage(jsontext.Encode(matcher))}.Compile()
}

// ToolExpect describes a use. Its tool is an unanchored, case-insensitive RE2 expression.
type ToolExpect struct {
	Tool string         `json:"tool" jsonschema:"expression that matches part of the tool's name, ignoring case; for an MCP call also SERVER-TOOL"`
	Args match.Matchers `json:"args,omitempty" jsonschema:"expected arguments by name"`
}

// pattern returns e as an entry of tool_constraint.
func (e ToolExpect) pattern() ToolPattern { return ToolPattern{Tool: e.Tool, Args: e.Args} }

// compilePatterns compiles a list of patterns. Errors name the key.
func compilePatterns(key string, patterns []ToolPattern, named bool) ([]selector, error) {
	var all []selector
	var errs []error
	for i, p := range patterns {
		sel, err := p.compile(fmt.Sprintf("%s[%d]", key, i), named)
		all, errs = append(all, sel), append(errs, err)
	}
	return all, errors.Join(errs...)
}

// expect checks that at least one of uses is selected.
func (sel selector) expect(r *report, key string, uses []capture.Use) {
	if made := filter(uses, sel.selects); len(made) > 0 {
		r.measure(key, true, "Expected a call of %s; found %s.", sel, describe(made))
		return
	}
	if near := filter(uses, sel.names); len(near) > 0 {
		r.need(key, false, "Expected a call of %s; there was none. Nearest: %s.", sel, sel.nearest(near))
		return
	}
	r.need(key, false, "Expected a call of %s; there was none. Used: %s.", sel, list(toolNames(uses)))
}

// nearest describes the use that differs in the fewest arguments.
func (sel selector) nearest(uses []capture.Use) mention {
	near := slices.MinFunc(uses, func(a, b capture.Use) int { return len(sel.misfits(a)) - len(sel.misfits(b)) })
	m := describe([]capture.Use{near})
	m.text = fmt.Sprintf("%s, whose %s", m, strings.Join(text.Few(sel.misfits(near), maxShown), "; "))
	return m
}

// namedTools checks which tools, by their exact names, were used and which were not.
func namedTools(r *report, s *subject, required, forbidden []string) {
	of := func(name string) []capture.Use { return filter(s.uses, selector{tool: match.Named(name)}.selects) }
	for _, name := range required {
		used := len(of(name)) > 0
		if !used && s.noTranscript {
			r.lacks(s.builtinsKnown(true)) // it may be a builtin tool
		}
		r.need("required_tools", used, "Expected tool %s to be used; it was not. Used: %s.", quote(name), list(toolNames(s.uses)))
	}
	for _, name := range forbidden {
		found := of(name)
		r.check("forbidden_tools", len(found) == 0, "Expected tool %s not to be used; found %s.", quote(name), describe(found))
	}
}
