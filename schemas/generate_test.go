package schemas_test

// The generator of the schemas. A schema is never stricter than the parser,
// except for keys without a value. Most rules that involve several keys or
// files are left to the parser.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/evidence/cassette"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/results"
)

const (
	// draft is the newest that language servers of editors know; the schemas need no newer one.
	draft = "http://json-schema.org/draft-07/schema#"
	base  = "https://raw.githubusercontent.com/waza-isolate/waza/main/schemas/"
)

// generateEval returns the schema of an eval file.
func generateEval() ([]byte, error) {
	s, err := of[eval.Eval]()
	if err != nil {
		return nil, err
	}
	if err := refineEval(s); err != nil {
		return nil, err
	}
	return render(s, "eval.schema.json", "waza eval")
}

// generateTask returns the schema of a task file.
func generateTask() ([]byte, error) {
	s, err := of[eval.Task]()
	if err != nil {
		return nil, err
	}
	if err := refineTask(s); err != nil {
		return nil, err
	}
	return render(s, "task.schema.json", "waza task")
}

// generateResults returns the schema of results.json.
func generateResults() ([]byte, error) {
	s, err := jsonschema.For[results.Results](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {},
	}})
	if err != nil {
		return nil, fmt.Errorf("schema of results: %w", err)
	}
	return render(s, "results.schema.json", "waza results")
}

// generateSide returns the schema of a side of a cassette.
func generateSide() ([]byte, error) {
	s, err := of[cassette.Side]()
	if err != nil {
		return nil, err
	}
	return render(s, "side.schema.json", "side of a waza cassette")
}

// custom returns the schemas of types that cannot be derived from their Go type.
func custom() map[reflect.Type]*jsonschema.Schema {
	all := maps.Clone(grading.TypeSchemas())
	all[reflect.TypeFor[json.RawMessage]()] = &jsonschema.Schema{}
	all[reflect.TypeFor[eval.Workers]()] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "string", Enum: []any{"auto"}},
		{Type: "integer", Minimum: jsonschema.Ptr(0.0), Maximum: jsonschema.Ptr(float64(eval.MaxWorkers))},
	}}
	return all
}

func of[T any]() (*jsonschema.Schema, error) { return ofType(reflect.TypeFor[T]()) }

// ofValue returns the schema of the type that a pointer points to.
func ofValue(pointer any) (*jsonschema.Schema, error) { return ofType(reflect.TypeOf(pointer).Elem()) }

func ofType(t reflect.Type) (*jsonschema.Schema, error) {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: custom()})
	if err != nil {
		return nil, fmt.Errorf("schema of %v: %w", t, err)
	}
	limiter{custom()}.apply(s, t)
	return s, nil
}

func render(s *jsonschema.Schema, name, title string) ([]byte, error) {
	s.Schema, s.ID, s.Title = draft, base+name, title
	compact, err := s.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}
