package match

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/schema"
)

// matcher describes expected values.
type matcher interface {
	// check compares got, a JSON value or absent{}, with the expected values.
	check(t *tally, got any)
	// String describes the values that match.
	String() string
}

// leaves returns the number of constraints of a matcher: those of its members or items, or one.
func leaves(m matcher) int {
	var parts []matcher
	switch m := m.(type) {
	case object:
		parts = m.members
	case array:
		parts = m.items
	}
	sum := 0
	for _, part := range parts {
		sum += leaves(part)
	}
	return max(1, sum)
}

type (
	absent  struct{} // a value that is not given
	notJSON struct{} // arguments that are not valid JSON
)

// literal matches exactly one value.
type literal struct{ value any }

func (l literal) check(t *tally, got any) { t.leaf(l, jsontext.Equal(l.value, got), got) }
func (l literal) String() string          { return show(l.value) }

// object matches objects by their members and the rule.
type object struct {
	rule    rule
	names   []string // sorted
	members []matcher
	index   map[string]int // indexes in names
}

func (o object) check(t *tally, got any) {
	given, ok := got.(map[string]any)
	if len(o.names) == 0 {
		t.leaf(o, ok && (o.rule == contains || len(given) == 0), got)
		return
	}
	if !ok {
		t.fail(o, got)
		return
	}
	for i, name := range o.names {
		value, ok := given[name]
		switch {
		case ok:
			t.at(step{name: name}, o.members[i], value)
		case o.rule == within:
			t.hold(leaves(o.members[i]))
		default:
			t.at(step{name: name}, o.members[i], absent{})
		}
	}
	if o.rule != contains {
		o.surplus(t, given)
	}
}

// surplus counts the given members that are not expected.
func (o object) surplus(t *tally, given map[string]any) {
	for name := range ordered(given, t.describe) {
		if _, ok := o.index[name]; !ok {
			t.at(step{name: name}, nothing{}, given[name])
		}
	}
}

