package stub_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/goleak"

	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/model/stub"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is a JSON object.
type object = map[string]any

// agent is a program that holds a conversation in one dialect, as the real ones do.
type agent struct {
	*testing.T
	handler http.Handler
	dialect dialect.Name
	stream  bool
	forgets bool // the ids of calls, as agents of Google's shape may
	tools   []string
	items   []dialect.Item
}

// answer is a response to the agent: as received, and as parsed.
type answer struct {
	dialect.Response
	status int
	header http.Header
	body   []byte
}

func script(t testing.TB, text string) *stub.Script {
	t.Helper()
	s, err := stub.Parse("script.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// says adds the user's words.
func (a *agent) says(text string) {
	a.items = append(a.items, dialect.Item{Role: dialect.User, Text: text})
}

// gives adds what tools answered to the last uses, in order.
func (a *agent) gives(results ...string) {
	last := a.items[len(a.items)-1]
	item := dialect.Item{Role: dialect.User}
	for i, text := range results {
		use := last.Uses[i]
		item.Results = append(item.Results, dialect.Result{ID: use.ID, Name: use.Name, Text: text})
	}
	a.items = append(a.items, item)
}

// asks sends the conversation so far, and remembers what the model said.
func (a *agent) asks() answer {
	a.Helper()
	got := a.tries()
	if got.status != http.StatusOK {
		a.Fatalf("%s: status %d: %s", a.dialect, got.status, got.body)
	}
	item := dialect.Item{Role: dialect.Assistant, Text: got.Text, Uses: got.Uses}
	if a.forgets {
		for i := range item.Uses {
			item.Uses[i].ID = ""
		}
	}
	a.items = append(a.items, item)
	return got
}

// tries sends the conversation so far.
func (a *agent) tries() answer {
	a.Helper()
	path, body := compose(a.dialect, a.items, a.tools, a.stream)
	recorder := httptest.NewRecorder()
	a.handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(encoded(a, body))))
	result := recorder.Result()
	content, err := io.ReadAll(result.Body)
	if err != nil {
		a.Fatal(err)
	}
	response, err := dialect.ReadResponse(a.dialect, result.StatusCode, result.Header.Get("Content-Type"), content)
	if err != nil {
		a.Fatalf("%v\n%s", err, content)
	}
	return answer{response, result.StatusCode, result.Header, content}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// compose writes a conversation as agents of a dialect do.
func compose(name dialect.Name, items []dialect.Item, tools []string, stream bool) (path string, body object) {
	body = map[dialect.Name]func([]dialect.Item, []string) object{
		dialect.Chat: composeChat, dialect.Responses: composeResponses,
		dialect.Messages: composeMessages, dialect.Generate: composeGenerate,
	}[name](items, tools)
	if name == dialect.Generate {
		if stream {
			return "/google/v1beta/models/stub-1:streamGenerateContent?alt=sse", body
		}
		return "/google/v1beta/models/stub-1:generateContent", body
	}
	body["model"] = "stub-1"
	if stream {
		body["stream"] = true
	}
	path = map[dialect.Name]string{
		dialect.Chat: "/openai/chat/completions", dialect.Responses: "/openai/responses", dialect.Messages: "/anthropic/v1/messages",
	}[name]
	return path, body
}

func composeChat(items []dialect.Item, tools []string) object {
	messages := []object{{"role": "system", "content": "You are an agent."}}
	for _, item := range items {
		for _, r := range item.Results {
			messages = append(messages, object{"role": "tool", "tool_call_id": r.ID, "content": r.Text})
		}
		message := object{"role": item.Role, "content": item.Text}
		if calls := listOf(item.Uses, func(u dialect.Use) object {
			return object{"id": u.ID, "type": "function", "function": object{"name": u.Name, "arguments": string(u.Arguments)}}
		}); calls != nil {
			message["tool_calls"] = calls
		}
		if item.Role == dialect.Assistant || item.Text != "" {
			messages = append(messages, message)
		}
	}
	offered := listOf(tools, func(name string) object { return object{"type": "function", "function": object{"name": name}} })
	return object{"messages": messages, "tools": offered, "stream_options": object{"include_usage": true}}
}

func composeResponses(items []dialect.Item, tools []string) object {
	var input []object
	for _, item := range items {
		if item.Text != "" {
			kind := map[string]string{dialect.User: "input_text", dialect.Assistant: "output_text"}[item.Role]
			input = append(input, object{"type": "message", "role": item.Role, "content": []object{{"type": kind, "text": item.Text}}})
		}
		for _, u := range item.Uses {
			input = append(input, object{"type": "function_call", "call_id": u.ID, "name": u.Name, "arguments": string(u.Arguments)})
		}
		for _, r := range item.Results {
			input = append(input, object{"type": "function_call_output", "call_id": r.ID, "output": r.Text})
		}
	}
	offered := listOf(tools, func(name string) object { return object{"type": "function", "name": name} })
	return object{"instructions": "You are an agent.", "input": input, "tools": offered, "store": false}
}

func composeMessages(items []dialect.Item, tools []string) object {
	messages := listOf(items, func(item dialect.Item) object {
		var blocks []object
		for _, r := range item.Results {
			blocks = append(blocks, object{"type": "tool_result", "tool_use_id": r.ID, "content": []object{{"type": "text", "text": r.Text}}})
		}
		if item.Text != "" {
			blocks = append(blocks, object{"type": "text", "text": item.Text})
		}
		for _, u := range item.Uses {
			blocks = append(blocks, object{"type": "tool_use", "id": u.ID, "name": u.Name, "input": u.Arguments})
		}
		return object{"role": item.Role, "content": blocks}
	})
	offered := listOf(tools, func(name string) object { return object{"name": name, "input_schema": object{"type": "object"}} })
	return object{"system": "You are an agent.", "messages": messages, "tools": offered, "max_tokens": 1000}
}

func composeGenerate(items []dialect.Item, tools []string) object {
	contents := listOf(items, func(item dialect.Item) object {
		var parts []object
		if item.Text != "" {
			parts = append(parts, object{"text": item.Text})
		}
		for _, u := range item.Uses {
			parts = append(parts, object{"functionCall": object{"id": u.ID, "name": u.Name, "args": u.Arguments}})
		}
		for _, r := range item.Results {
			parts = append(parts, object{"functionResponse": object{"id": r.ID, "name": r.Name, "response": object{"output": r.Text}}})
		}
		role := map[string]string{dialect.User: "user", dialect.Assistant: "model"}[item.Role]
		return object{"role": role, "parts": parts}
	})
	offered := listOf(tools, func(name string) object { return object{"name": name} })
	return object{
		"systemInstruction": object{"parts": []object{{"text": "You are an agent."}}},
		"contents":          contents, "tools": []object{{"functionDeclarations": offered}},
	}
}

func listOf[T any](from []T, made func(T) object) []object {
	var all []object
	for _, one := range from {
		all = append(all, made(one))
	}
	return all
}
