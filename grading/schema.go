package grading

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/internal/text"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waza-isolate/waza/internal/jsonvalue"
)

// schemaURL is the name of the compiled schema. Nothing is there, nor where relative
// references lead.
const (
	schemaBase = "waza:///"
	schemaURL  = schemaBase + "schema"
)

// compileSchema reads a JSON Schema. Nothing is loaded: a reference out of it other
// than to the drafts of JSON Schema itself is refused.
func compileSchema(text []byte) (*jsonschema.Schema, error) {
	document, err := parseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, ok := document.(map[string]any); !ok {
		return nil, errors.New("a schema is a mapping")
	}
	if err := plainNumbers(document); err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(schemaURL, document); err != nil {
		return nil, schemaError(err)
	}
	compiled, err := compiler.Compile(schemaURL)
	if err != nil {
		return nil, schemaError(err)
	}
	return compiled, nil
}

type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, errors.ErrUnsupported
}

// schemaError says in one line why a schema is invalid.
func schemaError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	var violation *jsonschema.ValidationError
	if errors.As(err, &invalid) && errors.As(invalid.Err, &violation) {
		return errors.New(strings.Join(text.Few(leaves(violation), maxShown), "; "))
	}
	var outside *jsonschema.LoadURLError
	if errors.As(err, &outside) {
		return fmt.Errorf("%s is outside of the schema, and nothing is loaded", quote(strings.TrimPrefix(outside.URL, schemaBase)))
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// violations lists where a value does not fit. The error is about values that cannot
// be judged.
func violations(schema *jsonschema.Schema, value any) ([]string, error) {
	if err := plainNumbers(value); err != nil {
		return []string{err.Error()}, nil
	}
	err := schema.Validate(value)
	if err == nil {
		return nil, nil
	}
	var violation *jsonschema.ValidationError
	if !errors.As(err, &violation) {
		return nil, fmt.Errorf("the schema cannot be applied: %w", err)
	}
	return leaves(violation), nil
}

// leaves are the innermost violations, where they are and what they are.
func leaves(v *jsonschema.ValidationError) []string {
	if len(v.Causes) > 0 {
		var all []string
		for _, cause := range v.Causes {
			all = append(all, leaves(cause)...)
		}
		return all
	}
	at := "the value"
	if len(v.InstanceLocation) > 0 {
		at = quote(strings.Join(v.InstanceLocation, "/"))
	}
	return []string{at + ": " + text.Shorten(v.DetailedOutput().Error.String(), 3*maxQuoted)}
}

// plainNumbers refuses numbers that take long to compare: a schema compares them as
// fractions, digit for digit.
func plainNumbers(value any) error {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			if err := plainNumbers(value[key]); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range value {
			if err := plainNumbers(item); err != nil {
				return err
			}
		}
	case json.Number:
		if jsonvalue.IsHuge(string(value)) {
			return fmt.Errorf("the number %s is too long or too large to be compared", quote(string(value)))
		}
	}
	return nil
}

// Schema is a JSON Schema of an eval's.
type Schema struct{ compiled *jsonschema.Schema }

// ReadSchema reads a JSON Schema. Nothing is loaded from outside of it.
func ReadSchema(text []byte) (*Schema, error) {
	compiled, err := compileSchema(text)
	return &Schema{compiled}, err
}

// Fits reports whether a value, with numbers as json.Number, fits the schema.
func (s *Schema) Fits(value any) bool {
	wrong, err := violations(s.compiled, value)
	return err == nil && len(wrong) == 0
}
