package schema

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/internal/text"
)

// What the schemas of one server may cost. Those of real servers stay below a tenth of each
// bound.
const (
	maxSchema  = 1 << 20 // bytes
	maxNesting = 64      // levels, of schemas and values
	maxPlaces  = 4096    // objects and booleans of a schema, each of which may be a schema
	maxPaths   = 4 << 20 // bytes of all their paths
	// maxAllPlaces bounds the sum of the squares of the places of all schemas: compiling one
	// takes that many steps.
	maxAllPlaces = 4 * maxPlaces * maxPlaces

	maxSteps    = 20_000_000  // of one check, and of compiling one schema's patterns; a step takes a few ns
	maxAllSteps = 400_000_000 // of all checks
	visitSteps  = 200         // of looking at one value by one schema, with the error that may come of it
	maxPattern  = 5000        // instructions of one regular expression
)

// Checker checks arguments of calls against the input schemas of one MCP server, each of which
// it compiles once, when it is first needed. What a hostile schema can cost is bounded by
// counting and never by a clock, so that the same input gives the same findings on every
// machine. What is beyond the bounds is not checked, and says so. The zero value is ready to
// use.
type Checker struct {
	compiled map[[sha256.Size]byte]*bounded
	places   int // of compiled schemas: the sum of their squares
	spent    int // steps of all checks
}

// Finding is whether arguments fit a schema.
type Finding struct {
	Valid   bool
	Misfits []string // where they do not fit and why: the first few, and how many more
	Unknown string   // why it is not known whether they fit; empty where it is
}

// bounded is a compiled schema of a server, or why there is none.
type bounded struct {
	root  *jsonschema.Schema
	meter *meter
	fault string
}

// Check checks arguments, as [jsonvalue.Parse] returns them, against a schema.
func (c *Checker) Check(schema json.RawMessage, arguments any) Finding {
	if len(schema) == 0 {
		return Finding{Unknown: "the tool has no input schema"}
	}
	if why := measure(arguments).tooLarge(); why != "" {
		return Finding{Unknown: "arguments " + why}
	}
	s := c.schema(schema)
	if s.fault != "" {
		return Finding{Unknown: "the input schema " + s.fault}
	}
	if c.spent >= maxAllSteps {
		return Finding{Unknown: "checking this server's calls took too long before"}
	}
	found := s.check(arguments)
	c.spent += s.meter.spent
	return found
}

func (c *Checker) schema(raw json.RawMessage) *bounded {
	sum := sha256.Sum256(raw)
	s := c.compiled[sum]
	if s == nil {
		s = c.compile(raw)
		if c.compiled == nil {
			c.compiled = map[[sha256.Size]byte]*bounded{}
		}
		c.compiled[sum] = s
	}
	return s
}

func (c *Checker) compile(raw json.RawMessage) *bounded {
	if len(raw) > maxSchema {
		return &bounded{fault: fmt.Sprintf("is larger than %d bytes", maxSchema)}
	}
	doc, err := jsonvalue.Parse(raw)
	if err != nil {
		return &bounded{fault: "is not JSON"}
	}
	extent := measure(doc)
	if why := extent.tooLarge(); why != "" {
		return &bounded{fault: "is " + why}
	}
	if extent.places > maxPlaces || extent.paths > maxPaths {
		return &bounded{fault: fmt.Sprintf("has more than %d parts, or too long names of them", maxPlaces)}
	}
	if c.places += extent.places * extent.places; c.places > maxAllPlaces {
		return &bounded{fault: "is one of too many large ones of its server"}
	}
	s := &bounded{meter: &meter{size: extent.size}}
	if err := s.compile(doc); err != nil {
		return &bounded{fault: faultOf(doc, err)}
	}
	return s
}

// errUnreadable is for a schema that makes its compiler panic.
var errUnreadable = errors.New("cannot be read")

func (s *bounded) compile(doc any) (err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case errSpent:
			err = errSpent
		default: // it indexes and dereferences what it takes for granted
			err = errUnreadable
		}
	}()
	// Twice: a compiler with a vocabulary of ours no longer checks schemas of every draft
	// against their metaschemas.
	compiler := newCompiler()
	compiler.UseRegexpEngine(s.meter.pattern)
	if _, err := compile(compiler, doc); err != nil {
		return err
	}
	compiler = newCompiler()
	compiler.UseRegexpEngine(s.meter.pattern)
	attach := s.meter.watch(compiler)
	s.root, err = compile(compiler, doc)
	attach()
	return err
}

// faultOf says what is wrong with a schema that cannot be compiled. The compiler's own
// message may differ each time, since it visits members of objects in random order.
func faultOf(doc any, err error) string {
	if err == errSpent {
		return "has patterns that are too large"
	}
	if ref := outside(doc); ref != "" {
		return fmt.Sprintf("refers to %q, which is not loaded", text.Shorten(ref, maxMisfit))
	}
	return "is no valid JSON Schema"
}

