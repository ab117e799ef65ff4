package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// ArgsConfig says what is expected of a call's arguments.
//
// The keys of Values are names of arguments, never matchers. Below them a value stands for
// itself, or is a matcher: an object with one key, which is one of
//
//	any_of: [V, ...]          one of these
//	regex: "..."              a string in which the expression (RE2) is found; unanchored
//	contains: "..."           a string that contains this one
//	range: [LOW, HIGH]        a number from LOW to HIGH; null is no bound
//	range: {gte, gt, lte, lt} a number within these bounds
//	set: [V, ...]             a list of exactly these, in any order
//	json_schema: SCHEMA       a value that fits the JSON Schema
//	absent_or: V              no value, or V
//	equals: VALUE             VALUE as it is written, even where it looks like a matcher
//
// V may be a matcher again.
type ArgsConfig struct {
	Match  string                     `json:"match,omitempty" enum:"contains within exact ignore" jsonschema:"contains (default): at least these values; within: at most these; exact: just these; ignore: any"`
	Values map[string]json.RawMessage `json:"values,omitzero" jsonschema:"by argument: a value, or a matcher such as {any_of: [a, b]}"`
}

// Matchers say what is expected of a call's arguments, by their names, in upstream waza's form:
// values and matchers as in an [ArgsConfig] of match contains, except that regex and contains
// look into the JSON of what is no string.
type Matchers map[string]json.RawMessage

// Compile refuses what makes no sense; its errors name the place, from "args" on.
func (m Matchers) Compile() (*Args, error) {
	if len(m) == 0 {
		return nil, nil
	}
	return compiler{loose: true}.args("args", m)
}

// rule is how a given object is compared with an expected one, at every depth.
type rule int

const (
	contains rule = iota // members beyond the expected may be given
	within               // expected members may be missing, and no others given
	exact                // the same members
)

// Args is a compiled [ArgsConfig]. A nil one expects nothing.
type Args struct {
	want matcher // nil takes all
	form string
}

// Compile refuses what makes no sense; its errors name the place, from "match" and
// "values" on.
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

// Fit is how far arguments do what is expected of them.
//
// Each leaf of the expected values is one constraint: a scalar, a matcher, an empty list or
// object. With exact and within, each member that is given and not expected is one more, which
// does not hold, and the items by which a list is too long are one more together. So Satisfied
// never exceeds Total, and to give more of what is not wanted, or less of what is, never raises
// their share.
type Fit struct {
	Satisfied, Total int
	Differences      []Difference // at most MaxDifferences
}

// Full reports whether all that is expected holds.
func (f Fit) Full() bool { return f.Satisfied == f.Total }

// Check compares the arguments of a call, as they crossed the wire, with what is expected.
// Arguments that are left out are {}; what is no object does not fit unless nothing is
// expected.
func (a *Args) Check(arguments json.RawMessage) Fit {
	return a.fit(decode(arguments), true)
}

// fit leaves Differences out unless describe is set.
func (a *Args) fit(got any, describe bool) Fit {
	if a == nil || a.want == nil {
		return Fit{}
	}
	t := tally{describe: describe}
	a.want.check(&t, got)
	return t.Fit
}

// String says in words what is expected. It is empty where nothing is.
func (a *Args) String() string {
	if a == nil || a.want == nil {
		return ""
	}
	return a.want.String()
}

// key returns the step of a path to a member: .name, or ["na me"].
func key(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return "[" + quote(name) + "]"
	}
	return "." + name
}

// decode parses arguments as they crossed the wire.
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
