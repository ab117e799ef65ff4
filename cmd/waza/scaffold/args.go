package scaffold

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// maxSchemaDepth is the maximum depth to which schemas and references are followed.
const maxSchemaDepth = 8

// maxSchemaSteps is the maximum number of schemas tried for a tool's arguments. A server's schema may have
// choices that refer to each other, which would otherwise be tried forever.
const maxSchemaSteps = 1000

// arguments returns arguments that match a tool's input schema: only the required ones. If the schema gives
// no value for an argument, the value comes from earlier answers that contain one with a matching name.
// guesses is the number of other values, which are made up. ok is false if a value cannot be made up, for
// example because of a pattern.
func arguments(tool string, schema []byte, earlier []field) (args json.RawMessage, guesses int, ok bool) {
	m := &maker{root: schema, tool: tool, earlier: earlier}
	made, ok := m.object(schema, 0)
	if !ok {
		return nil, 0, false
	}
	for raw := range jsontext.Elements(jsontext.Member(schema, "examples")) {
		if example, whole := jsontext.Decode(raw).(map[string]any); whole {
			made, m.guesses = example, 0
			break
		}
	}
	data, err := json.Marshal(made)
	if err != nil || !isHarmless(string(data)) {
		return nil, 0, false
	}
	return data, m.guesses, true
}

// placeholders returns an object with a placeholder for each required property, for the user to fill in. It
// returns false if there are none or if their names are not safe in a script.
func placeholders(schema []byte) (json.RawMessage, bool) {
	all := map[string]string{}
	for _, name := range required(schema) {
		all[name] = madeUp
	}
	data, err := json.Marshal(all)
	return data, err == nil && len(all) > 0 && isHarmless(string(data))
}

