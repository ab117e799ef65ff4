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
	blocks     json.RawMessage // of content, as they came
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

// sameResult reports whether the transcript has the result of a call as it was. A transcript
// without a result is right, and results with other blocks than text are written in too many ways
// to compare. An agent may write the whole result, its content, the structured content or the
// text, as JSON or as a string of JSON, with other lines before and after it, and shortened.
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

// reportedText returns the text of a result in a transcript: a string; the text of blocks, alone
// or under content; or every string in it.
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

// holdsLines reports whether all lines of a text are together in another. White space at their
// ends and empty lines do not count.
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

// minPrefix is how many bytes the beginning of a result must have to be taken for the shortened
// result without a mark that says so.
const minPrefix = 256

// isShortened reports whether said is a shortened form of was: its beginning, a mark of the
// omission and its end, where beginning or end may be empty; or a long beginning alone.
func isShortened(said, was string) bool {
	said, was = strings.Join(strings.Fields(said), " "), strings.Join(strings.Fields(was), " ")
	begin := text.Prefix(said, was)
	if begin == len(said) {
		return begin >= minPrefix
	}
	// The mark may begin with the characters with which the text went on.
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

// isMark reports whether s only states that something was omitted: it begins with an
// ellipsis or a bracket and has only words of such marks. A number counts what was omitted,
// so it comes with a word.
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

// Text joins the text of an MCP tool result's content. It is empty where there is none, or where
// the result is not what the protocol says.
func Text(result json.RawMessage) string {
	return readContent(result).text
}

// BlockText does the same for only a result's content, a list of blocks.
func BlockText(content json.RawMessage) string {
	text, _ := blockText(content)
	return text
}
