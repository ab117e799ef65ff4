package schema

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Limits on the schemas of one server. Those of real servers stay below a tenth of each.
const (
	maxSchema  = 1 << 20 // bytes
	maxNesting = 64      // nesting depth of schemas and values
	maxPlaces  = 4096    // objects and booleans in a schema, each of which may be a schema
	maxPaths   = 4 << 20 // total bytes of their paths
	// maxAllPlaces limits the sum of the squared numbers of places of all schemas, which is
	// the number of steps to compile them.
	maxAllPlaces = 4 * maxPlaces * maxPlaces

	maxSteps    = 20_000_000  // per check, and for compiling one schema's patterns; a step takes a few ns
	maxAllSteps = 400_000_000 // of all checks
	visitSteps  = 200         // to validate one value against one schema, including a possible error
	maxPattern  = 5000        // instructions of one regular expression
)

// Checker checks arguments of calls against the input schemas of one MCP server. It
// compiles each schema once, on first use. The cost of a hostile schema is limited by
// counting steps, not by time, so that the same input yields the same findings on every
// machine. Whatever exceeds the limits is not checked, which the finding says. The zero
// value is ready to use.
type Checker struct {
	compiled map[[sha256.Size]byte]*bounded
	places   int // sum of the squared places of compiled schemas
	spent    int // steps of all checks
	clock    clock
}

// Finding is the result of checking arguments.
type Finding struct {
	Valid     bool
	Misfits   []string // where and why they do not match: the first few, and how many more
	Unchecked []string // parts of the schema that were left out of the check, and why
	Unknown   string   // why the check was not possible; empty if it was
}

// bounded is a compiled schema, or the reason why it could not be compiled.
type bounded struct {
	root  *jsonschema.Schema
	meter *meter
	fault string
}

// Check checks arguments, as returned by [jsontext.Parse], against a schema.
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
	doc, err := jsontext.Parse(raw)
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
	s := &bounded{meter: &meter{size: extent.size, clock: &c.clock}}
	if err := s.compile(doc); err != nil {
		return &bounded{fault: faultOf(doc, err)}
	}
	return s
}

// errUnreadable is the error for a schema that makes the compiler panic.
var errUnreadable = errors.New("cannot be read")

func (s *bounded) compile(doc any) (err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case errSpent:
			err = errSpent
		default: // the compiler relies on unchecked assumptions
			err = errUnreadable
		}
	}()
	// The schema is compiled twice, because a compiler with a custom vocabulary does not
	// check schemas of every draft against their metaschemas.
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

// faultOf describes why a schema cannot be compiled. It does not use the compiler's
// message, which may vary because members of objects are visited in random order.
func faultOf(doc any, err error) string {
	if err == errSpent {
		return "has patterns that are too large"
	}
	if ref := outside(doc); ref != "" {
		return fmt.Sprintf("refers to %q, which is not loaded", text.Shorten(ref, maxMisfit))
	}
	return "is not a valid JSON Schema"
}

// outside returns the alphabetically first reference in a schema to another document, or
// "".
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
	s.meter.spent, s.meter.unchecked = 0, map[string]bool{}
	defer func() {
		switch r := recover(); r {
		case nil:
		case errCycle:
			found = Finding{Unknown: "the input schema " + errCycle.Error()}
		case errSpent:
			found = Finding{Unknown: "checking them against the input schema takes too long"}
		default:
			found = Finding{Unknown: "the input schema cannot be applied"}
		}
	}()
	wrong := s.misfits(arguments, true)
	if len(wrong) > 0 && len(s.meter.unchecked) > 0 {
		// What does not depend on those patterns is wrong either way.
		other := s.misfits(arguments, false)
		wrong = slices.DeleteFunc(wrong, func(w string) bool { return !slices.Contains(other, w) })
	}
	unchecked := slices.Sorted(maps.Keys(s.meter.unchecked))
	return Finding{Valid: len(wrong) == 0, Misfits: text.Few(wrong, maxMisfits), Unchecked: text.Few(unchecked, maxMisfits)}
}

