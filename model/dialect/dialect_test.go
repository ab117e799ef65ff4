package dialect

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		method, path string
		want         Name
	}{
		{"POST", "/chat/completions", Chat},
		{"POST", "chat/completions", Chat},
		{"POST", "/openai/deployments/d/chat/completions?api-version=2024-10-21", Chat},
		{"POST", "/responses", Responses},
		{"POST", "/v1/messages?beta=true", Messages},
		{"POST", "/v1beta/models/gemini-2.5-pro:generateContent", Generate},
		{"POST", "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse", Generate},
		{"GET", "/responses", ""},
		{"POST", "/v1/messages/count_tokens", ""},
		{"POST", "/responses/compact", ""},
		{"POST", "/v1beta/models/m:countTokens", ""},
		{"POST", "/models?x=/chat/completions", ""},
		{"POST", "", ""},
	} {
		if got, ok := Of(c.method, c.path); got != c.want || ok != (c.want != "") {
			t.Errorf("%s %s is %q, %v; want %q", c.method, c.path, got, ok, c.want)
		}
	}
}

// conversation is the same in all shapes: a question, a tool's use, and what came of it.
func conversation(id string) []Item {
	return []Item{
		{Role: User, Text: "How many?"},
		{Role: Assistant, Text: "I look.", Uses: []Use{{
			ID: id, Name: "mcp__shop__find", Arguments: json.RawMessage(`{"sku":"A","n":9007199254740993}`),
		}}},
		{Role: User, Results: []Result{{ID: id, Text: "six\nleft"}}},
	}
}

