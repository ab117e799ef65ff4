package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/waza-isolate/waza/agents/script"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/internal/golden"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/schemas"
)

func TestGenerated(t *testing.T) {
	for name, generated := range map[string]func() ([]byte, error){
		"eval.schema.json":    generateEval,
		"task.schema.json":    generateTask,
		"results.schema.json": generateResults,
		"side.schema.json":    generateSide,
	} {
		want, err := generated()
		if err != nil {
			t.Fatal(err)
		}
		golden.Check(t, name, string(want))
	}
}

func compile(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// value is what YAML text means to a JSON Schema.
func value(t *testing.T, text []byte) any {
	t.Helper()
	doc, err := strictyaml.Parse("file.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	doc.Decode(&v)
	return v
}

// TestAgree checks that the schemas and the reader judge files alike.
func TestAgree(t *testing.T) {
	evalSchema, taskSchema := compile(t, schemas.Eval()), compile(t, schemas.Task())
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, path := range archives {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		base := map[string][]byte{} // each case takes the place of one
		for _, f := range archive.Files {
			if name, ok := strings.CutPrefix(f.Name, "base/"); ok {
				base[name] = f.Data
			}
		}
		for _, f := range archive.Files {
			verdict, rest, _ := strings.Cut(f.Name, "/")
			kind, _, _ := strings.Cut(rest, "/")
			if verdict == "base" {
				continue
			}
			t.Run(f.Name, func(t *testing.T) {
				files := maps.Clone(base)
				files[kind+".yaml"] = f.Data
				schema := map[string]*jsonschema.Schema{"eval": evalSchema, "task": taskSchema}[kind]
				read := load(t, files)
				valid := schema.Validate(value(t, f.Data))
				if want := verdict == "good"; (read == nil) != want || (valid == nil) != want {
					t.Errorf("want %s\nreader: %v\nschema: %v", verdict, read, valid)
				}
			})
		}
	}
}

func load(t *testing.T, files map[string][]byte) error {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := eval.Load(filepath.Join(dir, "eval.yaml"), eval.Options{CheckScript: script.Check})
	return err
}

func TestCopies(t *testing.T) {
	schemas.Eval()[0] = 'x'
	schemas.Task()[0] = 'x'
	if schemas.Eval()[0] != '{' || schemas.Task()[0] != '{' {
		t.Error("a caller changed the schemas")
	}
}

// The sides of the examples' cassettes are what the schema says, and name it for editors.
func TestSides(t *testing.T) {
	schema := compile(t, schemas.Side())
	sides, err := filepath.Glob("../examples/*/cassette/*/*.yaml")
	ofTasks, taskErr := filepath.Glob("../examples/*/cassette/tasks/*/*/*.yaml")
	if err = errors.Join(err, taskErr); err != nil || len(sides) < 5 || len(ofTasks) < 5 {
		t.Fatalf("%d sides, %d of tasks, %v", len(sides), len(ofTasks), err)
	}
	var at struct {
		ID string `json:"$id"`
	}
	if err := json.Unmarshal(schemas.Side(), &at); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(sides, ofTasks...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value(t, text)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if line, _, _ := strings.Cut(string(text), "\n"); line != "# yaml-language-server: $schema="+at.ID {
			t.Errorf("%s begins with %q, and its schema is at %s", path, line, at.ID)
		}
	}
	for _, wrong := range []string{"entries: [{anwser: {value: 1}}]", "find: match", "entries: [{times: 0, answer: {value: 1}}]"} {
		if schema.Validate(value(t, []byte(wrong))) == nil {
			t.Errorf("it takes %s", wrong)
		}
	}
}

// What package results writes is what the schema says.
func TestResults(t *testing.T) {
	schema := compile(t, schemas.Results())
	file, err := os.Open(filepath.Join("..", "results", "testdata", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	doc, err := jsonschema.UnmarshalJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(doc); err != nil {
		t.Error(err)
	}
	delete(doc.(map[string]any)["summary"].(map[string]any), "success_rate")
	if schema.Validate(doc) == nil {
		t.Error("a summary without a rate is none")
	}
}
