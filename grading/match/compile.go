package match

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// place is where in the config a value is.
type place string

func (p place) member(name string) place { return p + place(key(name)) }
func (p place) item(i int) place         { return p + place(fmt.Sprintf("[%d]", i)) }

// compiler makes matchers of values and collects what is wrong with them. Where
// something is, what it returns is not used.
type compiler struct {
	rule rule
	errs []error
}

func (c *compiler) wrong(at place, format string, args ...any) matcher {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", at, fmt.Sprintf(format, args...)))
	return literal{}
}

// kinds are the keys of matchers.
var kinds = []string{"any_of", "regex", "range", "set", "absent_or", "equals"}

// value compiles a value that may be a matcher.
func (c *compiler) value(at place, v any) matcher {
	switch v := v.(type) {
	case map[string]any:
		for _, kind := range kinds {
			if _, ok := v[kind]; !ok {
				continue
			}
			if len(v) > 1 {
				return c.wrong(at, "%s stands beside other keys, and a matcher has one key; for an object with such a key write {equals: {...}}", kind)
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
	case "range":
		return c.bounds(at, v)
	case "set":
		if items, ok := v.([]any); ok {
			return set{c.list(at, items)}
		}
		return c.wrong(at, "must be a list")
	case "absent_or":
		return absentOr{c.value(at, v)}
	}
	return literal{v}
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

func (c *compiler) regex(at place, v any) matcher {
	text, ok := v.(string)
	if !ok {
		return c.wrong(at, "must be a string")
	}
	expression, err := regexp.Compile(text)
	if err != nil {
		return c.wrong(at, "%s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return regex{expression}
}

func (c *compiler) bounds(at place, v any) matcher {
	ends, ok := v.([]any)
	if !ok || len(ends) != 2 {
		return c.wrong(at, "must be a list of two numbers, of which one may be null")
	}
	var bounds [2]string
	for i, end := range ends {
		number, ok := end.(json.Number)
		if !ok && end != nil {
			return c.wrong(at.item(i), "must be a number or null")
		}
		bounds[i] = string(number)
	}
	low, high := bounds[0], bounds[1]
	switch {
	case low == "" && high == "":
		return c.wrong(at, "has no bound")
	case low != "" && high != "" && jsonvalue.CompareNumbers(low, high) > 0:
		return c.wrong(at, "is empty: %s is more than %s", low, high)
	}
	return between{low, high}
}
