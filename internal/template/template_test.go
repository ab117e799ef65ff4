package template_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/template"
)

// vars returns variables with values.
func vars(values map[string]any) (v *template.Variables, names []string) {
	v = template.NewVariables()
	for name, value := range values {
		v.Bind(name, value)
		names = append(names, name)
	}
	return v, names
}

func TestText(t *testing.T) {
	values, names := vars(map[string]any{
		"a": "<x>", "n": json.Number("1.0"), "l": []any{"<", nil}, "m": map[string]any{"big": json.Number("9007199254740993"), "0": "zero"},
		"text": `{"items": [{"sku": "B-1", "n": 9007199254740993}], "again": "[[1]]"}`, "word": "12",
	})
	for text, want := range map[string]any{
		"":                          "",
		"plain }} text":             "plain }} text",
		"{{a}}{{ a }}":              "<x><x>",
		"{{ l }}":                   []any{"<", nil},
		"is {{ l }}":                `is ["<",null]`,
		"{{ n }} of {{n}}":          "1.0 of 1.0",
		"{{ `}}` }}.":               "}}.",
		"{{ m.big }}":               json.Number("9007199254740993"),
		"{{ n + 0.5 }}":             json.Number("1.5"),
		"{{ m.big > 1 }}":           true,
		"{{ l.0 }}":                 "<",
		"{{ text }}":                `{"items": [{"sku": "B-1", "n": 9007199254740993}], "again": "[[1]]"}`,
		"{{ text.items[0].n }}":     json.Number("9007199254740993"),
		"{{ text.items.0.sku }}":    "B-1",
		"{{ text.again.0.0 }}":      json.Number("1"),
		`{{ text["items"][0] }}`:    map[string]any{"sku": "B-1", "n": json.Number("9007199254740993")},
		`{{ text contains "B-1" }}`: true,
		`{{ word + "." }}`:          "12.",
	} {
		read, err := template.Parse(text, names)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, err := read.Value(values)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"{{ a":         `"{{" without "}}"; a literal one is written {{ "{{" }}`,
		"{{ '}}":       `"{{" without "}}"; a literal one is written {{ "{{" }}`,
		"{{ }}":        "an empty expression",
		"{{ wort.a }}": `{{ wort.a }}: unknown name "wort" (did you mean "word"?); known here: a, l, m, n, none, text, word`,
		"{{ text.x }}": `{{ text.x }}: text has no "x"; it has "again", "items"`,
		"{{ word.x }}": `{{ word.x }}: word is a string and has no "x"`,
		"{{ l[2] }}":   `{{ l[2] }}: l is a list of 2 and has no [2]`,
		"{{ none.x }}": `{{ none.x }}: there is no none yet`,
	} {
		read, err := template.Parse(text, append(names, "none"))
		if err == nil {
			_, err = read.Value(values)
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Names of a loop are forgotten, and have new values in the next one.
func TestRelease(t *testing.T) {
	values, names := vars(map[string]any{"a": json.Number("1")})
	read, err := template.Parse("{{ a + item }} {{ item }}", append(names, "item"))
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range []string{"1", "2"} {
		mark := values.Mark()
		values.Bind("item", json.Number(item))
		if got, err := read.String(values); err != nil || got != map[string]string{"1": "2 1", "2": "3 2"}[item] {
			t.Errorf("%q, %v", got, err)
		}
		values.Release(mark)
	}
	if got, err := read.String(values); err == nil {
		t.Errorf("%q of what was forgotten", got)
	}
}

// FuzzText fills texts of anybody with a result of anybody.
func FuzzText(f *testing.F) {
	f.Add("{{ result.a[0] }} {{ len(result) }}", `{"a":[1e999,"x"]}`)
	f.Add("{{ result.0.a }}{{ `", `[[{}]]`)
	f.Fuzz(func(t *testing.T, source, result string) {
		read, err := template.Parse(source, []string{"result"})
		if err != nil || strings.Contains(source, "..") || strings.Contains(source, "repeat") {
			return
		}
		values, _ := vars(map[string]any{"result": result})
		if got, err := read.String(values); err == nil && !strings.Contains(source, "{{") && got != source {
			t.Fatalf("%q became %q", source, got)
		}
	})
}

func TestFill(t *testing.T) {
	given := map[string]any{"a": []any{"{{ l }}", json.Number("2")}, "b": "x", "c": nil}
	var paths []string
	read := template.Read(strictyaml.Path{"top"}, given, func(at strictyaml.Path, s string) template.Text {
		paths = append(paths, at.String())
		text, err := template.Parse(s, []string{"l"})
		if err != nil {
			t.Error(err)
		}
		return text
	})
	if diff := cmp.Diff([]string{"top.a[0]", "top.b"}, paths); diff != "" {
		t.Error(diff)
	}
	filled, _ := vars(map[string]any{"l": true})
	got, err := template.Fill(read, filled)
	want := map[string]any{"a": []any{true, json.Number("2")}, "b": "x", "c": nil}
	if diff := cmp.Diff(any(want), got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := template.Fill(read, template.NewVariables()); err == nil {
		t.Error("a value that is not there was filled in")
	}
}
