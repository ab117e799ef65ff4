package modelstub

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waza-isolate/waza/runner/dialect"
)

// request is what an agent asks, in whatever shape it came.
type request struct {
	dialect.Request // but for Tools
	dialect         dialect.Name

	tools     []offered
	previous  mark            // of the answer that this one follows, where the request holds no history
	format    json.RawMessage // JSON Schema of the answer; nil for text
	maxTokens int64           // of the answer; 0 for no limit
	size      int64           // of all that the model reads, in bytes

	asArray    bool // a stream as one JSON array, not as events
	wantsUsage bool // a stream of chat completions that ends with usage
}

// read is the request in body, which came in shape name.
func read(name dialect.Name, body []byte) (*request, error) {
	r := &request{dialect: name}
	readers := map[dialect.Name]func([]byte) error{
		dialect.Chat: r.readChat, dialect.Responses: r.readResponses,
		dialect.Messages: r.readMessages, dialect.Generate: r.readGenerate,
	}
	if err := readers[name](body); err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	for _, t := range r.tools {
		r.size += int64(len(t.full()))
	}
	r.size += int64(len(r.System))
	for _, item := range r.Items {
		r.size += int64(len(item.Text))
		for _, use := range item.Uses {
			r.size += int64(len(use.Name) + len(use.Arguments))
		}
		for _, result := range item.Results {
			r.size += int64(len(result.Text))
		}
	}
	return r, nil
}

// add puts an item behind the others, into the last one where both are the model's:
// what a model says in one turn may come in parts.
func (r *request) add(item dialect.Item) {
	if last := len(r.Items) - 1; last >= 0 && item.Role == dialect.Assistant && r.Items[last].Role == dialect.Assistant {
		r.Items[last].Text = joined(r.Items[last].Text, item.Text)
		r.Items[last].Uses = append(r.Items[last].Uses, item.Uses...)
		return
	}
	r.Items = append(r.Items, item)
}

func (r *request) instruct(text string) { r.System = joined(r.System, text) }

func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n" + b
}

// said is all that role said, joined.
func (r *request) said(role string) string {
	var texts []string
	for _, item := range r.Items {
		if item.Role == role && item.Text != "" {
			texts = append(texts, item.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// last is the text that the user said last.
func (r *request) last() string {
	for i := len(r.Items) - 1; i >= 0; i-- {
		if item := r.Items[i]; item.Role == dialect.User && item.Text != "" {
			return item.Text
		}
	}
	return ""
}

// results are what tools answered, in order, as their servers said it. Where results
// tell whose they are, only those of the script's own calls count.
func (r *request) results() []string { return resultsOf(r.Items) }

func resultsOf(items []dialect.Item) []string {
	var texts []string
	for _, item := range items {
		for _, result := range item.Results {
			if _, ours := readMark(result.ID); ours || result.ID == "" {
				texts = append(texts, unwrapped(result.Text))
			}
		}
	}
	return texts
}

// content is a text, or a list of parts of which some have text.
type content []part

type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// UnmarshalJSON takes a string, a list of parts or null.
func (c *content) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		*c = content{{Text: text}}
		return nil
	}
	var parts []part
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	*c = parts
	return nil
}

func (c content) text() string {
	var all string
	for _, p := range c {
		all = joined(all, p.Text)
	}
	return all
}

// arguments is raw where that is JSON, else nil.
func arguments(raw string) json.RawMessage {
	if !json.Valid([]byte(raw)) {
		return nil
	}
	return json.RawMessage(raw)
}
