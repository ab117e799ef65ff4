package strictyaml_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/strictyaml"
)

type lenient struct {
	_ struct{} `unknown:"warn"`

	Name  string            `json:"name,omitempty"`
	Tags  []string          `json:"tags,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	Count int               `json:"count,omitempty" min:"1"`
	Zero  int               `json:"zero,omitempty" min:"1" zero:"unset"`
	Raw   json.RawMessage   `json:"raw,omitempty"`
}

func TestLenient(t *testing.T) {
	read := func(text string, ignore string) (v lenient, warnings []string, err error) {
		doc, err := strictyaml.Parse("f.yaml", []byte(text))
		if err != nil {
			return v, nil, err
		}
		doc.IgnoreUnknown(ignore)
		doc.Decode(&v)
		for _, w := range doc.Warnings() {
			warnings = append(warnings, w.Error())
		}
		return v, warnings, doc.Err()
	}
	v, warnings, err := read("name: 1.0\nzero: 0\ntags: [1, v2, true, 007, 2024-01-01]\nenv: {PORT: 80, DEBUG: yes}\ncount:\nother: {a: 1}\nraw: {x: 1}\n", "it is newer")
	if err != nil {
		t.Fatal(err)
	}
	if v.Name != "1.0" || strings.Join(v.Tags, " ") != "1 v2 true 007 2024-01-01" || !maps.Equal(v.Env, map[string]string{"PORT": "80", "DEBUG": "yes"}) || v.Count != 0 {
		t.Errorf("read %+v", v)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "f.yaml:6:1: unknown key other is ignored: it is newer") {
		t.Errorf("warnings %q", warnings)
	}
	for text, want := range map[string]string{
		"nmae: x":    `did you mean "name"`,
		"count: 0":   "at least 1",
		"count: 007": "plain decimal digits",
		"name: [x]":  "must be a string",
	} {
		if _, _, err := read(text, "it is newer"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, _, err := read("other: 1", ""); err == nil || !strings.Contains(err.Error(), `unknown key "other"`) {
		t.Errorf("strict: %v", err)
	}
}

func TestMergeKeys(t *testing.T) {
	var v struct {
		Base, Made map[string]string
		Raw        json.RawMessage `json:"raw"`
	}
	doc, err := strictyaml.Parse("f.yaml", []byte("raw:\n  base: &b {a: 1, b: 2}\n  more: &m {c: 3, a: 9}\n  made:\n    <<: [*b, *m]\n    b: 4\n"))
	if err != nil {
		t.Fatal(err)
	}
	doc.Decode(&v)
	if err := doc.Err(); err != nil || !strings.Contains(string(v.Raw), `"made":{"b":4,"a":1,"c":3}`) {
		t.Errorf("read %s, %v", v.Raw, err)
	}
	var bomb strings.Builder
	bomb.WriteString("raw:\n  base: &b {")
	for i := range 5000 {
		fmt.Fprintf(&bomb, "k%d: 1, ", i)
	}
	bomb.WriteString("}\n")
	for i := range 3000 {
		fmt.Fprintf(&bomb, "  m%d: {<<: *b}\n", i)
	}
	if _, err := strictyaml.Parse("f.yaml", []byte(bomb.String())); err == nil {
		t.Error("a file of merges without end is read")
	}
}
