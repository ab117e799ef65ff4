package stub

import (
	"encoding/json"
	"strings"

	"github.com/waza-isolate/waza/model/dialect"
)

// request is what an agent asks, in whatever shape it came.
type request struct {
	dialect.Request // but for Tools; all that the model said in one turn is one item
	demands

	dialect dialect.Name
	tools   []offered
	prompt  string                   // all that the user said
	told    []told                   // what tools answered, as it came
	size    int64                    // of all that the model reads, in bytes
	asArray bool                     // a stream as one JSON array, not as events
	clean   func(json []byte) []byte // of what ids must not tell; nil for all
}

// read is the request in body, which was sent to path in shape name.
func read(name dialect.Name, path string, body []byte) (*request, error) {
	asked, err := dialect.ReadRequest(name, path, body)
	if err != nil {
		return nil, err
	}
	r := &request{Request: asked, dialect: name, demands: demandsOf(name, body)}
	r.Items = inTurns(asked.Items)
	r.tools = r.responsesTools()
	if name != dialect.Responses {
		for _, t := range asked.Tools {
			r.tools = append(r.tools, offered{name: t.Name})
		}
	}
	r.size = sizeOf(asked)
	r.prompt, r.told = promptOf(r.Items), toldIn(r.Items)
	return r, nil
}

// inTurns is items with those joined that the model said in one turn.
func inTurns(items []dialect.Item) []dialect.Item {
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
		size += len(t.Name) + len(t.Description) + len(t.Schema)
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

// last is what the user said last.
func (r *request) last() string {
	for i := len(r.Items) - 1; i >= 0; i-- {
		if item := r.Items[i]; item.Role == dialect.User && item.Text != "" {
			return item.Text
		}
	}
	return ""
}

// demands are what a request asks for beside the conversation.
type demands struct {
	format    json.RawMessage // JSON Schema of the answer; nil for text
	maxTokens int64           // of the answer; 0 for no limit
	usage     bool            // a stream of chat completions that ends with usage

	// Of responses.
	previous   mark   // of the answer that this one follows, where the request holds no history
	referenced []mark // of items that the history holds by their ids
	given      []responsesTool
}