func (o object) String() string {
	if len(o.names) == 0 && o.rule == contains {
		return "an object"
	}
	parts := make([]string, len(o.names))
	for i, name := range o.names {
		parts[i] = name + ": " + o.members[i].String()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// array matches lists of exactly these items, in this order.
type array struct{ items []matcher }

func (a array) check(t *tally, got any) {
	given, ok := got.([]any)
	if len(a.items) == 0 {
		t.leaf(a, ok && len(given) == 0, got)
		return
	}
	if !ok {
		t.fail(a, got)
		return
	}
	for i, item := range a.items {
		if i < len(given) {
			t.at(step{index: i + 1}, item, given[i])
		} else {
			t.at(step{index: i + 1}, item, absent{})
		}
	}
	if len(given) > len(a.items) {
		t.fails(fmt.Sprintf("%d items", len(a.items)), fmt.Sprint(len(given)))
	}
}

func (a array) String() string { return "[" + join(a.items) + "]" }

// anyOf matches if one of its alternatives matches.
type anyOf struct{ alternatives []matcher }

func (a anyOf) check(t *tally, got any) {
	for _, alternative := range a.alternatives {
		if takes(alternative, got) {
			t.hold(1)
			return
		}
	}
	t.fail(a, got)
}

func (a anyOf) String() string { return "one of " + join(a.alternatives) }

// regex matches strings that contain a match of an expression.
type regex struct {
	expression *regexp.Regexp
	loose      bool // match other values by their JSON
}

func (r regex) check(t *tally, got any) {
	text, ok := textOf(got, r.loose)
	t.leaf(r, ok && r.expression.MatchString(text), got)
}

func (r regex) String() string { return fmt.Sprintf("text that matches /%s/", r.expression) }

// includes matches strings that contain another.
type includes struct {
	text  string
	loose bool // as in regex
}

func (i includes) check(t *tally, got any) {
	text, ok := textOf(got, i.loose)
	t.leaf(i, ok && strings.Contains(text, i.text), got)
}

func (i includes) String() string { return "text that contains " + quote(i.text) }

// textOf returns the text of a string or, if loose is set, the JSON of another value.
func textOf(got any, loose bool) (string, bool) {
	text, ok := got.(string)
	if ok || !loose || !isValue(got) {
		return text, ok
	}
	return jsontext.Encode(got), true
}

// isValue reports whether got is a JSON value.
func isValue(got any) bool { return got != absent{} && got != notJSON{} }

// between matches numbers within bounds. An empty bound means no limit.
type between struct {
	low, high    string
	above, below bool // the bound itself is excluded
}

func (b between) check(t *tally, got any) {
	number, ok := got.(json.Number)
	t.leaf(b, ok && b.takes(string(number)), got)
}

func (b between) takes(number string) bool {
	if b.low != "" {
		if c := jsontext.CompareNumbers(number, b.low); c < 0 || c == 0 && b.above {
			return false
		}
	}
	if b.high != "" {
		if c := jsontext.CompareNumbers(number, b.high); c > 0 || c == 0 && b.below {
			return false
		}
	}
	return true
}

func (b between) String() string {
	if b.low != "" && b.high != "" && !b.above && !b.below {
		return b.low + "–" + b.high
	}
	low, high := "", ""
	switch {
	case b.low != "" && b.above:
		low = " above " + b.low
	case b.low != "":
		low = " from " + b.low
	}
	switch {
	case b.high == "":
	case b.below && low != "":
		high = " and below " + b.high
	case b.below:
		high = " below " + b.high
	case low != "":
		high = " to " + b.high
	default:
		high = " up to " + b.high
	}
	return "a number" + low + high
}

// fits matches values that fit a JSON Schema.
type fits struct{ schema *schema.Schema }

func (f fits) check(t *tally, got any) {
	var wrong []string
	fit := isValue(got)
	if fit {
		var err error
		if wrong, err = f.schema.Misfits(got, maxMisfits); err != nil {
			wrong = []string{err.Error()}
		}
		fit = len(wrong) == 0
	}
	if fit || !t.describe || wrong == nil {
		t.leaf(f, fit, got)
		return
	}
	t.fails(f.String(), fmt.Sprintf("%s (%s)", show(got), strings.Join(wrong, "; ")))
}

func (f fits) String() string { return "a value that fits the schema" }

// maxMisfits is the maximum number of reasons given for why a value does not fit a schema.
const maxMisfits = 8

// set matches lists of exactly these items, in any order.
type set struct{ items []matcher }

func (s set) check(t *tally, got any) {
	given, ok := got.([]any)
	t.leaf(s, ok && s.covers(given), got)
}

// covers reports whether each item can be matched with a value of its own.
func (s set) covers(given []any) bool {
	if len(given) != len(s.items) {
		return false
	}
	one := slices.Repeat([]int{1}, len(s.items))
	return !slices.Contains(Fill(one, len(given), func(item, value int) bool { return takes(s.items[item], given[value]) }), -1)
}

func (s set) String() string {
	if len(s.items) == 0 {
		return "[]"
	}
	return "[" + join(s.items) + "] in any order"
}

// absentOr matches an absent value, and values that its matcher matches in full.
type absentOr struct{ value matcher }

func (a absentOr) check(t *tally, got any) {
	_, missing := got.(absent)
	t.leaf(a, missing || takes(a.value, got), got)
}

func (a absentOr) String() string { return "nothing or " + a.value.String() }

// nothing matches only an absent value.
type nothing struct{}

func (n nothing) check(t *tally, got any) { t.leaf(n, got == absent{}, got) }
func (nothing) String() string            { return "nothing" }

// takes reports whether m matches got in full.
func takes(m matcher, got any) bool {
	var t tally
	m.check(&t, got)
	return t.Full()
}

func join(items []matcher) string {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.String()
	}
	return strings.Join(texts, ", ")
}
