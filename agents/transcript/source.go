package transcript

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Formats of a transcript.
const (
	FormatWaza  = "waza"
	FormatJSONL = "jsonl"
)

// Source describes where an agent writes its transcript, and the format.
type Source struct {
	From   string `json:"from" jsonschema:"source of the transcript: stdout, stderr or a file in the workspace"`
	Format string `json:"format" enum:"waza jsonl" jsonschema:"waza for waza's events, one per line; jsonl for other JSON lines, which are read by the rules in events"`
	Events []Rule `json:"events,omitempty" jsonschema:"for format jsonl: rules for reading lines; every rule that matches a line applies"`
}

// Types of rules.
const (
	ToolStart = "tool_start"
	ToolEnd   = "tool_end"
	Message   = "message"
	Usage     = "usage"
)

// Rule describes which lines report something, and the paths of its parts. A path consists of keys separated
// by dots; a number is an index of a list, from 0.
type Rule struct {
	When      map[string]any `json:"when,omitempty" jsonschema:"values by path that the line must have for the rule to match"`
	Each      string         `json:"each,omitempty" jsonschema:"path of a list in the line; the other paths are then relative to each of its items"`
	Where     map[string]any `json:"where,omitempty" jsonschema:"values by path that the item of each must have for the rule to match"`
	Type      string         `json:"type" enum:"tool_start tool_end message usage" jsonschema:"kind of event"`
	ID        string         `json:"id,omitempty" jsonschema:"path of the id that connects the start and the end of a tool call"`
	Name      string         `json:"name,omitempty" jsonschema:"for tool_start: path of the tool's name"`
	Tool      string         `json:"tool,omitempty" jsonschema:"for tool_start: name of the tool, if the line does not have it"`
	Server    string         `json:"server,omitempty" jsonschema:"for tool_start: path of the MCP server's name, if it is not part of the tool's name"`
	Arguments string         `json:"arguments,omitempty" jsonschema:"for tool_start: path of the arguments, as JSON or as a string with JSON"`
	Result    string         `json:"result,omitempty" jsonschema:"for tool_end: path of the result"`
	OK        map[string]any `json:"ok,omitempty" jsonschema:"for tool_end: values by path that mean that the tool succeeded"`
	Error     string         `json:"error,omitempty" jsonschema:"for tool_end: path of a value that means that the tool failed, unless it is missing, null, false or empty"`
	Content   string         `json:"content,omitempty" jsonschema:"for message: path of the text, a string or a list of text blocks"`
	Joined    bool           `json:"joined,omitempty" jsonschema:"for message: each line has a part of a message; consecutive parts are joined"`
	Input     []string       `json:"input,omitempty" jsonschema:"for usage: paths of input token counts, which are added up"`
	Output    []string       `json:"output,omitempty" jsonschema:"for usage: paths of output token counts, which are added up"`
	Total     bool           `json:"running_total,omitempty" jsonschema:"for usage: each line counts all tokens so far, not only those since the line before"`
}

// Problem is a mistake in a source, with the keys that lead to it.
type Problem struct {
	At   []any
	What string
}

// Problems returns the mistakes in s, except in From, which the caller checks.
func (s Source) Problems() []Problem {
	switch {
	case s.Format == FormatJSONL && len(s.Events) == 0:
		return []Problem{{[]any{"events"}, "format jsonl needs events, which say what the lines tell"}}
	case s.Format != FormatJSONL && len(s.Events) > 0:
		return []Problem{{[]any{"events"}, "events are of format jsonl"}}
	}
	var all []Problem
	for i, rule := range s.Events {
		for _, p := range rule.problems() {
			all = append(all, Problem{append([]any{"events", i}, p.At...), p.What})
		}
	}
	return all
}

func (r Rule) problems() []Problem {
	var all []Problem
	add := func(key, format string, args ...any) {
		all = append(all, Problem{[]any{key}, fmt.Sprintf(format, args...)})
	}
	for _, key := range r.keys() {
		needed, allowed := slices.Contains(needs(r.Type), key.name), slices.Contains(takes(r.Type), key.name)
		switch {
		case len(needs(r.Type)) == 0: // the invalid type has been reported
		case !key.given && needed:
			add(key.name, "%s needs %s", r.Type, key.name)
		case key.given && !needed && !allowed:
			add(key.name, "%s takes no %s", r.Type, key.name)
		}
		if key.path != "" {
			all = append(all, wrongPath(key.path, key.name)...)
		}
	}
	for _, key := range []struct {
		name  string
		paths []string
	}{{"input", r.Input}, {"output", r.Output}} {
		for i, path := range key.paths {
			all = append(all, wrongPath(path, key.name, i)...)
		}
	}
	if r.Each != "" {
		all = append(all, wrongPath(r.Each, "each")...)
	}
	switch {
	case r.Name != "" && r.Tool != "":
		add("tool", "name and tool say the same; give one of them")
	case r.Type == ToolStart && r.Name == "" && r.Tool == "":
		add("name", "tool_start needs name, or tool")
	}
	if len(r.OK) > 0 && r.Error != "" {
		add("error", "ok and error say the same; give one of them")
	}
	if r.Each == "" && len(r.Where) > 0 {
		add("where", "where is about the items of each; use when for the line")
	}
	return slices.Concat(all, conditions("when", r.When), conditions("where", r.Where), conditions("ok", r.OK))
}

