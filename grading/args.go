package grading

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/text"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/waza-isolate/waza/grading/match"
	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// ArgMatchers says what arguments of a use are, by their names; others may be given
// too. A matcher is waza's, an object with one of the keys
//
//	equals: VALUE                a value, equal to this one
//	regex: EXPRESSION            RE2, found somewhere in it
//	contains: TEXT               found somewhere in it
//	range: {gte, lte, gt, lt}    a number within these bounds
//	json_schema: SCHEMA          a value that fits
//
// or what [match.ArgsConfig] takes for a value. regex and contains look into a
// string, and into anything else as its JSON. An argument that is not there fits
// none but absent_or.
type ArgMatchers map[string]json.RawMessage

// argCheck is compiled matchers.
type argCheck struct {
	own  map[string]valueCheck // waza's, by argument
	rest *match.Args
}

// valueCheck says what differs in a value, empty if it fits.
type valueCheck func(json.RawMessage) string

// compile refuses what makes no sense; its errors begin with an argument's name.
func (a ArgMatchers) compile() (argCheck, error) {
	c := argCheck{own: map[string]valueCheck{}}
	rest := map[string]json.RawMessage{}
	var errs []error
	for _, name := range sortedKeys(a) {
		check, err := compileWaza(a[name])
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf(".%s: %w", name, err))
		case check != nil:
			c.own[name] = check
		default:
			rest[name] = a[name]
		}
	}
	if len(rest) > 0 {
		compiled, err := match.ArgsConfig{Values: rest}.Compile()
		if err != nil {
			errs = append(errs, err)
		}
		c.rest = compiled
	}
	return c, errors.Join(errs...)
}

// differences lists where a use's arguments are not as expected.
func (c argCheck) differences(arguments json.RawMessage) []string {
	var found []string
	given := members(arguments)
	for _, name := range sortedKeys(c.own) {
		value, ok := given[name]
		if !ok {
			found = append(found, name+" is not there")
			continue
		}
		if difference := c.own[name](value); difference != "" {
			found = append(found, name+" "+difference)
		}
	}
	if c.rest == nil {
		return found
	}
	fit := c.rest.Check(arguments)
	for _, difference := range fit.Differences {
		found = append(found, difference.String())
	}
	return found
}

// wazaMatchers compile those of waza's matchers whose like package match has not. They return
// nil for what is one of package match's.
var wazaMatchers = map[string]func(json.RawMessage) (valueCheck, error){
	"contains": compileContains, "json_schema": compileValueSchema, "range": compileRange, "regex": compileRegex,
}

// compileWaza makes a check of a matcher of waza's; nil of anything else.
func compileWaza(raw json.RawMessage) (valueCheck, error) {
	object := members(raw)
	for _, kind := range sortedKeys(object) {
		compile, ok := wazaMatchers[kind]
		if !ok {
			continue
		}
		if len(object) > 1 {
			return nil, fmt.Errorf("%s stands beside other keys, and a matcher has one key; for an object with such a key write {equals: {...}}", kind)
		}
		check, err := compile(object[kind])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return check, nil
	}
	return nil, nil
}

func compileRegex(raw json.RawMessage) (valueCheck, error) {
	text, err := nonEmpty(raw)
	if err != nil {
		return nil, err
	}
	expression, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return func(value json.RawMessage) string {
		if expression.MatchString(asText(value)) {
			return ""
		}
		return fmt.Sprintf("is %s, in which %s is not found", clip(string(value)), quote(text))
	}, nil
}

func compileContains(raw json.RawMessage) (valueCheck, error) {
	text, err := nonEmpty(raw)
	if err != nil {
		return nil, err
	}
	return func(value json.RawMessage) string {
		if strings.Contains(asText(value), text) {
			return ""
		}
		return fmt.Sprintf("is %s, which does not contain %s", clip(string(value)), quote(text))
	}, nil
}

func nonEmpty(raw json.RawMessage) (string, error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil || text == "" {
		return "", errors.New("must be a string, and not empty")
	}
	return text, nil
}

// bound is one end of a range.
type bound struct {
	words string
	holds func(comparison int) bool
	at    string // a number as JSON writes it
}

var boundsByKey = map[string]bound{
	"gte": {words: "at least", holds: func(c int) bool { return c >= 0 }},
	"lte": {words: "at most", holds: func(c int) bool { return c <= 0 }},
	"gt":  {words: "more than", holds: func(c int) bool { return c > 0 }},
	"lt":  {words: "less than", holds: func(c int) bool { return c < 0 }},
}

// compileRange reads waza's range; nil of a list, which is one of package match.
func compileRange(raw json.RawMessage) (valueCheck, error) {
	if strings.HasPrefix(strings.TrimSpace(string(raw)), "[") {
		return nil, nil
	}
	ends := members(raw)
	if len(ends) == 0 {
		return nil, errors.New("must be a list of two numbers, or a mapping with gte, lte, gt or lt")
	}
	var bounds []bound
	for _, key := range sortedKeys(ends) {
		b, ok := boundsByKey[key]
		if !ok {
			return nil, fmt.Errorf("%q is none of gte, lte, gt and lt", key)
		}
		if b.at = string(ends[key]); !isNumber(ends[key]) {
			return nil, fmt.Errorf("%s: must be a number", key)
		}
		bounds = append(bounds, b)
	}
	return func(value json.RawMessage) string {
		if !isNumber(value) {
			return fmt.Sprintf("is %s, which is no number", clip(string(value)))
		}
		i := slices.IndexFunc(bounds, func(b bound) bool { return !b.holds(jsonvalue.CompareNumbers(string(value), b.at)) })
		if i < 0 {
			return ""
		}
		return fmt.Sprintf("is %s, which is not %s %s", clip(string(value)), bounds[i].words, bounds[i].at)
	}, nil
}

func isNumber(raw json.RawMessage) bool {
	value, err := jsonvalue.Parse(raw)
	_, ok := value.(json.Number)
	return err == nil && ok
}

func compileValueSchema(raw json.RawMessage) (valueCheck, error) {
	schema, err := compileSchema(raw)
	if err != nil {
		return nil, err
	}
	return func(value json.RawMessage) string { return misfit(schema, value) }, nil
}

func misfit(schema *jsonschema.Schema, raw json.RawMessage) string {
	value, err := jsonvalue.Parse(raw)
	if err != nil {
		return "is no JSON"
	}
	found, err := violations(schema, value)
	if err != nil {
		return err.Error()
	}
	if len(found) == 0 {
		return ""
	}
	return "does not fit the schema (" + strings.Join(text.Few(found, maxShown), "; ") + ")"
}
