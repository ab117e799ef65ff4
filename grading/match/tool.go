package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
)

// Tool is the name of a tool, exact and case-sensitive, or an expression over names.
type Tool struct {
	text       string
	expression *regexp.Regexp // nil for a name
}

// UnmarshalJSON reads a string as [CompileTool] does.
func (t *Tool) UnmarshalJSON(data []byte) (err error) {
	var text string
	if err = json.Unmarshal(data, &text); err == nil {
		*t, err = CompileTool(text)
	}
	return err
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

// Named returns the tool of exactly this name.
func Named(name string) Tool { return Tool{text: name} }

// CompilePart reads a case-insensitive RE2 expression that matches part of a name.
func CompilePart(expression string) (Tool, error) {
	part, err := regexp.Compile("(?i)" + expression)
	return Tool{"/" + expression + "/", part}, err
}

// Matches reports whether t matches the name of a tool.
func (t Tool) Matches(name string) bool {
	if t.expression != nil {
		return t.expression.MatchString(name)
	}
	return t.text == name
}

// Name returns the exact name; isName is false for an expression.
func (t Tool) Name() (name string, isName bool) { return t.text, t.expression == nil }

// String returns t as part of a sentence: a name in quotes, or an expression between slashes.
func (t Tool) String() string {
	if t.expression != nil {
		return shorten(t.text)
	}
	return quote(t.text)
}

// Target describes calls of one server's tool, or of several tools.
type Target struct {
	Server string // empty for any
	Tool   Tool
	Args   *Args // nil for any arguments
}

// Names reports whether t matches the server and the tool, whatever its arguments.
func (t Target) Names(server, tool string) bool {
	return (t.Server == "" || t.Server == server) && t.Tool.Matches(tool)
}

// key returns the same text for targets that are written alike.
func (t Target) key() string {
	key := strconv.Quote(t.Server) + strconv.Quote(t.Tool.text)
	if t.Args != nil {
		key += t.Args.form
	}
	return key
}

// Expected describes expected calls: at least Min and at most Max calls, each to one of the targets.
type Expected struct {
	Targets []Target // the first one is used as its name
	Min     int
	Max     int // Unlimited for no bound
}

// Unlimited is the Max of an [Expected] without a bound.
const Unlimited = -1

// Once expects one call to one of the targets.
func Once(targets ...Target) Expected { return Expected{Targets: targets, Min: 1, Max: 1} }

// key returns the same text for expectations that are written alike.
func (e Expected) key() string {
	keys := make([]string, len(e.Targets))
	for i, target := range e.Targets {
		keys[i] = target.key()
	}
	slices.Sort(keys)
	return fmt.Sprint(keys, e.Min, e.Max)
}

// LooksAt is like [Args.LooksAt], for the arguments of the targets whose tool was called.
func (e Expected) LooksAt(c Call, marks map[string][]string) (names []string) {
	for _, target := range e.Targets {
		if target.Names(c.Server, c.Tool) {
			names = append(names, target.Args.LooksAt(marks)...)
		}
	}
	return names
}

// Takes reports whether c calls one of e's tools, with all arguments as expected.
func (e Expected) Takes(c Call) bool {
	given := decode(c.Arguments)
	for _, target := range e.Targets {
		if target.Names(c.Server, c.Tool) && target.Args.fit(given, false).Full() {
			return true
		}
	}
	return false
}

// Names reports whether c calls one of e's tools, whatever its arguments.
func (e Expected) Names(c Call) bool {
	return slices.ContainsFunc(e.Targets, func(t Target) bool { return t.Names(c.Server, c.Tool) })
}

// Mode selects which calls are allowed in addition to the expected ones, and whether the order matters.
type Mode string

// The modes. A failed call fills no slot and is never in excess; an unanswered call fills no slot either.
const (
	Effects   Mode = "effects"   // any order; additional calls only if they are known to change nothing
	Superset  Mode = "superset"  // any order; additional calls allowed
	Unordered Mode = "unordered" // any order; no additional calls
	InOrder   Mode = "in_order"  // in order; additional calls allowed
	Exact     Mode = "exact"     // in order; no additional calls
	Subset    Mode = "subset"    // any order; expected calls may be missing; no additional calls
)

// Bounds reports whether the mode limits calls in addition to the expected ones.
func (m Mode) Bounds() bool { return m != Superset && m != InOrder }

func (m Mode) ordered() bool { return m == InOrder || m == Exact }

// Weights for leaving a call unmatched. One excess call outweighs all optional slots.
const (
	fine    int64 = 0
	tooMuch int64 = 1 << 40
)

// unmatchedWeight returns the weight of leaving a call unmatched; the call succeeded or was not answered.
func (m Mode) unmatchedWeight(c Call) int64 {
	switch {
	case c.Excused || !m.Bounds() || m == Effects && c.ReadOnly:
		return fine
	}
	return tooMuch
}
