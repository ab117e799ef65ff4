package stub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/model/dialect"
)

// sent is one event of a stream.
type sent struct {
	name, data string
	object     object // nil if data is not JSON
}

// eventsOf takes a stream apart; every event has its data on one line.
func eventsOf(t *testing.T, body []byte) []sent {
	t.Helper()
	var all []sent
	for text := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		var one sent
		for line := range strings.SplitSeq(text, "\n") {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				one.name = name
			} else if data, ok := strings.CutPrefix(line, "data: "); ok {
				one.data = data
			} else {
				t.Errorf("a line that no stream has: %q", line)
			}
		}
		if err := json.Unmarshal([]byte(one.data), &one.object); err != nil && one.data != "[DONE]" {
			t.Errorf("%v: %s", err, one.data)
		}
		all = append(all, one)
	}
	return all
}

// streamed is the first turn of stockScript: three words and two calls' worth of
// arguments.
func streamed(t *testing.T, name dialect.Name) []sent {
	t.Helper()
	a := &agent{T: t, handler: script(t, stockScript).Handler(), dialect: name, stream: true, tools: stockTools}
	a.says("Reserve bolts.")
	return eventsOf(t, a.asks().body)
}

func TestChatStream(t *testing.T) {
	events := streamed(t, dialect.Chat)
	last := len(events) - 1
	if events[last].data != "[DONE]" {
		t.Errorf("the stream ends with %s", events[last].data)
	}
	var texts, arguments int
	for i, e := range events[:last] {
		if e.name != "" || e.object["object"] != "chat.completion.chunk" || e.object["id"] != events[0].object["id"] {
			t.Errorf("event %d: %s %s", i, e.name, e.data)
		}
		usage, reported := e.object["usage"]
		choices := e.object["choices"].([]any)
		if isLast := i == last-1; !reported || isLast != (usage != nil) || isLast != (len(choices) == 0) {
			t.Errorf("event %d: usage %v, %d choices", i, usage, len(choices))
			continue
		} else if isLast {
			continue
		}
		delta := choices[0].(object)["delta"].(object)
		if text, _ := delta["content"].(string); text != "" {
			texts++
		}
		if calls, ok := delta["tool_calls"].([]any); ok && calls[0].(object)["function"].(object)["arguments"] != "" {
			arguments++
		}
	}
	if texts != 4 || arguments < 3 {
		t.Errorf("%d pieces of text and %d of arguments", texts, arguments)
	}
}

// Usage is only sent if requested.
func TestChatStreamWithoutUsage(t *testing.T) {
	_, body := compose(dialect.Chat, []dialect.Item{{Role: dialect.User, Text: "Hello."}}, nil, true)
	delete(body, "stream_options")
	_, content := post(t, script(t, "turns: [{say: Hello.}]").Handler(), "/chat/completions", encoded(t, body))
	if strings.Contains(content, "usage") {
		t.Error(content)
	}
}

