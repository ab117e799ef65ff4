package stub

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/template"
	"github.com/waza-isolate/waza/internal/text"
)

// textTemplate is a text with references to tools' results.
type textTemplate = template.Text[[]string]

// templates returns a value with a template in place of each string.
func (c compiler) templates(at strictyaml.Path, v any) any { return template.Read(at, v, c.template) }

func (c compiler) template(at strictyaml.Path, s string) textTemplate {
	made, err := template.Parse(s, compile)
	if err != nil {
		c.doc.Problemf(at, "%s: %v", at, err)
	}
	return made
}

// compile reads a reference: result, or results and a number, and then what leads into its JSON.
func compile(source string) (template.Expression[[]string], error) {
	path, err := parsePath(source)
	return func(results []string) (any, error) { return find(path, results) }, err
}

// index matches a number in brackets, which may also be written as a separate step.
var index = regexp.MustCompile(`\[(\d+)\]`)

// parsePath reads result.a[0] or results.1.a.0.
func parsePath(text string) ([]string, error) {
	path := strings.Split(index.ReplaceAllString(text, ".$1"), ".")
	switch {
	case slices.Contains(path, ""):
		return nil, fmt.Errorf("{{ %s }} is not a path; write one such as result.items[0].name", text)
	case path[0] == "result":
		return path, nil
	case path[0] != "results":
		return nil, fmt.Errorf("{{ %s }}: unknown name %q; %s", text, path[0], strictyaml.Suggest(path[0], []string{"result", "results"}))
	}
	if len(path) < 2 || !isNumber(path[1]) {
		return nil, fmt.Errorf("{{ %s }}: which of the results? Write results[0] for the first", text)
	}
	return path, nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

// find returns the value at path: a result's text, or a part of the JSON in it.
func find(path, results []string) (any, error) {
	shown := strings.Join(path, ".")
	number, rest := len(results)-1, path[1:]
	if path[0] == "results" {
		number, _ = strconv.Atoi(path[1])
		rest = path[2:]
	}
	if number < 0 || number >= len(results) {
		return nil, fmt.Errorf("{{ %s }}: tools have given %d results so far", shown, len(results))
	}
	if len(rest) == 0 {
		return results[number], nil
	}
	value, err := jsontext.Parse([]byte(results[number]))
	if err != nil {
		return nil, fmt.Errorf("{{ %s }}: the result is not JSON: %s", shown, excerpt(results[number]))
	}
	for _, step := range rest {
		next, ok := descend(value, step)
		if !ok {
			return nil, fmt.Errorf("{{ %s }}: no %q in the result: %s", shown, step, excerpt(results[number]))
		}
		value = next
	}
	return value, nil
}

func descend(v any, step string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		field, ok := v[step]
		return field, ok
	case []any:
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return v[i], true
	default:
		return nil, false
	}
}

// excerpt returns s, short enough for a message.
func excerpt(s string) string { return text.Shorten(s, 200) }