// required returns the names of the arguments that a schema requires.
func required(schema []byte) (names []string) {
	for raw := range jsontext.Elements(jsontext.Member(schema, "required")) {
		if name := jsontext.Word(raw); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// maxArguments is the maximum length of made-up arguments, since they are written to a prompt.
const maxArguments = 300

// isHarmless reports whether a server's text is safe in a prompt and a script: short, on one line, without
// invisible characters, and not a template.
func isHarmless(s string) bool {
	return len(s) <= maxArguments && !strings.Contains(s, "{{") && !strings.Contains(s, "${") && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// maker makes up values that match the schemas of one document, for the arguments of a tool.
type maker struct {
	root    []byte
	tool    string
	earlier []field
	steps   int
	guesses int // number of values that were made up
}

func (m *maker) object(schema []byte, depth int) (map[string]any, bool) {
	made := map[string]any{}
	properties := jsontext.Member(schema, "properties")
	for _, name := range required(schema) {
		value, ok := m.value(jsontext.Member(properties, name), name, depth+1)
		if !ok {
			return nil, false
		}
		made[name] = value
	}
	return made, true
}

// value returns a value that matches a schema; it also uses the name of the schema's property.
func (m *maker) value(schema []byte, name string, depth int) (any, bool) {
	if m.steps++; depth > maxSchemaDepth || m.steps > maxSchemaSteps {
		return nil, false
	}
	if raw := jsontext.Member(schema, "const"); raw != nil {
		return jsontext.Decode(raw), true
	}
	for raw := range jsontext.Elements(jsontext.Member(schema, "enum")) {
		return jsontext.Decode(raw), true
	}
	kind := kindOf(schema)
	if value, ok := find(m.earlier, m.tool, name, kind); ok {
		return value, true
	}
	if raw := jsontext.Member(schema, "default"); raw != nil && string(raw) != "null" {
		return jsontext.Decode(raw), true
	}
	for raw := range jsontext.Elements(jsontext.Member(schema, "examples")) {
		return jsontext.Decode(raw), true
	}
	if raw := jsontext.Member(schema, "example"); raw != nil { // from OpenAPI
		return jsontext.Decode(raw), true
	}
	if value, ok := exampleIn(jsontext.Text(jsontext.Member(schema, "description")), kind); ok {
		return value, true
	}
	if ref := jsontext.Word(jsontext.Member(schema, "$ref")); ref != "" {
		return m.value(m.at(ref), name, depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		for choice := range jsontext.Elements(jsontext.Member(schema, key)) {
			if value, ok := m.value(choice, name, depth+1); ok && value != nil {
				return value, true
			}
		}
	}
	switch kind {
	case "integer", "number":
		m.guesses++
		return number(schema), true
	case "boolean":
		return false, true
	case "array":
		least, _ := strconv.Atoi(string(jsontext.Member(schema, "minItems")))
		items := []any{}
		for range max(1, min(least, 4)) { // an empty list would test nothing
			item, ok := m.value(jsontext.Member(schema, "items"), singular(name), depth+1)
			if !ok {
				break
			}
			items = append(items, item)
		}
		return items, len(items) >= least
	case "object":
		return m.object(schema, depth)
	case "null":
		return nil, false
	}
	m.guesses++
	made, ok := textFor(schema, name)
	if made == "/tmp" && slices.ContainsFunc(words(m.tool), func(word string) bool { return word == "write" || word == "save" || word == "append" }) {
		made = "/tmp/hello.txt" // a directory cannot be written to
	}
	return made, ok
}

// exampleWord matches an example in a description: SKU such as BRG-6204; e.g. "main"; (default: 10).
var exampleWord = regexp.MustCompile(`(?i)(?:\b(?:such as|e\.g\.,?|for example,?|for instance,?|examples?:|defaults? to|default:)\s*|\blike )(?:"([^"]+)"|'([^']+)'|` + "`([^`]+)`" + `|([A-Za-z0-9][^\s"'` + "`" + `,;()]*))`)

// exampleIn returns the first value of a type that a description gives as an example.
func exampleIn(description, kind string) (any, bool) {
	for _, found := range exampleWord.FindAllStringSubmatch(description, -1) {
		word := cmp.Or(found[1], found[2], found[3], strings.TrimRight(found[4], ".:!?"))
		if strings.HasPrefix(strings.ToLower(found[0]), "like ") && word == strings.TrimRight(found[4], ".:!?") && !strings.ContainsAny(word, "0123456789") {
			continue // such as "like the others"
		}
		if value, ok := typed(word, kind); ok {
			return value, true
		}
	}
	return nil, false
}

// typed returns a word as a value of a schema's type. It returns false if the word is none.
func typed(word, kind string) (any, bool) {
	switch kind {
	case "integer", "number":
		n, err := strconv.ParseFloat(word, 64)
		return json.Number(word), err == nil && (kind == "number" || n == math.Trunc(n))
	case "boolean":
		b, err := strconv.ParseBool(word)
		return b, err == nil
	case "string", "":
		return word, isHarmless(word)
	}
	return nil, false
}

// at resolves a reference within the document.
func (m *maker) at(ref string) []byte {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	found := m.root
	for step := range strings.SplitSeq(path, "/") {
		found = jsontext.Member(found, step)
	}
	return found
}

// kindOf returns the type of a schema; of several types, the first that is not null.
func kindOf(schema []byte) string {
	raw := jsontext.Member(schema, "type")
	for one := range jsontext.Elements(raw) {
		if kind := jsontext.Word(one); kind != "null" {
			return kind
		}
	}
	kind := jsontext.Word(raw)
	if kind == "" && jsontext.Member(schema, "properties") != nil {
		return "object"
	}
	return kind
}

// number returns the smallest number that a schema allows, or 1.
func number(schema []byte) any {
	bound := func(key string) (float64, bool) {
		n, err := strconv.ParseFloat(string(jsontext.Member(schema, key)), 64)
		return n, err == nil
	}
	value := 1.0
	if least, ok := bound("minimum"); ok && least > value {
		value = least
	}
	if above, ok := bound("exclusiveMinimum"); ok && above >= value {
		value = above + 1
	}
	if most, ok := bound("maximum"); ok && most < value {
		value = most
	}
	return value
}

// named returns a value for a string, given its format or a part of its property's name.
func named(format, name string) string {
	switch format {
	case "date":
		return "2026-01-02"
	case "date-time":
		return "2026-01-02T03:04:05Z"
	case "time":
		return "03:04:05Z"
	case "uuid":
		return "00000000-0000-4000-8000-000000000000"
	case "hostname":
		return "example.com"
	case "ipv4":
		return "192.0.2.1"
	case "ipv6":
		return "2001:db8::1"
	case "duration":
		return "PT1H"
	case "byte":
		return "aGVsbG8="
	}
	for _, known := range []struct {
		parts []string
		value string
	}{
		{[]string{"url", "uri"}, "https://example.com/"}, {[]string{"mail"}, "someone@example.com"},
		{[]string{"filename", "file_name"}, "hello.txt"}, {[]string{"path", "file", "dir", "folder"}, "/tmp"}, {[]string{"timezone", "time_zone", "tz"}, "UTC"},
		{[]string{"city", "location", "place", "town"}, "Paris"}, {[]string{"date"}, "2026-01-02"}, {[]string{"time"}, "12:00"},
		{[]string{"cron"}, "0 9 * * 1"}, {[]string{"expression", "formula"}, "6 * 7"}, {[]string{"sql"}, "SELECT 6 * 7 AS answer"}, {[]string{"command"}, "uname"},
	} {
		for _, part := range known.parts {
			if strings.Contains(strings.ToLower(format+" "+name), part) {
				return known.value
			}
		}
	}
	return "hello"
}

// textFor returns a string for a schema. It returns false if the schema has a pattern that the string does
// not match.
func textFor(schema []byte, name string) (any, bool) {
	value := named(jsontext.Word(jsontext.Member(schema, "format")), name)
	if least, err := strconv.Atoi(string(jsontext.Member(schema, "minLength"))); err == nil && least > len(value) {
		if least > maxArguments {
			return nil, false
		}
		value += strings.Repeat("o", least-len(value))
	}
	if most, err := strconv.Atoi(string(jsontext.Member(schema, "maxLength"))); err == nil && most < len(value) {
		value = value[:max(most, 0)]
	}
	pattern := jsontext.Word(jsontext.Member(schema, "pattern"))
	if pattern == "" {
		return value, true
	}
	fits, err := regexp.MatchString(pattern, value)
	return value, err == nil && fits
}
