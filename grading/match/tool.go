package match

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tool is the name of a tool, exact and case-sensitive, or an expression over whole
// names.
type Tool struct {
	text       string
	expression *regexp.Regexp // nil for a name
}

// IsExpression reports whether text is written as an expression over whole names.
func IsExpression(text string) bool {
	return len(text) >= 3 && text[0] == '/' && text[len(text)-1] == '/'
}

// CompileTool reads a name, or an expression (RE2) written as "/expression/".
func CompileTool(text string) (Tool, error) {
	if text == "" {
		return Tool{}, errors.New("an empty name")
	}
	if !IsExpression(text) {
		return Tool{text: text}, nil
	}
	inner := text[1 : len(text)-1]
	if _, err := regexp.Compile(inner); err != nil {
		return Tool{}, err
	}
	whole, err := regexp.Compile(`\A(?:` + inner + `)\z`)
	return Tool{text, whole}, err
}

// Matches reports whether a tool of this name is meant.
func (t Tool) Matches(name string) bool {
	if t.expression != nil {
		return t.expression.MatchString(name)
	}
	return t.text == name
}

// String is what t was compiled from.
func (t Tool) String() string { return t.text }

// Target describes calls of one server's tool, or of several tools.
type Target struct {
	Server string // empty for any
	Tool   Tool
	Args   *Args // nil for any arguments
}

// Names reports whether a call of tool on server is meant, whatever its arguments.
func (t Target) Names(server, tool string) bool {
	return (t.Server == "" || t.Server == server) && t.Tool.Matches(tool)
}

// String is SERVER/TOOL, or TOOL where any server is meant.
func (t Target) String() string {
	if t.Server == "" {
		return t.Tool.String()
	}
	return t.Server + "/" + t.Tool.String()
}

// key is what targets that are written alike share.
func (t Target) key() string {
	key := strconv.Quote(t.Server) + strconv.Quote(t.Tool.text)
	if t.Args != nil {
		key += t.Args.form
	}
	return key
}

// Expected is calls that are expected: from Min to Max of them, each to one of the
// targets.
type Expected struct {
	Targets []Target // the first one names it
	Min     int
	Max     int // Unlimited for no bound
}

// Unlimited as the Max of an [Expected] is no bound.
const Unlimited = -1

// Once expects one call to one of the targets.
func Once(targets ...Target) Expected { return Expected{Targets: targets, Min: 1, Max: 1} }

// String names e by its targets.
func (e Expected) String() string {
	names := make([]string, len(e.Targets))
	for i, target := range e.Targets {
		names[i] = target.String()
	}
	return strings.Join(names, " or ")
}

// key is what expectations share that say the same.
func (e Expected) key() string {
	keys := make([]string, len(e.Targets))
	for i, target := range e.Targets {
		keys[i] = target.key()
	}
	slices.Sort(keys)
	return fmt.Sprint(keys, e.Min, e.Max)
}
