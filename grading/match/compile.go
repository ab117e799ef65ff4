package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/schema"
)

// place is the path of a value in the config.
type place string

func (p place) member(name string) place { return p + place(key(name)) }
func (p place) item(i int) place         { return p + place(fmt.Sprintf("[%d]", i)) }

// compiler builds matchers from values and collects errors. After an error its matchers
// must not be used.
type compiler struct {
	rule  rule
	loose bool // regex and contains match the JSON of values that are not strings
	errs  []error
}

// args compiles the expected arguments, by name.
func (c compiler) args(at place, expected map[string]json.RawMessage) (*Args, error) {
	values := make(map[string]any, len(expected))
	for name, raw := range expected {
		value, err := jsontext.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at.member(name), err)
		}
		values[name] = value
	}
	want := c.object(at, values)
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	return &Args{want: want, form: fmt.Sprint(c.rule, c.loose, jsontext.Form(values))}, nil
}

func (c *compiler) wrong(at place, format string, args ...any) matcher {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
	return literal{}
}

// kinds are the keys of matchers.
var kinds = []string{"any_of", "regex", "contains", "range", "set", "json_schema", "absent_or", "equals"}

// value compiles a value that may be a matcher.
func (c *compiler) value(at place, v any) matcher {
	switch v := v.(type) {
	case map[string]any:
		for _, kind := range kinds {
			if _, ok := v[kind]; !ok {
				continue
			}
			if len(v) > 1 {
				return c.wrong(at, "%s cannot be combined with other keys in a matcher; for an object with such a key write {equals: {...}}", kind)
			}
			return c.matcher(at.member(kind), kind, v[kind])
		}
		return c.object(at, v)
	case []any:
		return array{c.list(at, v)}
	}
	return literal{v}
}

func (c *compiler) matcher(at place, kind string, v any) matcher {
	switch kind {
	case "any_of":
		if items, ok := v.([]any); ok && len(items) > 0 {
			return anyOf{c.list(at, items)}
		}
		return c.wrong(at, "must be a list with at least one value")
	case "regex":
		return c.regex(at, v)
	case "contains":
		if text, ok := c.text(at, v); ok {
			return includes{text, c.loose}
		}
	case "range":
		if ends, ok := v.(map[string]any); ok {
			return c.bounds(at, ends)
		}
		return c.ends(at, v)
	case "json_schema":
		compiled, err := schema.CompileValue(v)
		if err != nil {
			return c.wrong(at, "%s", err)
		}
		return fits{compiled}
	case "set":
		if items, ok := v.([]any); ok {
			return set{c.list(at, items)}
		}
		return c.wrong(at, "must be a list")
	case "absent_or":
		return absentOr{c.value(at, v)}
	}
	return literal{v} // equals
}

func (c *compiler) object(at place, v map[string]any) matcher {
	made := object{rule: c.rule, index: make(map[string]int, len(v))}
	for i, name := range slices.Sorted(maps.Keys(v)) {
		made.index[name] = i
		made.names = append(made.names, name)
		made.members = append(made.members, c.value(at.member(name), v[name]))
	}
	return made
}

func (c *compiler) list(at place, items []any) []matcher {
	made := make([]matcher, len(items))
	for i, item := range items {
		made[i] = c.value(at.item(i), item)
	}
	return made
}

// text returns v as a string, and reports an error if v is no string or empty.
func (c *compiler) text(at place, v any) (string, bool) {
	text, ok := v.(string)
	switch {
	case !ok:
		c.wrong(at, "must be a string")
	case text == "":
		c.wrong(at, "must not be empty")
	}
	return text, text != ""
}

func (c *compiler) regex(at place, v any) matcher {
	text, ok := c.text(at, v)
	if !ok {
		return literal{}
	}
	expression, err := regexp.Compile(text)
	if err != nil {
		return c.wrong(at, "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return regex{expression, c.loose}
}

// ends compiles a range that is written as a list.
func (c *compiler) ends(at place, v any) matcher {
	ends, ok := v.([]any)
	if !ok || len(ends) != 2 {
		return c.wrong(at, "must be a list of two numbers, of which one may be null, or a mapping with gte, gt, lte or lt")
	}
	var bounds [2]string
	for i, end := range ends {
		number, ok := end.(json.Number)
		if !ok && end != nil {
			return c.wrong(at.item(i), "must be a number or null")
		}
		bounds[i] = string(number)
	}
	return c.between(at, between{low: bounds[0], high: bounds[1]})
}

// bounds compiles a range that is written as a mapping.
func (c *compiler) bounds(at place, ends map[string]any) matcher {
	var made between
	for _, key := range slices.Sorted(maps.Keys(ends)) {
		number, ok := ends[key].(json.Number)
		if !ok {
			return c.wrong(at.member(key), "must be a number")
		}
		switch key {
		case "gte", "gt":
			made.low, made.above = string(number), key == "gt"
		case "lte", "lt":
			made.high, made.below = string(number), key == "lt"
		default:
			return c.wrong(at, "%q is none of gte, lte, gt and lt", key)
		}
	}
	for _, both := range [][2]string{{"gte", "gt"}, {"lte", "lt"}} {
		if ends[both[0]] != nil && ends[both[1]] != nil {
			return c.wrong(at, "%s and %s: give one of them", both[0], both[1])
		}
	}
	return c.between(at, made)
}

func (c *compiler) between(at place, b between) matcher {
	switch {
	case b.low == "" && b.high == "":
		return c.wrong(at, "has no bound")
	case b.low != "" && b.high != "" && jsontext.CompareNumbers(b.low, b.high) > 0:
		return c.wrong(at, "is empty: %s is more than %s", b.low, b.high)
	}
	return b
}