// conditions returns the mistakes in the conditions under a key.
func conditions(key string, values map[string]any) []Problem {
	var all []Problem
	for _, path := range slices.Sorted(maps.Keys(values)) {
		all = append(all, wrongPath(path, key, path)...)
		switch values[path].(type) {
		case map[string]any, []any:
			all = append(all, Problem{[]any{key, path}, "must be a string, a number, a boolean or null"})
		}
	}
	return all
}

// key is a key of a rule that only some types allow.
type key struct {
	name  string
	given bool
	path  string // value, if it is a path
}

func (r Rule) keys() []key {
	path := func(name, path string) key { return key{name, path != "", path} }
	return []key{
		path("id", r.ID), path("name", r.Name), {name: "tool", given: r.Tool != ""},
		path("server", r.Server), path("arguments", r.Arguments),
		path("result", r.Result), {name: "ok", given: len(r.OK) > 0}, path("error", r.Error),
		path("content", r.Content), {name: "joined", given: r.Joined},
		{name: "input", given: len(r.Input) > 0}, {name: "output", given: len(r.Output) > 0},
		{name: "running_total", given: r.Total},
	}
}

func needs(kind string) []string {
	return map[string][]string{ToolStart: {"id"}, ToolEnd: {"id"}, Message: {"content"}, Usage: {"input", "output"}}[kind]
}

func takes(kind string) []string {
	return map[string][]string{
		ToolStart: {"name", "tool", "server", "arguments"}, ToolEnd: {"result", "ok", "error"}, Message: {"joined"}, Usage: {"running_total"},
	}[kind]
}

// wrongPath returns the mistake in the path at a place, if it is none.
func wrongPath(path string, at ...any) []Problem {
	if slices.Contains(strings.Split(path, "."), "") {
		return []Problem{{at, fmt.Sprintf("%q is not a path: it must be keys separated by dots", path)}}
	}
	return nil
}

// literal returns a condition's value as JSON.
func literal(value any) json.RawMessage {
	raw, _ := json.Marshal(value) // it was decoded, so it always marshals
	return raw
}

// in yields the values to which the rule applies: the line, or items of its list.
func (r Rule) in(line []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		if !has(line, r.When) {
			return
		}
		if r.Each == "" {
			yield(line)
			return
		}
		for item := range jsontext.Elements(lookup(line, r.Each)) {
			if has(item, r.Where) && !yield(item) {
				return
			}
		}
	}
}

// has reports whether value has all the wanted values, given by path.
func has(value []byte, want map[string]any) bool {
	for path, wanted := range want {
		found := lookup(value, path)
		if len(found) == 0 || found[0] == '{' || found[0] == '[' || !jsontext.Same(literal(wanted), found) {
			return false
		}
	}
	return true
}

// hasAt reports whether value has a value at each of the paths.
func hasAt(value []byte, paths map[string]any) bool {
	for path := range paths {
		if lookup(value, path) == nil {
			return false
		}
	}
	return true
}

// lookup returns the value at a path in valid JSON. It returns nil if there is none or the path is empty. If
// a key is repeated, the last value counts.
func lookup(value []byte, path string) json.RawMessage {
	if path == "" {
		return nil
	}
	for segment := range strings.SplitSeq(path, ".") {
		if value = step(value, segment); value == nil {
			return nil
		}
	}
	return value
}

func step(value []byte, segment string) []byte {
	found := jsontext.Member(value, segment)
	if at, err := strconv.Atoi(segment); err == nil && found == nil {
		for item := range jsontext.Elements(value) {
			if at == 0 {
				return item
			}
			at--
		}
	}
	return found
}

// scalar returns a string, a number as it is written, or "" for any other value.
func scalar(raw []byte) string {
	if len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') {
		return string(raw)
	}
	return jsontext.Text(raw)
}
