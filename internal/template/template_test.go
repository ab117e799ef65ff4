package template_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/template"
)

// compile reads the name of a value.
func compile(name string) (template.Expression[map[string]any], error) {
	if name == "" {
		return nil, errors.New("empty")
	}
	return func(values map[string]any) (any, error) {
		value, ok := values[name]
		if !ok {
			return nil, fmt.Errorf("no %q", name)
		}
		return value, nil
	}, nil
}

func TestText(t *testing.T) {
	values := map[string]any{"a": "<x>", "n": json.Number("1.0"), "l": []any{"<", nil}, "`}}`": "quoted"}
	for text, want := range map[string]any{
		"":                 "",
		"plain }} text":    "plain }} text",
		"{{a}}{{ a }}":     "<x><x>",
		"{{ l }}":          []any{"<", nil},
		"is {{ l }}":       `is ["<",null]`,
		"{{ n }} of {{n}}": "1.0 of 1.0",
		"{{ `}}` }}.":      "quoted.",
	} {
		read, err := template.Parse(text, compile)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := read.Value(values)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{"{{ a": `"{{" without "}}"`, "{{ '}}": `"{{" without "}}"`, "{{ }}": "empty"} {
		if _, err := template.Parse(text, compile); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestFill(t *testing.T) {
	given := map[string]any{"a": []any{"{{ l }}", json.Number("2")}, "b": "x", "c": nil}
	var paths []string
	read := template.Read(strictyaml.Path{"top"}, given, func(at strictyaml.Path, s string) template.Text[map[string]any] {
		paths = append(paths, at.String())
		text, err := template.Parse(s, compile)
		if err != nil {
			t.Error(err)
		}
		return text
	})
	if diff := cmp.Diff([]string{"top.a[0]", "top.b"}, paths); diff != "" {
		t.Error(diff)
	}
	got, err := template.Fill(read, map[string]any{"l": true})
	want := map[string]any{"a": []any{true, json.Number("2")}, "b": "x", "c": nil}
	if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := template.Fill(read, map[string]any{}); err == nil {
		t.Error("a value that is not there was filled in")
	}
}
