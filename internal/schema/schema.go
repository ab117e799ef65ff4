// Package schema validates JSON values with JSON Schemas of draft 2020-12, or of the draft
// that a schema declares. It loads nothing from the network or from files: a reference to
// another document is an error.
//
// [Compile] is for schemas in an eval, whose author is trusted and gets error messages.
// [Checker] is for schemas listed by MCP servers, whose cost it limits.
package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Schema is a compiled JSON Schema from a trusted author.
type Schema struct {
	root *jsonschema.Schema
	doc  any // set if it has patterns matched by backtracking; root is not used then
}

// maxFaults is the maximum number of faults reported for a schema.
const maxFaults = 8

// Compile compiles a JSON Schema, which must be an object.
func Compile(raw []byte) (*Schema, error) {
	doc, err := jsontext.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("it is not valid JSON: %w", err)
	}
	return CompileValue(doc)
}

// CompileValue compiles a JSON Schema returned by [jsontext.Parse].
func CompileValue(doc any) (*Schema, error) {
	if _, ok := doc.(map[string]any); !ok {
		return nil, errors.New("a schema must be a mapping")
	}
	if err := measure(doc).hugeNumber(); err != nil {
		return nil, err
	}
	var c clock
	root, err := compileTrusted(doc, &c)
	if err != nil {
		return nil, fault(err)
	}
	if c.spent > 0 {
		return &Schema{doc: doc}, nil
	}
	return &Schema{root: root}, nil
}

// compileTrusted compiles a schema whose patterns use the time limit of c.
func compileTrusted(doc any, c *clock) (*jsonschema.Schema, error) {
	compiler := newCompiler()
	compiler.UseRegexpEngine(func(source string) (jsonschema.Regexp, error) {
		e, err := compilePattern(source, c)
		if err != nil {
			return nil, fmt.Errorf("%s %w", text.Quote(source, maxQuoted), err)
		}
		return trusted{e, source}, nil
	})
	return compile(compiler, doc)
}

// trusted is a pattern of a trusted author. A value that takes too long to match does not match.
type trusted struct {
	*expression
	source string
}

func (p trusted) String() string { return p.source }

func (p trusted) MatchString(s string) bool {
	ok, err := p.match(s)
	return ok && err == nil
}

// Misfits lists up to most places where and why a value, as returned by [jsontext.Parse],
// does not match the schema, and how many more there are. It returns an error if the schema
// cannot be applied.
func (s *Schema) Misfits(value any, most int) ([]string, error) {
	if err := measure(value).hugeNumber(); err != nil {
		return []string{err.Error()}, nil
	}
	root := s.root
	if s.doc != nil { // each check has its own clock
		var err error
		if root, err = compileTrusted(s.doc, &clock{}); err != nil {
			return nil, fmt.Errorf("the schema cannot be compiled: %w", err)
		}
	}
	err := root.Validate(value)
	var failed *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &failed):
		return nil, fmt.Errorf("the schema cannot be applied: %w", err)
	case isCycle(failed):
		return nil, fmt.Errorf("the schema %w", errCycle)
	}
	return misfits(failed, most), nil
}

// errCycle is an error of the schema, whatever the value.
var errCycle = errors.New("refers to itself at the same place, without an end")

// isCycle reports whether a value was rejected because of such a reference.
func isCycle(err *jsonschema.ValidationError) bool {
	_, ok := err.ErrorKind.(*kind.RefCycle)
	return ok || slices.ContainsFunc(err.Causes, isCycle)
}

// Fits reports whether a value matches the schema.
func (s *Schema) Fits(value any) bool {
	wrong, err := s.Misfits(value, 1)
	return err == nil && len(wrong) == 0
}

// location is the URI of the compiled schema. It and URIs relative to it cannot be loaded.
const (
	base     = "waza:///"
	location = base + "schema"
)

func newCompiler() *jsonschema.Compiler {
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020) // 2025-11-25 basic, JSON Schema Usage
	compiler.UseLoader(noLoader{})
	return compiler
}

func compile(compiler *jsonschema.Compiler, doc any) (*jsonschema.Schema, error) {
	if err := compiler.AddResource(location, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(location)
}

// noLoader rejects all references to other documents.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.ErrUnsupported }

// fault describes in one line why a schema does not compile.
func fault(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var failed *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &failed) {
		return errors.New(strings.Join(misfits(failed, maxFaults), "; "))
	}
	var refused *jsonschema.LoadURLError
	if errors.As(err, &refused) {
		return fmt.Errorf("it refers to %s, which is not in it, and no other file is read; copy what it needs under $defs", text.Quote(strings.TrimPrefix(refused.URL, base), maxMisfit))
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