// outside returns the first reference of a schema, in alphabetical order, to another
// document, or the empty string.
func outside(v any) string {
	first := ""
	consider := func(ref string) {
		if ref != "" && (first == "" || ref < first) {
			first = ref
		}
	}
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && !strings.HasPrefix(ref, "#") {
			consider(ref)
		}
		if dialect, ok := v["$schema"].(string); ok && !strings.Contains(dialect, "://json-schema.org/") {
			consider(dialect)
		}
		for _, part := range v {
			consider(outside(part))
		}
	case []any:
		for _, part := range v {
			consider(outside(part))
		}
	}
	return first
}

func (s *bounded) check(arguments any) (found Finding) {
	s.meter.spent, s.meter.opaque = 0, false
	defer func() {
		switch r := recover(); r {
		case nil:
		case errSpent:
			found = Finding{Unknown: "holding them against the input schema takes too long"}
		default:
			found = Finding{Unknown: "the input schema cannot be applied"}
		}
	}()
	err := s.root.Validate(arguments)
	if s.meter.opaque {
		return Finding{Unknown: "the input schema has a pattern that is no RE2 regular expression, or too large a one"}
	}
	var failed *jsonschema.ValidationError
	if errors.As(err, &failed) {
		return Finding{Misfits: misfits(failed, maxMisfits)}
	}
	return Finding{Valid: true}
}

// errSpent is what a meter panics with: a validator has no other way to stop.
var errSpent = errors.New("too many steps")

// meter counts what a validator does. Schemas that refer to each other can make it look at
// one value a number of times that is exponential in their length.
type meter struct {
	size   int // of the whole schema
	spent  int
	opaque bool // a pattern was asked that could not be read
}

func (m *meter) spend(steps int) {
	if m.spent += steps; m.spent > maxSteps {
		panic(errSpent)
	}
}

// watch makes every schema that compiler compiles pay for each value that it looks at. The
// function that it returns is to be called when the compiler is done.
//
// The validator asks a schema's format before it goes on to other schemas, so that is where
// a schema pays: for the whole schema at every part of the value. That is more than it can
// cost to come to the formats of the schemas below.
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
	asked := s.Format
	s.Format = &jsonschema.Format{Validate: func(v any) error {
		m.spend((visitSteps + m.size) * measure(v).size)
		if asked == nil {
			return nil
		}
		return asked.Validate(v)
	}}
	if asked != nil {
		s.Format.Name = asked.Name
	}
}

// pattern compiles a regular expression of a schema. It never fails: one that cannot be read
// makes those answers unknown that depend on it, and no other.
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

// instructions returns about how large a regular expression is when it is compiled.
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

// extent is how much work a JSON value can make of little text.
type extent struct {
	size    int // values, and one more for every [valueBytes] of text
	nesting int
	places  int
	paths   int
	huge    string // the first, in alphabetical order, of the numbers that are huge
}

const (
	valueBytes = 256 // bytes of text that take about as long to compare as another value
	indexBytes = 8   // at least the bytes of a step of a path to an element
)

func measure(v any) extent {
	var e extent
	e.add(v, 1, 0)
	return e
}

func (e *extent) add(v any, nesting, path int) {
	e.size++
	e.nesting = max(e.nesting, nesting)
	switch v := v.(type) {
	case map[string]any:
		e.places++
		e.paths += path
		for key, part := range v {
			e.size += len(key) / valueBytes
			e.add(part, nesting+1, path+1+len(key))
		}
	case []any:
		for _, part := range v {
			e.add(part, nesting+1, path+indexBytes)
		}
	case bool:
		e.places++
		e.paths += path
	case string:
		e.size += len(v) / valueBytes
	case json.Number:
		if jsonvalue.IsHuge(string(v)) && (e.huge == "" || string(v) < e.huge) {
			e.huge = string(v)
		}
	}
}

// tooLarge says why a Checker does not look at a value; it is empty where it does.
func (e extent) tooLarge() string {
	switch {
	case e.nesting > maxNesting:
		return fmt.Sprintf("nested deeper than %d levels", maxNesting)
	case e.huge != "":
		return fmt.Sprintf("with a number of more than %d digits", jsonvalue.MaxDigits)
	}
	return ""
}

// hugeNumber returns an error where a number takes too long to compare: schemas compare
// numbers as fractions, to the last digit.
func (e extent) hugeNumber() error {
	if e.huge == "" {
		return nil
	}
	return fmt.Errorf("the number %s is too long or too large to be compared", text.Quote(e.huge, maxMisfit))
}
