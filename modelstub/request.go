package modelstub

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/runner/dialect"
)

// request is what an agent asks, in whatever shape it came.
type request struct {
	dialect.Request // but for Tools; all that the model said in one turn is one item
	demands

	dialect dialect.Name
	tools   []offered
	size    int64 // of all that the model reads, in bytes
	asArray bool  // a stream as one JSON array, not as events
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

// prompt is all that the user said.
func (r *request) prompt() string {
	var texts []string
	for _, item := range r.Items {
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

// results are what tools answered, in the order of the calls, as their servers said it.
func (r *request) results() []string { return resultsOf(r.Items) }

// resultsOf has those of the script's own calls alone, where results tell whose they
// are, and puts those of one turn into order: agents give them as they come.
func resultsOf(items []dialect.Item) []string {
	type told struct {
		mark mark
		text string
	}
	var all []told
	for _, item := range items {
		for _, result := range item.Results {
			if m, ours := readMark(result.ID); ours || result.ID == "" {
				all = append(all, told{m, unwrapped(result.Text)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b told) int { return a.mark.compare(b.mark) })
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = one.text
	}
	return texts
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