// misfits validates arguments. Patterns that cannot be applied match, or do not.
func (s *bounded) misfits(arguments any, assumed bool) []string {
	s.meter.assumed = assumed
	var failed *jsonschema.ValidationError
	if !errors.As(s.root.Validate(arguments), &failed) {
		return nil
	}
	if isCycle(failed) {
		panic(errCycle)
	}
	return misfits(failed, maxLeaves)
}

// errSpent is the value with which a meter panics, which is the only way to stop a
// validator.
var errSpent = errors.New("too many steps")

// meter counts the steps of a validator. Schemas that refer to each other can make it visit
// a value a number of times that is exponential in their length.
type meter struct {
	size  int // of the whole schema
	spent int
	clock *clock // of all schemas

	unchecked map[string]bool // patterns that were used and could not be applied, and why
	assumed   bool            // whether they match
}

func (m *meter) spend(steps int) {
	if m.spent += steps; m.spent > maxSteps {
		panic(errSpent)
	}
}

// watch makes every schema that compiler compiles spend steps for each value that it
// validates. The caller must call the returned function when the compiler is done.
//
// The validator checks a schema's format before it descends into other schemas, so the
// steps are spent there: the size of the whole schema for each part of the value. That is
// an upper bound on the cost of reaching the formats of the schemas below.
func (m *meter) watch(compiler *jsonschema.Compiler) (attach func()) {
	var all []*jsonschema.Schema
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "mem:///meter",
		Compile: func(c *jsonschema.CompilerContext, _ map[string]any) (jsonschema.SchemaExt, error) {
			all = append(all, c.Enqueue(nil)) // the schema being compiled
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

// pattern compiles a pattern of a schema. It never fails: a pattern that cannot be applied is left
// out of the check.
func (m *meter) pattern(source string) (jsonschema.Regexp, error) {
	p := &pattern{source: source, meter: m}
	p.expression, p.fault = compilePattern(source, m.clock)
	if p.fault == nil {
		m.spend(p.size)
	}
	return p, nil
}

// pattern is a pattern of a hostile schema.
type pattern struct {
	*expression
	source string
	fault  error // why it cannot be applied
	meter  *meter
}

func (p *pattern) String() string { return p.source }

func (p *pattern) MatchString(s string) bool {
	if p.fault == nil {
		p.meter.spend(p.size * (1 + len(s)))
		ok, err := p.match(s)
		if err == nil {
			return ok
		}
		p.fault = err
	}
	p.meter.unchecked[fmt.Sprintf("the pattern %s of the input schema %v", text.Quote(p.source, maxQuoted), p.fault)] = true
	return p.meter.assumed
}

// instructions returns the approximate size of a compiled regular expression.
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

// extent measures the work that a JSON value causes.
type extent struct {
	size    int // number of values, plus one for every [valueBytes] of text
	nesting int
	places  int
	paths   int
	huge    string // alphabetically first huge number
}

const (
	valueBytes = 256 // bytes of text that take as long to compare as another value
	indexBytes = 8   // minimum bytes of an array index in a path
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
		if jsontext.IsHuge(string(v)) && (e.huge == "" || string(v) < e.huge) {
			e.huge = string(v)
		}
	}
}

// tooLarge returns why a Checker does not check a value, or "".
func (e extent) tooLarge() string {
	switch {
	case e.nesting > maxNesting:
		return fmt.Sprintf("nested deeper than %d levels", maxNesting)
	case e.huge != "":
		return fmt.Sprintf("with a number of more than %d digits", jsontext.MaxDigits)
	}
	return ""
}

// hugeNumber returns an error if a number is too expensive to compare, since schemas
// compare numbers exactly, as fractions.
func (e extent) hugeNumber() error {
	if e.huge == "" {
		return nil
	}
	return fmt.Errorf("the number %s is too long or too large to compare", text.Quote(e.huge, maxMisfit))
}
