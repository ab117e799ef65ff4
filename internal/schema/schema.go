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
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// Schema is a compiled JSON Schema from a trusted author.
type Schema struct{ root *jsonschema.Schema }

// maxFaults is the maximum number of faults reported for a schema.
const maxFaults = 8

// Compile compiles a JSON Schema, which must be an object.
func Compile(raw []byte) (*Schema, error) {
	doc, err := jsontext.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
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
	root, err := compile(newCompiler(), doc)
	if err != nil {
		return nil, fault(err)
	}
	return &Schema{root}, nil
}

// Misfits lists up to most places where and why a value, as returned by [jsontext.Parse],
// does not match the schema, and how many more there are. It returns an error if the schema
// cannot be applied.
func (s *Schema) Misfits(value any, most int) ([]string, error) {
	if err := measure(value).hugeNumber(); err != nil {
		return []string{err.Error()}, nil
	}
	err := s.root.Validate(value)
	var failed *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil, nil
	case !errors.As(err, &failed):
		return nil, fmt.Errorf("the schema cannot be applied: %w", err)
	}
	return misfits(failed, most), nil
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
		return fmt.Errorf("%s is outside of the schema, and nothing is loaded", text.Quote(strings.TrimPrefix(refused.URL, base), maxMisfit))
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}
