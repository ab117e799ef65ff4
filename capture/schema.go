package capture

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/internal/text"
)

// schemas hold arguments against the input schemas of one server, each of which is
// compiled once, and when it is first needed. What a hostile schema can cost is
// bounded by counting and never by a clock, so that the same frames give the same
// answers on every machine. What is beyond the bounds is not checked, and says so.
type schemas struct {
	compiled map[[sha256.Size]byte]*schema
	places   int // of those that were compiled, squared and summed up
	spent    int // steps that checks took
}

// schema is a compiled schema, or why there is none.
type schema struct {
	root  *jsonschema.Schema
	meter *meter
	fault string
}

// finding is whether arguments fit a schema.
type finding struct {
	valid   bool
	invalid []string // what does not fit
	unknown string   // why it cannot be told; empty where it can
}

func (s *schemas) check(raw json.RawMessage, arguments any) finding {
	if len(raw) == 0 {
		return finding{unknown: "the tool has no input schema"}
	}
	if why := measure(arguments).tooLarge(); why != "" {
		return finding{unknown: "arguments " + why}
	}
	c := s.schema(raw)
	if c.fault != "" {
		return finding{unknown: "the input schema " + c.fault}
	}
	if s.spent >= maxAllSteps {
		return finding{unknown: "checking this server's calls took too long before"}
	}
	found := c.check(arguments)
	s.spent += c.meter.spent
	return found
}

func (s *schemas) schema(raw json.RawMessage) *schema {
	sum := sha256.Sum256(raw)
	c := s.compiled[sum]
	if c == nil {
		c = s.compile(raw)
		if s.compiled == nil {
			s.compiled = map[[sha256.Size]byte]*schema{}
		}
		s.compiled[sum] = c
	}
	return c
}

func (s *schemas) compile(raw json.RawMessage) *schema {
	if len(raw) > maxSchema {
		return &schema{fault: fmt.Sprintf("is larger than %d bytes", maxSchema)}
	}
	doc, err := jsonvalue.Parse(raw)
	if err != nil {
		return &schema{fault: "is not JSON"}
	}
	extent := measure(doc)
	if why := extent.tooLarge(); why != "" {
		return &schema{fault: "is " + why}
	}
	if why := extent.tooIntricate(); why != "" {
		return &schema{fault: why}
	}
	if s.places += extent.places * extent.places; s.places > maxAllPlaces {
		return &schema{fault: "is one of too many large ones of its server"}
	}
	c := &schema{meter: &meter{}}
	if err := c.compile(doc); err != nil {
		return &schema{fault: faultOf(doc, err)}
	}
	return c
}

// errUnreadable is for a schema that makes its compiler panic.
var errUnreadable = errors.New("cannot be read")

func (c *schema) compile(doc any) (err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case errSpent:
			err = errSpent
		default: // it indexes and dereferences what it takes for granted
			err = errUnreadable
		}
	}()
	// Twice, since a compiler that is watched no longer holds all dialects' schemas
	// against their metaschemas.
	if _, err := compiled(c.compiler(), doc); err != nil {
		return err
	}
	compiler := c.compiler()
	attach := c.meter.watch(compiler)
	c.root, err = compiled(compiler, doc)
	attach()
	return err
}

func (c *schema) compiler() *jsonschema.Compiler {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020) // 2025-11-25 basic, JSON Schema Usage
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(c.meter.pattern)
	return compiler
}

func compiled(compiler *jsonschema.Compiler, doc any) (*jsonschema.Schema, error) {
	const where = "mem:///schema.json"
	if err := compiler.AddResource(where, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(where)
}

// check holds arguments against the schema.
func (c *schema) check(arguments any) (found finding) {
	*c.meter = meter{}
	defer func() {
		switch r := recover(); r {
		case nil:
		case errSpent:
			found = finding{unknown: "holding them against the input schema takes too long"}
		default:
			found = finding{unknown: "the input schema cannot be applied"}
		}
	}()
	err := c.root.Validate(arguments)
	if c.meter.opaque {
		return finding{unknown: "the input schema has a pattern that is no RE2 regular expression, or too large a one"}
	}
	var failed *jsonschema.ValidationError
	if errors.As(err, &failed) {
		return finding{invalid: misfits(failed)}
	}
	return finding{valid: true}
}

// noLoader refuses whatever lies outside of a schema, on the network or in a file.
type noLoader struct{}

var errOutside = errors.New("nothing is loaded")

func (noLoader) Load(string) (any, error) { return nil, errOutside }

// faultOf says what is wrong with a schema that cannot be compiled. The compiler's own
// word may be another each time, since it goes through objects in no order.
func faultOf(doc any, err error) string {
	if err == errSpent {
		return "has patterns that are too large"
	}
	if ref := outside(doc); ref != "" {
		return fmt.Sprintf("refers to %q, which is not loaded", text.Shorten(ref, maxMisfit))
	}
	return "is no valid JSON Schema"
}

// outside is the first reference of a schema, by the alphabet, that is to another
// document; empty for none.
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