func TestReadRequest(t *testing.T) {
	split := conversation("c1")
	split = []Item{split[0], {Role: Assistant, Text: "I look."}, {Role: Assistant, Uses: split[1].Uses}, split[2]}
	google := conversation("")
	google[2].Results[0] = Result{Name: "mcp__shop__find", Text: "six\nleft"}
	failed := conversation("toolu_1")
	failed[2].Results[0].Error = true
	failed[2].Text = "Go on."
	for _, c := range []struct {
		name       string
		dialect    Name
		path, body string
		stream     bool
		items      []Item
		limit      int64
		tool       ToolName // default mcp__shop__find
	}{
		{name: "chat", dialect: Chat, items: conversation("c1"), stream: true, body: `{"model":"m","stream":true,
			"stream_options":{"include_usage":true},
			"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"How many?"},{"type":"image_url","image_url":{"url":"data:"}}]},
			{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"mcp__shop__find","arguments":"{\"sku\":\"A\",\"n\":9007199254740993}"}}]},
			{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"six"},{"type":"text","text":"left"}]}],
			"tools":[{"type":"function","function":{"name":"mcp__shop__find","description":"Finds.","parameters":{"type":"object"}}}]}`},
		{name: "responses", dialect: Responses, items: split, body: `{"model":"m","instructions":"Be brief.",
			"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"How many?"}]},
			{"type":"reasoning","summary":[],"encrypted_content":"x"},
			{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},
			{"type":"function_call","call_id":"c1","name":"mcp__shop__find","arguments":"{\"sku\":\"A\",\"n\":9007199254740993}"},
			{"type":"function_call_output","call_id":"c1","output":"six\nleft"}],
			"tools":[{"type":"function","name":"mcp__shop__find","description":"Finds.","parameters":{"type":"object"}},{"type":"web_search"}]}`},
		{name: "responses with a namespace", dialect: Responses, items: split, tool: ToolName{"find", "mcp__shop"}, body: `{"model":"m",
			"input":[{"role":"developer","content":"Be brief."},{"role":"user","content":"How many?"},
			{"role":"assistant","content":"I look."},
			{"type":"function_call","call_id":"c1","namespace":"mcp__shop","name":"find","arguments":"{\"sku\":\"A\",\"n\":9007199254740993}"},
			{"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"six"},{"type":"input_text","text":"left"}]}],
			"tools":[{"type":"namespace","name":"mcp__shop","tools":[{"type":"function","name":"find","description":"Finds.","parameters":{"type":"object"}}]}]}`},
		{name: "messages", dialect: Messages, limit: 9, items: failed, stream: true, body: `{"model":"m","stream":true,"max_tokens":9,
			"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],
			"messages":[{"role":"user","content":"How many?"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"mcp__shop__find","input":{"sku":"A","n":9007199254740993}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":[{"type":"text","text":"six"},{"type":"text","text":"left"}]},{"type":"text","text":"Go on."}]}],
			"tools":[{"name":"mcp__shop__find","description":"Finds.","input_schema":{"type":"object"}}]}`},
		{name: "generateContent", dialect: Generate, items: google, stream: true, path: "/v1beta/models/m:streamGenerateContent?alt=sse",
			body: `{"systemInstruction":{"parts":[{"text":"Be brief."}]},
			"contents":[{"role":"user","parts":[{"text":"How many?"}]},
			{"role":"model","parts":[{"text":"hm","thought":true},{"text":"I look."},{"functionCall":{"name":"mcp__shop__find","args":{"sku":"A","n":9007199254740993}}}]},
			{"role":"user","parts":[{"functionResponse":{"name":"mcp__shop__find","response":{"output":"six\nleft"}}}]}],
			"tools":[{"functionDeclarations":[{"name":"mcp__shop__find","description":"Finds.","parametersJsonSchema":{"type":"object"}}]}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.tool == (ToolName{}) {
				c.tool.Local = "mcp__shop__find"
			}
			want := Request{
				Model: "m", Stream: c.stream, System: "Be brief.", Items: c.items,
				Tools:         []Tool{{Name: c.tool, Description: "Finds.", Schema: json.RawMessage(`{"type":"object"}`)}},
				MaxTokens:     c.limit,
				UsageInStream: c.dialect == Chat,
			}
			if name := want.Tools[0].Name.String(); name != "mcp__shop__find" {
				t.Errorf("the tool is called %q", name)
			}
			got, err := ReadRequest(c.dialect, c.path, []byte(c.body))
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestReadRequestLeavesOut(t *testing.T) {
	got, err := ReadRequest(Responses, "/responses", []byte(`{"model":"m","input":"Hello","tools":7}`))
	want := Request{Model: "m", Items: []Item{{Role: User, Text: "Hello"}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("a text as input, and tools of a wrong type: %v\n%s", err, diff)
	}
	for _, body := range []string{"", "[]", `{"model":`, strings.Repeat("[", 20000)} {
		if _, err := ReadRequest(Chat, "/chat/completions", []byte(body)); err == nil {
			t.Errorf("%.20q was read", body)
		}
	}
	if _, err := ReadRequest("morse", "", []byte("{}")); err == nil {
		t.Error("a shape that is none was read")
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name   Name
		status int
		body   string
		want   string
	}{
		{Chat, 401, `{"error":{"message":"Incorrect API key","type":"invalid_request_error"}}`, "Incorrect API key"},
		{Responses, 429, `{"error":{"message":"Rate limit","type":"tokens"}}`, "Rate limit"},
		{Messages, 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, "Overloaded"},
		{Generate, 400, `{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}`, "API key not valid"},
		{Generate, 400, `[{"error":{"code":400,"message":"API key not valid"}}]`, "API key not valid"},
		{Chat, 404, `{"error":"model not found"}`, "model not found"},
		{Chat, 502, "<h1>Bad Gateway</h1>\n", "status 502 <h1>Bad Gateway</h1>"},
		{Chat, 500, "", "status 500"},
		{Responses, 200, "event: error\ndata: {\"type\":\"error\",\"message\":\"gone\"}\n\n", "gone"},
		{Responses, 200, `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"x","message":"broke"}}}` + "\n\n", "broke"},
		{Messages, 200, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", "overloaded_error"},
	} {
		got, err := ReadResponse(c.name, c.status, "", []byte(c.body))
		if err != nil || got.Error != c.want {
			t.Errorf("%s %d %s: %q, %v", c.name, c.status, c.body, got.Error, err)
		}
	}
	if _, err := ReadResponse(Chat, http.StatusOK, "text/html", []byte("<p>hello")); err == nil {
		t.Error("a page was read as an answer")
	}
}

// A maximum of another API limits nothing, since the provider ignores it.
func TestReadAsking_Maxima(t *testing.T) {
	own := map[Name]string{
		Chat: `{"max_tokens": 5, "max_completion_tokens": 7}`, Responses: `{"max_output_tokens": 7}`,
		Messages: `{"max_tokens": 7}`, Generate: `{"generationConfig": {"maxOutputTokens": 7}}`,
	}
	foreign := map[Name][]string{
		Chat:      {`{"max_output_tokens": 1}`, `{"maxOutputTokens": 1}`, `{"generationConfig": {"maxOutputTokens": 1, "max_tokens": 1}}`},
		Responses: {`{"max_tokens": 1}`, `{"max_completion_tokens": 1}`, `{"generationConfig": {"maxOutputTokens": 1}}`},
		Messages:  {`{"max_output_tokens": 1}`, `{"max_completion_tokens": 1}`},
		Generate:  {`{"maxOutputTokens": 1}`, `{"max_tokens": 1}`, `{"generationConfig": {"maxTokens": 1}}`},
	}
	for of, body := range own {
		if asked, err := ReadAsking(of, []byte(body)); err != nil || asked.MaxTokens != 7 {
			t.Errorf("%s: %s asks for %+v, %v", of, body, asked, err)
		}
		for _, body := range foreign[of] {
			if asked, err := ReadAsking(of, []byte(body)); err != nil || asked.MaxTokens != 0 {
				t.Errorf("%s: %s asks for %+v, %v", of, body, asked, err)
			}
		}
	}
}