func TestResponsesStream(t *testing.T) {
	events := streamed(t, dialect.Responses)
	var kinds []string
	deltas := map[string]string{} // by item and kind
	for i, e := range events {
		if e.name != e.object["type"] || e.object["sequence_number"] != float64(i) {
			t.Errorf("event %d is called %q: %s", i, e.name, e.data)
		}
		if n := len(kinds); n == 0 || kinds[n-1] != e.name {
			kinds = append(kinds, e.name)
		}
		what, isDelta := strings.CutSuffix(e.name, ".delta")
		if isDelta {
			deltas[fmt.Sprint(e.object["item_id"], what)] += e.object["delta"].(string)
		}
		what, isDone := strings.CutSuffix(e.name, ".done")
		if whole := cmpOr(e.object["text"], e.object["arguments"]); isDone && whole != nil {
			if got := deltas[fmt.Sprint(e.object["item_id"], what)]; got != whole {
				t.Errorf("%s adds up to %q and not to %q", what, got, whole)
			}
		}
	}
	want := []string{
		"response.created", "response.in_progress",
		"response.output_item.added", "response.content_part.added", "response.output_text.delta", "response.output_text.done",
		"response.content_part.done", "response.output_item.done",
		"response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.done", "response.output_item.done",
		"response.completed",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}

func cmpOr(a, b any) any {
	if a != nil {
		return a
	}
	return b
}

func TestMessagesStream(t *testing.T) {
	var kinds []string
	open := -1.0
	for i, e := range streamed(t, dialect.Messages) {
		if e.name != e.object["type"] {
			t.Errorf("event %d is called %q: %s", i, e.name, e.data)
		}
		index, _ := e.object["index"].(float64)
		switch e.name {
		case "content_block_start":
			open++
			fallthrough
		case "content_block_delta", "content_block_stop":
			if index != open {
				t.Errorf("event %d is of block %v in block %v", i, index, open)
			}
		}
		if n := len(kinds); n == 0 || kinds[n-1] != e.name {
			kinds = append(kinds, e.name)
		}
	}
	want := []string{
		"message_start", "content_block_start", "ping", "content_block_delta", "content_block_stop",
		"content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
}

// The two streams of Google's shape hold the same.
func TestGenerateStreams(t *testing.T) {
	handler := script(t, stockScript).Handler()
	_, body := compose(dialect.Generate, []dialect.Item{{Role: dialect.User, Text: "Hello."}}, stockTools, true)
	path := "/v1beta/models/m:streamGenerateContent"
	_, asEvents := post(t, handler, path+"?alt=sse", encoded(t, body))
	_, asArray := post(t, handler, path, encoded(t, body))
	var array, events []object
	if err := json.Unmarshal([]byte(asArray), &array); err != nil {
		t.Fatal(err)
	}
	for _, e := range eventsOf(t, []byte(asEvents)) {
		events = append(events, e.object)
	}
	if diff := cmp.Diff(array, events); diff != "" || len(events) != 5 {
		t.Errorf("%d events\n%s", len(events), diff)
	}
}

func TestPaths(t *testing.T) {
	handler := script(t, "models: [small, large]\nturns: [{say: Hello.}]").Handler()
	anthropic := http.Header{"Anthropic-Version": {"2023-06-01"}}
	for _, test := range []struct {
		method, path string
		header       http.Header
		status       int
		has          string
	}{
		{"POST", "/chat/completions", nil, 200, `"chat.completion"`},
		{"POST", "/openai/deployments/d/chat/completions?api-version=1", nil, 200, `"chat.completion"`},
		{"POST", "/v1/responses", nil, 200, `"response"`},
		{"POST", "/a/v1/messages?beta=true", nil, 200, `"message"`},
		{"POST", "/v1/messages/count_tokens", nil, 200, `{"input_tokens":1}`},
		{"POST", "/v1beta/models/small:generateContent", nil, 200, `"candidates"`},
		{"POST", "/v1beta/models/small:countTokens", nil, 200, `{"totalTokens":1}`},
		{"GET", "/models", nil, 200, `{"data":[{"created":1700000000,"id":"small"`},
		{"GET", "/x/v1/models/", nil, 200, `"object":"list"`},
		{"GET", "/v1/models/large", nil, 200, `{"created":1700000000,"id":"large","object":"model","owned_by":"script"}`},
		{"GET", "/v1/models", anthropic, 200, `"first_id":"small","has_more":false,"last_id":"large"`},
		{"GET", "/google/v1beta/models", nil, 200, `"name":"models/small"`},
		{"GET", "/v1beta/models/huge", nil, 404, `the script has no model \"huge\"`},
		{"GET", "/v1/responses", nil, 404, "the scripted model has nothing at GET /v1/responses"},
		{"POST", "/v1/embeddings", nil, 404, "the scripted model has nothing at POST /v1/embeddings"},
		{"POST", "/v1beta/models/m:embedContent", nil, 404, "nothing at"},
		{"DELETE", "/models", nil, 404, "nothing at"},
	} {
		status, content := exchange(handler, test.method, test.path, test.header, "{}")
		if status != test.status || !strings.Contains(content, test.has) {
			t.Errorf("%s %s: status %d: %s", test.method, test.path, status, content)
		}
	}
}

// A request that is not a conversation is refused in the dialect's error format.
func TestBadRequests(t *testing.T) {
	handler := script(t, "turns: [{say: Hello.}]").Handler()
	for _, name := range dialects {
		path, _ := compose(name, nil, nil, false)
		for _, body := range []string{"", "{", "[]", `"hello"`} {
			status, content := exchange(handler, "POST", path, nil, body)
			got, err := dialect.ReadResponse(name, status, "application/json", []byte(content))
			if err != nil || status != 400 || got.Error == "" {
				t.Errorf("%s of %q: status %d, %v: %s", name, body, status, err, content)
			}
		}
	}
	status, content := exchange(handler, "POST", "/v1/messages", nil, strings.Repeat(" ", 64<<20+1))
	if status != 413 || !strings.Contains(content, "the request is larger than 64 MiB") {
		t.Errorf("status %d: %s", status, content)
	}
}

func TestManyToolsAreNotAllNamed(t *testing.T) {
	names := slices.Repeat([]string{strings.Repeat("x", 5000)}, 300)
	a := &agent{T: t, handler: script(t, stockScript).Handler(), dialect: dialect.Chat, tools: names}
	a.says("Reserve.")
	if got := a.tries(); got.status != 400 || len(got.body) > 100_000 || !strings.HasSuffix(got.Error, "and 100 more") {
		t.Errorf("status %d, %d bytes", got.status, len(got.body))
	}
}
