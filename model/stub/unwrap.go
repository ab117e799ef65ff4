package stub

import (
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// maxWraps bounds how many layers are taken off a result.
const maxWraps = 8

// unwrapped is what a tool's server said, out of what an agent made of it: agents hand
// on MCP's lists of content, put an object or a tag around them, or lines before.
func unwrapped(text string) string {
	for range maxWraps {
		inner, ok := unwrap(text)
		if !ok {
			break
		}
		text = inner
	}
	return text
}

func unwrap(text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if strings.HasPrefix(trimmed, "Wall time:") { // Codex
		_, output, found := strings.Cut(trimmed, "\nOutput:\n")
		return output, found
	}
	if inner, tagged := strings.CutPrefix(trimmed, "<untrusted_context>"); tagged { // Gemini CLI
		inner, tagged = strings.CutSuffix(inner, "</untrusted_context>")
		return strings.TrimSpace(inner), tagged
	}
	if text, twice := toldTwice(trimmed); twice { // Copilot CLI
		return text, true
	}
	var parts []part
	if jsontext.Unmarshal([]byte(trimmed), &parts) == nil && len(parts) > 0 {
		for _, p := range parts {
			if p.Type != "text" {
				return "", false
			}
		}
		return textOf(parts), true
	}
	return unwrapObject(trimmed)
}

// toldTwice takes off the structured content of a result that follows its text, where
// both are JSON.
func toldTwice(text string) (string, bool) {
	if !strings.HasPrefix(text, "{") {
		return "", false
	}
	var scan jsontext.Scanner
	end, _ := scan.Scan([]byte(text))
	first, second := text[:end], strings.TrimSpace(text[end:])
	twice := strings.HasPrefix(second, "{") && jsontext.Valid([]byte(first)) && jsontext.Valid([]byte(second))
	return first, twice
}

// unwrapObject takes off {"output": …} and {"content": […]}.
func unwrapObject(text string) (string, bool) {
	var around map[string]json.RawMessage
	if jsontext.Unmarshal([]byte(text), &around) != nil {
		return "", false
	}
	for _, key := range []string{"output", "error"} {
		var inner string
		if len(around) == 1 && jsontext.Unmarshal(around[key], &inner) == nil {
			return inner, true
		}
	}
	var parts []part
	if jsontext.Unmarshal(around["content"], &parts) != nil || len(parts) == 0 || parts[0].Type != "text" {
		return "", false
	}
	return textOf(parts), true
}

// part is one part of a result.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func textOf(parts []part) string {
	var all string
	for _, p := range parts {
		all = joined(all, p.Text)
	}
	return all
}
