package grading

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/schema"
	"github.com/waza-isolate/waza/internal/text"
)

// JSONSchemaConfig configures the json_schema grader, which checks that the final output is JSON and fits a
// schema. It is one check.
type JSONSchemaConfig struct {
	_ struct{} `unknown:"warn"`

	Schema      json.RawMessage `json:"schema,omitempty" jsonschema:"a JSON Schema; draft 2020-12 unless its $schema names another"`
	SchemaFile  string          `json:"schema_file,omitempty" jsonschema:"file of up to 1 MiB with the schema, in the directory of the eval"`
	ExtractJSON bool            `json:"extract_json,omitempty" jsonschema:"if the output is not JSON as a whole, use the only object or array in it; it fails if there is none or more than one"`

	compiled *schema.Schema
}

// Validate refuses a config with no schema or two, and an invalid schema.
func (c *JSONSchemaConfig) Validate() error {
	switch inline := bytes.TrimSpace(c.Schema); {
	case len(inline) == 0 && c.SchemaFile == "":
		return errors.New("give it schema or schema_file")
	case len(inline) == 0:
		return nil // Hold compiles it
	case c.SchemaFile != "":
		return errors.New("schema and schema_file: give one of them")
	default:
		return c.compile("schema", inline)
	}
}

// Files names the schema's file.
func (c *JSONSchemaConfig) Files() []string {
	if c.SchemaFile == "" {
		return nil
	}
	return []string{c.SchemaFile}
}

// Hold compiles the schema file. It fails if that is not a JSON Schema.
func (c *JSONSchemaConfig) Hold(files map[string][]byte) error {
	if c.SchemaFile == "" {
		return nil
	}
	return c.compile("schema_file", files[c.SchemaFile])
}

func (c *JSONSchemaConfig) compile(key string, text []byte) (err error) {
	if c.compiled, err = schema.Compile(text); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

func (c *JSONSchemaConfig) grade(s *subject) (report, error) {
	if err := s.kept(evidence.GapFinalOutput); err != nil {
		return report{}, err
	}
	if err := outputRemoved(s.trial, false); err != nil {
		return report{}, err
	}
	var r report
	value, err := outputValue(s.trial.FinalOutput, c.ExtractJSON)
	if err != nil {
		r.check("schema", false, "Expected the output to be JSON; %v.", err)
		return r, nil
	}
	violations, err := c.compiled.Misfits(value, maxListed)
	if err != nil {
		return report{}, err
	}
	r.check("schema", len(violations) == 0, "Expected the output to fit the schema; %s.", strings.Join(text.Few(violations, maxShown), "; "))
	if len(violations) > 0 {
		r.details = map[string]any{"violations": violations}
	}
	return r, nil
}

// outputValue returns the JSON value of an output that is JSON. With extract, it returns the only object or
// list in the output.
func outputValue(output string, extract bool) (any, error) {
	value, err := jsontext.Parse([]byte(output))
	switch {
	case err == nil:
		return value, nil
	case strings.TrimSpace(output) == "":
		return nil, errors.New("it is empty")
	case !extract:
		return nil, fmt.Errorf("it is not: %w", err)
	}
	found, err := embedded(output)
	if err != nil {
		return nil, err
	}
	return jsontext.Parse(found)
}

// moreSearch bounds the bytes that are read again in the search for JSON: the text after each bracket that is
// never closed is read once more.
const moreSearch = 8 << 20

// embedded finds the one JSON object or list in a text.
func embedded(text string) ([]byte, error) {
	var found []byte
	left := 2*len(text) + moreSearch
	for at := 0; at < len(text); {
		next := strings.IndexAny(text[at:], "{[")
		if next < 0 {
			break
		}
		at += next
		value, n := valueAt(text[at:])
		if left -= n; left < 0 {
			return nil, errors.New("there are too many brackets in it to look for JSON between them")
		}
		if value == nil {
			at++
			continue
		}
		if found != nil {
			return nil, errors.New("there is more than one object or list in it")
		}
		found = value
		at += len(value)
	}
	if found == nil {
		return nil, errors.New("it is not, and there is no object or list in it")
	}
	return found, nil
}

// valueAt returns the JSON value at the beginning of text, or nil, and the number of bytes read to find it.
func valueAt(text string) (value []byte, read int) {
	in := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	err := in.Decode(&raw)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return raw, len(raw)
	case errors.As(err, &syntax):
		return nil, int(syntax.Offset)
	}
	return nil, len(text)
}
