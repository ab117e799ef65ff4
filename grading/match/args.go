package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// ArgsConfig describes the expected arguments of a call.
//
// The keys of Values are argument names, never matchers. Each value below them is either
// literal or a matcher: an object with exactly one of these keys.
//
//	any_of: [V, ...]          any of these values
//	regex: "..."              a string that matches the unanchored RE2 expression
//	contains: "..."           a string that contains this one
//	range: [LOW, HIGH]        a number from LOW to HIGH; null means no limit
//	range: {gte, gt, lte, lt} a number within these bounds
//	set: [V, ...]             a list of exactly these, in any order
//	json_schema: SCHEMA       a value that fits the JSON Schema
//	absent_or: V              no value, or V
//	equals: VALUE             VALUE literally, even if it looks like a matcher
//
// V may be a value or a matcher.
type ArgsConfig struct {
	Match  string                     `json:"match,omitempty" enum:"contains within exact ignore" jsonschema:"contains (default): at least these values; within: at most these; exact: just these; ignore: any"`
	Values map[string]json.RawMessage `json:"values,omitzero" jsonschema:"by argument: a value, or a matcher such as {any_of: [a, b]}"`
}

// Matchers describes the expected arguments of a call by name, in the format of upstream
// waza. It is like [ArgsConfig] with match contains, except that regex and contains match
// the JSON of values that are not strings.
type Matchers map[string]json.RawMessage

// Compile returns an error for each invalid part of m, with its place, which begins with "args".
func (m Matchers) Compile() (*Args, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return compiler{loose: true}.args("args", m)
}

// rule says how a given object is compared with an expected one, at every depth.
type rule int

const (
	contains rule = iota // additional members may be given
	within               // expected members may be missing; additional ones may not be given
	exact                // the same members
)

// Args is a compiled [ArgsConfig]. A nil one expects nothing.
type Args struct {
	want matcher // nil matches everything
	form string
}

// Compile returns an error for each invalid part of c, with its place, which begins with "match" or "values".
func (c ArgsConfig) Compile() (*Args, error) {
	var how rule
	switch c.Match {
	case "", "contains":
		how = contains
	case "within":
		how = within
	case "exact":
		how = exact
	case "ignore":
		if c.Values != nil {
			return nil, errors.New("values: match: ignore looks at none; leave them out")
		}
		return &Args{}, nil
	default:
		return nil, fmt.Errorf("match: %q is none of contains, within, exact and ignore", c.Match)
	}
	if c.Values == nil {
		return nil, errors.New("values: missing")
	}
	return compiler{rule: how}.args("values", c.Values)
}

// Fit is how well arguments match.
//
// Each leaf of the expected values is one constraint: a scalar, a matcher, or an empty list or object. With
// exact and within, each unexpected member is a failed constraint, and so are all excess items of a list
// together. Therefore Satisfied never exceeds Total, and excess or missing values never raise the ratio.
type Fit struct {
	Satisfied, Total int
	Differences      []Difference // at most maxDifferences
}

// Full reports whether all constraints are satisfied.
func (f Fit) Full() bool { return f.Satisfied == f.Total }

// LooksAt returns the names of the secrets that were replaced in the arguments that a compares, in any order.
// marks is the Marks of an evidence.Call.
func (a *Args) LooksAt(marks map[string][]string) (names []string) {
	if a == nil || a.want == nil {
		return nil
	}
	want, isObject := a.want.(object)
	for argument, of := range marks {
		if _, looks := want.index[argument]; looks || argument == "" || !isObject || want.rule != contains {
			names = append(names, of...)
		}
	}
	return names
}

// Check compares the arguments of a call with the expected ones. Omitted arguments are an
// empty object. Arguments that are not an object only match if nothing is expected.
func (a *Args) Check(arguments json.RawMessage) Fit {
	return a.CheckValue(decode(arguments))
}

// CheckValue is like [Args.Check] for an object that [jsontext.Parse] returned.
func (a *Args) CheckValue(given any) Fit { return a.fit(given, true) }

// Takes reports whether an object that [jsontext.Parse] returned satisfies all constraints.
func (a *Args) Takes(given any) bool { return a.fit(given, false).Full() }

// fit is like CheckValue; unless describe is set, it omits Differences.
func (a *Args) fit(got any, describe bool) Fit {
	if a == nil || a.want == nil {
		return Fit{}
	}
	t := tally{describe: describe}
	a.want.check(&t, got)
	return t.Fit
}

// String describes the expected arguments. It is empty if nothing is expected.
func (a *Args) String() string {
	if a == nil || a.want == nil {
		return ""
	}
	return a.want.String()
}

// key returns the path step to a member: .name, or ["na me"].
func key(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return "[" + quote(name) + "]"
	}
	return "." + name
}

// decode parses arguments as they were sent.
func decode(arguments json.RawMessage) any {
	if len(arguments) == 0 {
		return map[string]any{}
	}
	value, err := jsontext.Parse(arguments)
	if err != nil {
		return notJSON{}
	}
	return value
}
