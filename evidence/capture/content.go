package capture

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/internal/text"
)

// content is the content of a tool result.
type content struct {
	blocks     json.RawMessage // the member content, unchanged
	structured json.RawMessage
	text       string // of the text blocks, joined by newlines
	textAlone  bool   // all blocks are text
}

// readContent parses a result. It returns an empty content for an invalid result.
func readContent(result json.RawMessage) content {
	if !jsontext.Valid(result) {
		return content{}
	}
	fields, ok := members(result)
	if !ok {
		return content{}
	}
	c := content{blocks: fields["content"], structured: fields["structuredContent"]}
	c.text, c.textAlone = blockText(c.blocks)
	return c
}

// blockText joins the text of blocks and reports whether all of them are text.
func blockText(raw json.RawMessage) (joined string, alone bool) {
	var blocks []map[string]json.RawMessage
	_ = jsontext.Unmarshal(raw, &blocks)
	var texts []string
	alone = true
	for _, block := range blocks {
		if jsontext.Text(block["type"]) != "text" {
			alone = false
			continue
		}
		texts = append(texts, jsontext.Text(block["text"]))
	}
	return strings.Join(texts, "\n"), alone
}

// sameResult reports whether the transcript reports the result of a call as it was. A transcript without a
// result counts as correct. So does a result with blocks other than text, which agents write in too many ways
// to compare. An agent may write the whole result, its content, the structured content or the text, as JSON
// or as a JSON string, with other lines before and after it, and shortened.
func sameResult(reported, result json.RawMessage) bool {
	c := readContent(result)
	if len(reported) == 0 || isNull(reported) || c.text == "" || !c.textAlone {
		return true
	}
	said := reportedText(reported)
	if holdsLines(said, c.text) {
		return true
	}
	for _, value := range []json.RawMessage{reported, unpacked(reported)} {
		for _, whole := range []json.RawMessage{result, c.blocks, c.structured, json.RawMessage(c.text)} {
			if len(value) > 0 && jsontext.Same(value, whole) {
				return true
			}
		}
	}
	return isShortened(said, c.text)
}

// unpacked returns the JSON that a JSON string contains, or nil.
func unpacked(raw json.RawMessage) json.RawMessage {
	inner := json.RawMessage(jsontext.Text(raw))
	if !jsontext.Valid(inner) {
		return nil
	}
	return inner
}

// reportedText returns the text of a result in a transcript: a string; the text of blocks, at the top level
// or under content; or all strings in the result.
func reportedText(reported json.RawMessage) string {
	var v any
	if jsontext.Unmarshal(reported, &v) != nil {
		return string(reported)
	}
	return strings.Join(texts(v), "\n")
}

func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var all []string
		for _, item := range v {
			all = append(all, texts(item)...)
		}
		return all
	case map[string]any:
		for _, key := range []string{"contents", "text", "content"} {
			if inner, ok := v[key]; ok {
				return texts(inner)
			}
		}
		var all []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			all = append(all, texts(v[key])...)
		}
		return all
	}
	return nil
}

// holdsLines reports whether said contains all lines of was in a row. It ignores empty lines and white space
// at the ends of lines.
func holdsLines(said, was string) bool {
	return strings.Contains("\n"+lines(said)+"\n", "\n"+lines(was)+"\n")
}

func lines(s string) string {
	var kept []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// minPrefix is the minimum size, in bytes, of a prefix of a result that counts as the shortened result even
// without an omission mark.
const minPrefix = 256

// isShortened reports whether said is a shortened form of was: its beginning, an omission mark and its end,
// of which beginning or end may be empty; or a long beginning alone.
func isShortened(said, was string) bool {
	said, was = strings.Join(strings.Fields(said), " "), strings.Join(strings.Fields(was), " ")
	begin := text.Prefix(said, was)
	if begin == len(said) {
		return begin >= minPrefix
	}
	// The mark may begin with the same characters as the omitted text.
	for begin := begin; begin >= 0 && begin > text.Prefix(said, was)-4; begin-- {
		end := commonSuffix(said[begin:], was[begin:])
		if isMark(said[begin : len(said)-end]) {
			return true
		}
	}
	return false
}

func commonSuffix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}

// isMark reports whether s only says that something was omitted: it begins with an ellipsis or a bracket, and
// has only the words of such marks. It must have at least as many words as numbers, which count what was
// omitted.
func isMark(s string) bool {
	s = strings.ToLower(strings.TrimSpace(s))
	said := strings.HasPrefix(s, "…") || strings.HasPrefix(s, "...")
	if !said && !strings.ContainsAny(s[:min(len(s), 1)], "[<(+-*") {
		return false
	}
	numbers, words := 0, 0
	for word := range strings.FieldsFuncSeq(s, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }) {
		switch {
		case strings.Trim(word, "0123456789") == "":
			numbers++
			continue
		case slices.Contains(omissions(), word):
			said = true
		case !slices.Contains(fillers(), word):
			return false
		}
		words++
	}
	return said && numbers <= words
}

func omissions() []string {
	return []string{"truncated", "omitted", "clipped", "shortened", "elided", "cut", "snip", "snipped", "more", "trimmed", "remaining", "hidden"}
}

func fillers() []string {
	return []string{
		"output", "result", "results", "response", "content", "text", "message", "tool", "of", "to", "the", "at", "off", "was", "is", "too", "long", "for",
		"showing", "first", "last", "total", "chars", "characters", "bytes", "lines", "line", "tokens", "kb", "mb", "k", "length", "limit", "due",
	}
}

// Text returns the joined text of an MCP tool result's content. It returns "" if there is none or the result
// is invalid.
func Text(result json.RawMessage) string {
	return readContent(result).text
}

// BlockText is like [Text] for the content of a result: a list of blocks.
func BlockText(content json.RawMessage) string {
	text, _ := blockText(content)
	return text
}
