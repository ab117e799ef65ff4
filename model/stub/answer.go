package stub

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/evidence"
	"github.com/waza-isolate/waza/evidence/capture"
	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
	"github.com/waza-isolate/waza/model/dialect"
)

// newAnswer returns a text as the answer to r, with ids that contain m.
func newAnswer(r *request, m mark, text string) dialect.Answer {
	digest := r.digest()
	a := dialect.Answer{
		Model: r.Model, Text: text, UsageInStream: r.UsageInStream,
		ID: func(prefix string, n int) string { return m.of(n).id(prefix, digest) },
	}
	a.Usage = usageOf(r, a)
	return a
}

// usageOf counts the tokens of a request and an answer.
func usageOf(r *request, a dialect.Answer) dialect.Usage {
	size := int64(len(a.Text))
	for _, u := range a.Uses {
		size += int64(len(u.Tool.String()) + len(u.Arguments))
	}
	return dialect.Usage{Input: tokens(r.size), Output: tokens(size)}
}

// tokens estimates how many tokens a text of size bytes has.
func tokens(size int64) int64 { return max(1, (size+3)/4) }

// digest returns a digest of the conversation. Streaming makes no difference.
func (r *request) digest() string {
	hash := sha256.New()
	for _, item := range r.Items {
		text, _ := json.Marshal(item) // an item that was read always marshals
		if r.clean != nil {
			text = r.clean(text)
		}
		hash.Write(append(text, '\n'))
	}
	return hex.EncodeToString(hash.Sum(nil)[:6])
}

// named reports whether a tool is called name, or its full name ends with name after a character
// other than a letter or digit.
func named(t dialect.ToolName, name string) bool {
	return t.Local == name || endsWith(t.String(), name)
}

func endsWith(full, end string) bool {
	before, found := strings.CutSuffix(full, end)
	return found && (before == "" || !isWord(rune(before[len(before)-1])))
}

func isWord(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// pick returns the offered tool that c calls. The error lists the offered tools.
func (c callEntry) pick(tools []dialect.ToolName) (dialect.ToolName, error) {
	surely, perhaps := c.fitting(tools)
	for _, found := range [][]dialect.ToolName{surely, perhaps} {
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return dialect.ToolName{}, fmt.Errorf("the script calls %s, and more than one offered tool fits: %s; add its server to the call", c, names(found))
		}
	}
	return dialect.ToolName{}, fmt.Errorf("the script calls %s, and no such tool is offered; offered are: %s", c, names(tools))
}

// fitting returns the tools that c may mean, without duplicates. If c names a server, a tool surely
// fits if its name combines the names of server and tool in a way that agents use, and perhaps if
// its name is the tool's alone. Otherwise a tool surely fits if its whole name matches, and perhaps
// if the end of its name does.
func (c callEntry) fitting(tools []dialect.ToolName) (surely, perhaps []dialect.ToolName) {
	readings := make([]capture.Resolution, len(tools))
	if c.Server != "" {
		all := make([]string, len(tools))
		for i, t := range tools {
			all[i] = t.String()
		}
		readings = capture.Resolve(map[string][]string{c.Server: {c.Tool}}, all...)
	}
	for i, t := range tools {
		ofServer := readings[i].Kind == capture.NameTool && !readings[i].Bare
		switch {
		case ofServer || c.Server == "" && t.String() == c.Tool:
			surely = with(surely, t)
		case readings[i].Bare || c.Server == "" && named(t, c.Tool):
			perhaps = with(perhaps, t)
		}
	}
	return surely, perhaps
}

func with(tools []dialect.ToolName, t dialect.ToolName) []dialect.ToolName {
	if slices.Contains(tools, t) {
		return tools
	}
	return append(tools, t)
}

func (c callEntry) String() string {
	if c.Server == "" {
		return fmt.Sprintf("%q", c.Tool)
	}
	return fmt.Sprintf("%q of server %q", c.Tool, c.Server)
}

// excerpt returns s, shortened for a message.
func excerpt(s string) string { return text.Shorten(s, 200) }

// shownNames is the maximum number of names that a message lists.
const shownNames = 200

func names(tools []dialect.ToolName) string {
	if len(tools) == 0 {
		return "none"
	}
	return strings.Join(text.Some(tools, shownNames, func(t dialect.ToolName) string { return excerpt(t.String()) }), ", ")
}

// schema is the part of a JSON Schema that examples are made from. Google writes types in upper
// case.
type schema struct {
	Type       any               `json:"type"` // a name or a list of them
	Enum       []json.RawMessage `json:"enum"`
	Const      json.RawMessage   `json:"const"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
	Items      *schema           `json:"items"`
	AnyOf      []schema          `json:"anyOf"`
}

// maxExampleDepth is the maximum nesting of an example.
const maxExampleDepth = 16

// example returns a small JSON value that fits the types and enums of a schema.
func example(raw json.RawMessage) string {
	var s schema
	if jsontext.Unmarshal(raw, &s) != nil {
		return "{}"
	}
	encoded, err := evidence.Marshal(s.example(0))
	if err != nil {
		return "{}"
	}
	return string(encoded)
}

func (s schema) example(depth int) any {
	switch {
	case depth > maxExampleDepth:
		return nil
	case len(s.Const) > 0:
		return s.Const
	case len(s.Enum) > 0:
		return s.Enum[0]
	case len(s.AnyOf) > 0:
		return s.AnyOf[0].example(depth + 1)
	}
	switch s.kind() {
	case "string":
		return neutral
	case "integer", "number":
		return 0
	case "boolean":
		return false
	case "array":
		return []any{}
	case "null":
		return nil
	}
	made := map[string]any{}
	for _, name := range s.Required {
		if _, done := made[name]; done {
			continue // a list of many repeated names would be expensive at every depth
		}
		made[name] = s.Properties[name].example(depth + 1)
	}
	return made
}

func (s schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return strings.ToLower(t)
	case []any:
		if len(t) > 0 {
			name, _ := t[0].(string)
			return strings.ToLower(name)
		}
	}
	return ""
}
