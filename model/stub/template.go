package stub

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/jsonvalue"
	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
)

// template is a text with places for what tools answered.
type template []piece

// piece is a reference where it has a path, else plain text.
type piece struct {
	plain string
	path  []string // result, or results and a number, and then what leads into its JSON
}

// templates is v with each string read as a template.
func (c compiler) templates(at strictyaml.Path, v any) any {
	switch v := v.(type) {
	case string:
		return c.template(at, v)
	case []any:
		for i := range v {
			v[i] = c.templates(append(slices.Clone(at), i), v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = c.templates(append(slices.Clone(at), key), v[key])
		}
	}
	return v
}

func (c compiler) template(at strictyaml.Path, text string) template {
	made, err := parseTemplate(text)
	if err != nil {
		c.doc.Problemf(at, "%s: %v", at, err)
	}
	return made
}

// index is a number in brackets, which is written as a step of its own too.
var index = regexp.MustCompile(`\[(\d+)\]`)

func parseTemplate(text string) (template, error) {
	var made template
	for {
		plain, rest, found := strings.Cut(text, "{{")
		if plain != "" {
			made = append(made, piece{plain: plain})
		}
		if !found {
			return made, nil
		}
		inside, after, closed := strings.Cut(rest, "}}")
		if !closed {
			return nil, errors.New(`"{{" without "}}"`)
		}
		path, err := parsePath(strings.TrimSpace(inside))
		if err != nil {
			return nil, err
		}
		made = append(made, piece{path: path})
		text = after
	}
}

// parsePath reads result.a[0] or results.1.a.0.
func parsePath(text string) ([]string, error) {
	path := strings.Split(index.ReplaceAllString(text, ".$1"), ".")
	switch {
	case slices.Contains(path, ""):
		return nil, fmt.Errorf("{{ %s }} is no path; write one such as result.items[0].name", text)
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

// text is t with what results say put in: strings as they are, all else as JSON.
func (t template) text(results []string) (string, error) {
	var out strings.Builder
	for _, p := range t {
		if p.path == nil {
			out.WriteString(p.plain)
			continue
		}
		found, err := find(p.path, results)
		if err != nil {
			return "", err
		}
		out.WriteString(asText(found))
	}
	return out.String(), nil
}

func asText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	encoded, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(encoded)
}

// fill is v, as compiler.templates made it, with what results say put in. A string that
// is one reference stands for its value, of any type.
func fill(v any, results []string) (any, error) {
	switch v := v.(type) {
	case template:
		if len(v) == 1 && v[0].path != nil {
			return find(v[0].path, results)
		}
		return v.text(results)
	case []any:
		made := make([]any, len(v))
		for i, item := range v {
			var err error
			if made[i], err = fill(item, results); err != nil {
				return nil, err
			}
		}
		return made, nil
	case map[string]any:
		made := make(map[string]any, len(v))
		for key, field := range v {
			var err error
			if made[key], err = fill(field, results); err != nil {
				return nil, err
			}
		}
		return made, nil
	default:
		return v, nil
	}
}

// find is the value at path: a text, or a part of the JSON in it.
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
	value, err := jsonvalue.Parse([]byte(results[number]))
	if err != nil {
		return nil, fmt.Errorf("{{ %s }}: the result is no JSON: %s", shown, excerpt(results[number]))
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

// excerpt is s, short enough for a message.
func excerpt(s string) string { return text.Shorten(s, 200) }
