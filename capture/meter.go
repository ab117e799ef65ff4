package capture

import (
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What checking may cost, in steps of some 20 ns.
const (
	maxSteps    = 1_000_000  // of one check, and of one schema's patterns
	maxAllSteps = 20_000_000 // of the checks of one server's calls
	visitSteps  = 10         // of looking at one value by one schema, with the error that may come of it
	maxPattern  = 5000       // instructions of one regular expression
)

// errSpent is what a meter panics with: a validator has no other way to stop.
var errSpent = errors.New("too many steps")

// meter counts what a validator does. Schemas that refer to each other can have it
// look at one value a number of times that is exponential in their length.
type meter struct {
	spent  int
	opaque bool // a pattern was asked that nobody can read
}

func (m *meter) spend(steps int) {
	if m.spent += steps; m.spent > maxSteps {
		panic(errSpent)
	}
}

// watch has every schema that compiler compiles pay for what it is made to do. What it
// returns is to be called when the compiler is done.
//
// A schema's format is what a validator asks before it goes on to other schemas, so
// that is where it pays.
func (m *meter) watch(compiler *jsonschema.Compiler) (attach func()) {
	var all []*jsonschema.Schema
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "mem:///meter",
		Compile: func(c *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			all = append(all, c.Enqueue(nil)) // the one that is being compiled
			return nil, nil
		},
	})
	compiler.AssertVocabs()
	return func() {
		for _, s := range all {
			m.attach(s)
		}
	}
}

func (m *meter) attach(s *jsonschema.Schema) {
	once, each := visits(s)
	format := s.Format
	s.Format = &jsonschema.Format{Validate: func(v any) error {
		m.spend(once + (1+breadth(v))*each)
		if s.UniqueItems {
			m.spend(20 * count(v)) // up to 20 items are compared each with each
		}
		if format == nil {
			return nil
		}
		return format.Validate(v)
	}}
	if format != nil {
		s.Format.Name = format.Name
	}
}

// visits is what a schema's parts cost: those that are asked once of a value, and
// those that are asked of each of its members.
func visits(s *jsonschema.Schema) (once, each int) {
	once = visitSteps + len(s.Required) + cost(
		slices.Values([]*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}),
		slices.Values(s.AllOf), slices.Values(s.AnyOf), slices.Values(s.OneOf), slices.Values(s.PrefixItems),
		maps.Values(s.Properties), maps.Values(s.DependentSchemas),
	)
	if s.DynamicRef != nil {
		once += cost(slices.Values([]*jsonschema.Schema{s.DynamicRef.Ref}))
	}
	for _, dependency := range s.Dependencies {
		once += costOf(dependency)
	}
	each = 1 + costOf(s.AdditionalProperties) + costOf(s.AdditionalItems) + costOf(s.Items) + cost(
		slices.Values([]*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.UnevaluatedItems, s.Contains, s.Items2020}),
		maps.Values(s.PatternProperties),
	)
	return once, each
}

func cost(groups ...iter.Seq[*jsonschema.Schema]) int {
	steps := 0
	for _, group := range groups {
		for s := range group {
			if s != nil {
				steps += costOf(s)
			}
		}
	}
	return steps
}

// costOf is what it takes to look at a value by a schema, or by several, as far as it
// comes before their own formats.
func costOf(s any) int {
	switch s := s.(type) {
	case *jsonschema.Schema:
		steps := visitSteps
		if s.Enum != nil {
			steps += count(s.Enum.Values)
		}
		if s.Const != nil {
			steps += count(*s.Const)
		}
		return steps
	case []*jsonschema.Schema:
		return cost(slices.Values(s))
	}
	return 0
}

// breadth is how many members a value has.
func breadth(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	case string:
		return len(v) / 16
	}
	return 0
}

// count is how many values a value has within it, itself included.
func count(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for key, part := range v {
			n += len(key)/16 + count(part)
		}
	case []any:
		for _, part := range v {
			n += count(part)
		}
	case string:
		n += len(v) / 16
	case json.Number:
		n += 20 + len(v) // it is read anew whenever it is compared
	}
	return n
}

// pattern reads a regular expression for a schema. It never fails: one that is not
// read makes those answers unknown that depend on it, and no other.
func (m *meter) pattern(expression string) (jsonschema.Regexp, error) {
	p := &pattern{text: expression, meter: m}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return p, nil
	}
	if p.size = instructions(parsed); p.size > maxPattern {
		return p, nil
	}
	m.spend(p.size)
	if re, err := regexp.Compile(expression); err == nil {
		p.re = re
	}
	return p, nil
}

type pattern struct {
	text  string
	re    *regexp.Regexp // nil where it is not read
	size  int
	meter *meter
}

func (p *pattern) String() string { return p.text }

func (p *pattern) MatchString(s string) bool {
	if p.re == nil {
		p.meter.opaque = true
		return true
	}
	p.meter.spend(p.size * (1 + len(s)))
	return p.re.MatchString(s)
}

// instructions is about how large a regular expression is when compiled.
func instructions(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/2
	for _, part := range re.Sub {
		n += instructions(part)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min+1, re.Max)
	}
	return min(n, maxPattern+1)
}
