package schemas_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/waza-isolate/waza/agents/adapter"
	"github.com/waza-isolate/waza/eval"
	"github.com/waza-isolate/waza/grading"
	"github.com/waza-isolate/waza/internal/golden"
)

const referenceHead = `# Keys

<!-- Written by make golden from package schemas. -->

Every key of [eval and task files](eval-yaml.md), [graders](graders.md) and [adapters](adapters.md). This page is
generated from the types that read the files; ` + "`waza schema eval` and `waza schema task`" + ` print the same as JSON Schemas.

A string may be written as any scalar. A *size* is a whole number of bytes, or of KiB, MiB or GiB with ` + "`k`, `m` or `g`" + `.
Paths are relative to the eval unless their key says otherwise. A key without "required" may be left out.
`

// TestReference checks that docs/keys.md has every key of the schemas.
func TestReference(t *testing.T) {
	e, err := of[eval.Eval]()
	if err != nil {
		t.Fatal(err)
	}
	task, err := of[eval.Task]()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmp.Or(refineEval(e), refineTask(task)); err != nil {
		t.Fatal(err)
	}
	a, err := of[adapter.Adapter]()
	if err != nil {
		t.Fatal(err)
	}
	r := reference{anchors: map[string]string{}}
	r.WriteString(referenceHead)
	r.chapter("The eval file", "", e)
	r.chapter("The task file", "", task)
	r.WriteString("\n## The configs of graders\n\nThe keys of `config`, by type of grader; [graders.md](graders.md) explains them.\n")
	for _, name := range grading.Types() {
		config, _ := grading.NewConfig(name)
		s, err := ofValue(config)
		if err != nil {
			t.Fatal(err)
		}
		r.section(name, s)
	}
	r.chapter("The adapter file", "adapter.", a)
	golden.Check(t, "../docs/keys.md", r.String())
}

// reference is the page of keys, as Markdown.
type reference struct {
	strings.Builder
	anchors map[string]string // of sections, by the keys that they have
}

// chapter writes the keys of a file, then those of each mapping in it.
func (r *reference) chapter(title, prefix string, s *jsonschema.Schema) {
	fmt.Fprintf(r, "\n## %s\n", title)
	r.table(prefix, s)
}

// section writes the keys of a mapping under its path.
func (r *reference) section(path string, s *jsonschema.Schema) {
	fmt.Fprintf(r, "\n### %s\n", path)
	r.table(path+".", s)
}

type mapping struct {
	path   string
	schema *jsonschema.Schema
}

// table writes a row for each key, then a section for each mapping that has none yet.
func (r *reference) table(prefix string, s *jsonschema.Schema) {
	r.WriteString("\n| key | value | meaning |\n|---|---|---|\n")
	var below []mapping
	for _, name := range keysOf(s) {
		property := s.Properties[name]
		value := r.value(prefix+name, property, &below)
		if slices.Contains(s.Required, name) {
			value += "; required"
		}
		fmt.Fprintf(r, "| `%s` | %s | %s |\n", name, value, inCell(property.Description))
	}
	for _, m := range below {
		r.section(m.path, m.schema)
	}
}

// keysOf returns the names of a mapping's keys in the order of its Go type.
func keysOf(s *jsonschema.Schema) []string {
	if len(s.PropertyOrder) == len(s.Properties) {
		return s.PropertyOrder
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// value returns what a key takes, and adds the mappings that it has to below.
func (r *reference) value(path string, s *jsonschema.Schema, below *[]mapping) string {
	switch {
	case len(s.Enum) > 0:
		var all []string
		for _, one := range s.Enum {
			all = append(all, fmt.Sprintf("`%v`", one))
		}
		return strings.Join(all, ", ")
	case len(s.AnyOf) > 0 && len(s.Properties) == 0:
		var all []string
		for _, one := range s.AnyOf {
			all = append(all, r.value(path, one, below))
		}
		return strings.Join(slices.Compact(all), " or ")
	case len(s.Properties) > 0:
		return "[mapping](#" + r.anchor(path, s, below) + ")"
	case s.Items != nil:
		return "list of " + plural(r.value(path, s.Items, below))
	case s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil:
		return "map of " + plural(r.value(path+".NAME", s.AdditionalProperties, below))
	case slices.Contains(s.Types, "string"), s.Type == "string":
		return "string"
	case s.Type == "integer", s.Type == "number":
		return number(s)
	}
	return cmp.Or(map[string]string{"object": "mapping", "array": "list"}[s.Type], s.Type, "any")
}

// anchor returns where the keys of a mapping are, or will be.
func (r *reference) anchor(path string, s *jsonschema.Schema, below *[]mapping) string {
	var keys strings.Builder
	for _, name := range keysOf(s) {
		fmt.Fprintf(&keys, "%s: %s\n", name, s.Properties[name].Description)
	}
	if known, ok := r.anchors[keys.String()]; ok {
		return known
	}
	slug := regexp.MustCompile(`[^\w -]`).ReplaceAllString(strings.ToLower(path), "")
	r.anchors[keys.String()] = slug
	*below = append(*below, mapping{path, s})
	return slug
}

func number(s *jsonschema.Schema) string {
	kind := map[string]string{"integer": "integer", "number": "number"}[s.Type]
	low, high := s.Minimum, s.Maximum
	switch {
	case s.ExclusiveMinimum != nil && high != nil:
		return fmt.Sprintf("%s over %s, up to %s", kind, figure(*s.ExclusiveMinimum), figure(*high))
	case s.ExclusiveMinimum != nil:
		return fmt.Sprintf("%s over %s", kind, figure(*s.ExclusiveMinimum))
	case low != nil && high != nil:
		return fmt.Sprintf("%s to %s", figure(*low), figure(*high))
	case low != nil:
		return fmt.Sprintf("%s or more", figure(*low))
	}
	return kind
}

func figure(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func plural(of string) string {
	switch {
	case of == "string", of == "integer", of == "number", of == "mapping":
		return of + "s"
	case strings.HasPrefix(of, "[mapping]"):
		return strings.Replace(of, "[mapping]", "[mappings]", 1)
	}
	return of
}

func inCell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(text)
}
