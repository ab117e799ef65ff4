package stub

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/jsontext"
	"github.com/waza-isolate/waza/model/dialect"
)

// request is an agent's request in any dialect.
type request struct {
	dialect.Request // with one item for everything that the model produced in a turn

	dialect    dialect.Name
	tools      []dialect.ToolName       // that can be called as functions
	previous   mark                     // of the previous response, if the request has no history
	referenced []mark                   // of items that the history refers to by id
	prompt     string                   // all text of the user
	reported   []toolResult             // the tools' results, as they came
	size       int64                    // size of all text for the model, in bytes
	asArray    bool                     // a stream as one JSON array, not as events
	clean      func(json []byte) []byte // removes what ids must not confirm; nil to remove nothing
}

// read returns the request in a body that was sent to path.
func read(name dialect.Name, path string, body []byte) (*request, error) {
	asked, err := dialect.ReadRequest(name, path, body)
	if err != nil {
		return nil, err
	}
	r := &request{Request: asked, dialect: name}
	r.Items = mergeTurns(asked.Items)
	for _, t := range asked.Tools {
		if !t.NoFunction {
			r.tools = append(r.tools, t.Name)
		}
	}
	r.previous, _ = readMark(asked.Previous)
	for _, id := range asked.References {
		if m, ok := readMark(id); ok {
			r.referenced = append(r.referenced, m)
		}
	}
	r.size = sizeOf(asked)
	r.prompt, r.reported = promptOf(r.Items), resultsIn(r.Items)
	return r, nil
}

// mergeTurns joins the items that the model produced in one turn.
func mergeTurns(items []dialect.Item) []dialect.Item {
	var all []dialect.Item
	for _, item := range items {
		last := len(all) - 1
		if last < 0 || item.Role != dialect.Assistant || all[last].Role != dialect.Assistant {
			all = append(all, item)
			continue
		}
		all[last].Text = joined(all[last].Text, item.Text)
		all[last].Uses = append(all[last].Uses, item.Uses...)
	}
	return all
}

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

func sizeOf(r dialect.Request) int64 {
	size := len(r.System)
	for _, t := range r.Tools {
		size += len(t.Name.String()) + len(t.Description) + len(t.Schema)
	}
	for _, item := range r.Items {
		size += len(item.Text)
		for _, use := range item.Uses {
			size += len(use.Name) + len(use.Arguments)
		}
		for _, result := range item.Results {
			size += len(result.Text)
		}
	}
	return int64(size)
}

func promptOf(items []dialect.Item) string {
	var texts []string
	for _, item := range items {
		if item.Role == dialect.User && item.Text != "" {
			texts = append(texts, item.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// last returns the last text of the user.
func (r *request) last() string {
	for i := len(r.Items) - 1; i >= 0; i-- {
		if item := r.Items[i]; item.Role == dialect.User && item.Text != "" {
			return item.Text
		}
	}
	return ""
}

// toolResult is a tool's result.
type toolResult struct {
	item int // of the conversation
	mark mark
	text string // as sent by its server
}

// resultsIn returns the results of the script's own calls, and those without an id.
func resultsIn(items []dialect.Item) []toolResult {
	var all []toolResult
	for i, item := range items {
		for _, result := range item.Results {
			if m, ours := readMark(result.ID); ours || result.ID == "" {
				all = append(all, toolResult{i, m, unwrapped(result.Text)})
			}
		}
	}
	return all
}

// results returns the tool results before an item, in the form for templates and in the order of
// their calls: agents send the results of concurrent calls in the order of their arrival.
func (r *request) results(before int) map[string]any {
	end, _ := slices.BinarySearchFunc(r.reported, before, func(t toolResult, item int) int { return t.item - item })
	all := slices.Clone(r.reported[:end])
	slices.SortStableFunc(all, func(a, b toolResult) int { return a.mark.compare(b.mark) })
	texts := make([]any, len(all))
	for i, one := range all {
		texts[i] = one.text
	}
	values := map[string]any{"results": texts}
	if len(texts) > 0 {
		values["result"] = texts[len(texts)-1]
	}
	return values
}

// maxWraps is the maximum number of layers removed from a result.
const maxWraps = 8

// unwrapped returns the server's text of a tool result. Agents pass on MCP's content lists,
// or wrap them in an object, a tag or additional lines.
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
	if text, twice := withoutCopy(trimmed); twice { // Copilot CLI
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

// withoutCopy removes structured content that follows the text of a result, if both are JSON.
func withoutCopy(text string) (string, bool) {
	if !strings.HasPrefix(text, "{") {
		return "", false
	}
	var scan jsontext.Scanner
	end, _ := scan.Scan([]byte(text))
	first, second := text[:end], strings.TrimSpace(text[end:])
	twice := strings.HasPrefix(second, "{") && jsontext.Valid([]byte(first)) && jsontext.Valid([]byte(second))
	return first, twice
}

// unwrapObject unwraps {"output": …} and {"content": […]}.
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
