package match

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// matcher is what is expected of a value.
type matcher interface {
	// leaves is how many constraints it is, at least one.
	leaves() int
	// check compares got with it: a JSON value, or absent{}.
	check(t *tally, got any)
	// String says in words what it takes.
	String() string
}

type (
	absent  struct{} // what is not given
	notJSON struct{} // arguments that are no JSON value
)

// literal takes one value.
type literal struct{ value any }

func (l literal) leaves() int             { return 1 }
func (l literal) check(t *tally, got any) { t.leaf(l, jsonvalue.Equal(l.value, got), got) }
func (l literal) String() string          { return show(l.value) }

// object takes objects whose members do what is expected, by the rule.
type object struct {
	rule    rule
	names   []string // in order
	members []matcher
	index   map[string]int // of a name in names
}

func (o object) leaves() int {
	sum := 0
	for _, member := range o.members {
		sum += member.leaves()
	}
	return max(1, sum)
}

func (o object) check(t *tally, got any) {
	given, ok := got.(map[string]any)
	if len(o.names) == 0 {
		t.leaf(o, ok && (o.rule == contains || len(given) == 0), got)
		return
	}
	if !ok {
		t.fail(o, o.leaves(), got)
		return
	}
	for i, name := range o.names {
		value, ok := given[name]
		switch {
		case ok:
			t.at(step{name: name}, o.members[i], value)
		case o.rule == within:
			t.hold(o.members[i].leaves())
		default:
			t.at(step{name: name}, o.members[i], absent{})
		}
	}
	if o.rule != contains {
		o.surplus(t, given)
	}
}

// surplus counts members that are given and not expected.
func (o object) surplus(t *tally, given map[string]any) {
	for name := range ordered(given, t.tell) {
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

// array takes lists of just these items in order.
type array struct{ items []matcher }

func (a array) leaves() int {
	sum := 0
	for _, item := range a.items {
		sum += item.leaves()
	}
	return max(1, sum)
}

func (a array) check(t *tally, got any) {
	given, ok := got.([]any)
	if len(a.items) == 0 {
		t.leaf(a, ok && len(given) == 0, got)
		return
	}
	if !ok {
		t.fail(a, a.leaves(), got)
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
		t.count(false, fmt.Sprintf("%d items", len(a.items)), fmt.Sprint(len(given)))
	}
}

func (a array) String() string { return "[" + join(a.items) + "]" }

// anyOf takes what one of its alternatives takes in full.
type anyOf struct{ alternatives []matcher }

func (a anyOf) leaves() int { return 1 }

func (a anyOf) check(t *tally, got any) {
	for _, alternative := range a.alternatives {
		if takes(alternative, got) {
			t.hold(1)
			return
		}
	}
	t.fail(a, 1, got)
}

func (a anyOf) String() string { return "one of " + join(a.alternatives) }

// regex takes strings that have a match.
type regex struct{ expression *regexp.Regexp }

func (r regex) leaves() int { return 1 }

func (r regex) check(t *tally, got any) {
	text, ok := got.(string)
	t.leaf(r, ok && r.expression.MatchString(text), got)
}

func (r regex) String() string { return fmt.Sprintf("text that matches /%s/", r.expression) }

// between takes numbers from low to high, themselves included. An empty bound is
// none.
type between struct{ low, high string }

func (b between) leaves() int { return 1 }

func (b between) check(t *tally, got any) {
	number, ok := got.(json.Number)
	t.leaf(b, ok &&
		(b.low == "" || jsonvalue.CompareNumbers(string(number), b.low) >= 0) &&
		(b.high == "" || jsonvalue.CompareNumbers(string(number), b.high) <= 0), got)
}

func (b between) String() string {
	switch {
	case b.low == "":
		return "a number up to " + b.high
	case b.high == "":
		return "a number from " + b.low
	}
	return fmt.Sprintf("a number from %s to %s", b.low, b.high)
}

// set takes lists of just these items in any order.
type set struct{ items []matcher }

func (s set) leaves() int { return 1 }

func (s set) check(t *tally, got any) {
	given, ok := got.([]any)
	t.leaf(s, ok && s.covers(given), got)
}

// covers reports whether each item can have a value of its own.
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

// absentOr takes nothing, or what its value takes in full.
type absentOr struct{ value matcher }

func (a absentOr) leaves() int { return 1 }

func (a absentOr) check(t *tally, got any) {
	_, missing := got.(absent)
	t.leaf(a, missing || takes(a.value, got), got)
}

func (a absentOr) String() string { return "nothing or " + a.value.String() }

// nothing takes what is not given.
type nothing struct{}

func (nothing) leaves() int               { return 1 }
func (n nothing) check(t *tally, got any) { t.leaf(n, got == absent{}, got) }
func (nothing) String() string            { return "nothing" }

// takes reports whether m takes got in full.
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
