package stub_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/model/dialect"
)

func post(t testing.TB, handler http.Handler, path string, body []byte) (status int, content string) {
	t.Helper()
	return exchange(handler, http.MethodPost, path, nil, string(body))
}

func exchange(handler http.Handler, method, path string, header http.Header, body string) (status int, content string) {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	maps.Copy(request.Header, header)
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

func TestWhichToolIsCalled(t *testing.T) {
	for _, test := range []struct{ name, call, offered, want string }{
		{"Claude's name", "{tool: find_item, server: inventory}", "Bash mcp__inventory__find_item mcp__shop__find_item", "mcp__inventory__find_item"},
		{"Copilot's name", "{tool: find_item, server: inventory}", "bash inventory-find_item shop-find_item", "inventory-find_item"},
		{"OpenCode's name", "{tool: find_item, server: inventory}", "bash inventory_find_item shop_find_item", "inventory_find_item"},
		{"a bare name", "{tool: find_item, server: inventory}", "find_item shop__find_item", "find_item"},
		{"a server's name written otherwise", "{tool: find-item, server: my.shop}", "mcp__my_shop__find-item", "mcp__my_shop__find-item"},
		{"Gemini's name", "{tool: find_item, server: inventory}", "mcp_inventory_find_item mcp_shop_find_item", "mcp_inventory_find_item"},
		{"a name cut off", "{tool: " + strings.Repeat("find", 16) + ", server: inventory}", "inventory_" + strings.Repeat("find", 13) + "fi", "inventory_" + strings.Repeat("find", 13) + "fi"},
		{"without server", "{tool: find_item}", "mcp__inventory__find_item refind_item", "mcp__inventory__find_item"},
		{"the whole name before an end", "{tool: read}", "read mcp__files__read", "read"},
		{"twice the same", "{tool: find_item}", "shop_find_item shop_find_item", "shop_find_item"},
		{"part of a word", "{tool: item}", "mcp__shop__finditem", `error: turn 1: the script calls "item", and no such tool is offered; offered are: mcp__shop__finditem`},
		{"another server's", "{tool: find_item, server: inventory}", "shop_find_item", `error: turn 1: the script calls "find_item" of server "inventory", and no such tool is offered; offered are: shop_find_item`},
		{"several", "{tool: find_item}", "a_find_item b_find_item", `error: turn 1: the script calls "find_item", and more than one offered tool fits: a_find_item, b_find_item; add its server to the call`},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, name := range dialects {
				a := &agent{T: t, handler: script(t, "turns: [{call: "+test.call+"}]").Handler(), dialect: name, tools: strings.Fields(test.offered)}
				a.says("Find it.")
				got := a.tries()
				reported := "error: " + got.Error
				if got.status == http.StatusOK && len(got.Uses) == 1 {
					reported = got.Uses[0].Name
				}
				if reported != test.want {
					t.Errorf("%s: got  %s\nwant %s", name, reported, test.want)
				}
			}
		})
	}
}

// Codex keeps the tools of a server in a namespace, and calls them in it.
func TestNamespaces(t *testing.T) {
	handler := script(t, "turns: [{call: {tool: find_item, server: inventory}}]").Handler()
	body := composeResponses([]dialect.Item{{Role: dialect.User, Text: "Find it."}}, []string{"shell"})
	function := object{"type": "function", "name": "find_item"}
	body["tools"] = []object{
		{"type": "namespace", "name": "mcp__shop__", "tools": []object{function}},
		{"type": "namespace", "name": "mcp__inventory__", "tools": []object{function}},
		{"type": "custom", "name": "find_item"}, {"type": "web_search"},
	}
	_, content := post(t, handler, "/responses", encoded(t, body))
	var whole struct {
		Output []struct{ Name, Namespace string }
	}
	if err := json.Unmarshal([]byte(content), &whole); err != nil || len(whole.Output) != 1 {
		t.Fatalf("%v: %s", err, content)
	}
	if got := whole.Output[0]; got.Name != "find_item" || got.Namespace != "mcp__inventory__" {
		t.Errorf("called %+v", got)
	}
}

const tasksScript = `
conversations:
  - name: refused
    when: {prompt_contains: reserve, result_contains: no such item}
    turns: [{call: {tool: reserve}}, {say: It is not there.}]
  - name: reserved
    when: {prompt_contains: reserve}
    turns: [{call: {tool: reserve}}, {say: Done.}]
  - when: {system_contains: agent, tool: shell, model: stub-1}
    turns: [{say: I look around.}]
asides:
  - {when: {prompt_contains: title}, say: A title}
`

func TestConversations(t *testing.T) {
	handler := script(t, tasksScript).Handler()
	for _, name := range dialects {
		for _, test := range []struct {
			prompt, result, want string
		}{
			{"reserve it", "yes", "Done."},
			{"reserve it", "no such item", "It is not there."},
			{"look around", "", "I look around."},
			{"title of: reserve it", "", "A title"},
		} {
			a := &agent{T: t, handler: handler, dialect: name, tools: []string{"reserve", "shell"}}
			a.says(test.prompt)
			got := a.asks()
			if test.result != "" {
				a.gives(test.result)
				got = a.asks()
			}
			if got.Text != test.want {
				t.Errorf("%s: after %q and %q the model says %q, want %q", name, test.prompt, test.result, got.Text, test.want)
			}
		}
		a := &agent{T: t, handler: handler, dialect: name, tools: []string{"other"}}
		a.says("look around")
		want := "no conversation of the script has a when that holds for this request; the user said: look around"
		if got := a.tries(); got.status != 400 || got.Error != want {
			t.Errorf("%s: status %d: %s", name, got.status, got.Error)
		}
	}
}

// Requests of agents outside the task are answered without using up a turn.
func TestAsides(t *testing.T) {
	handler := script(t, stockScript).Handler()
	user := []dialect.Item{{Role: dialect.User, Text: "Write a title."}}
	schema := object{
		"type": "object", "required": []string{"title", "next", "score", "deep"},
		"properties": object{
			"title": object{"type": "string"}, "next": object{"enum": []string{"user", "model"}},
			"score": object{"type": "INTEGER"}, "deep": object{"type": "array", "items": object{"type": "string"}},
		},
	}
	fitting := `{"deep":[],"next":"user","score":0,"title":"OK."}`
	for _, test := range []struct {
		name    string
		dialect dialect.Name
		prompt  string
		tools   []string
		more    object
		want    string
	}{
		{"no tools", dialect.Messages, "Write a title.", nil, nil, "OK."},
		{"no tools", dialect.Generate, "Write a title.", nil, nil, "OK."},
		{"quota", dialect.Messages, "quota", stockTools, object{"max_tokens": 1}, "OK."},
		{"warmup", dialect.Messages, "Warmup", stockTools, nil, "OK."},
		{"nothing", dialect.Chat, " ", stockTools, nil, "OK."},
		{"JSON", dialect.Chat, "Title?", stockTools, object{"response_format": object{"type": "json_object"}}, "{}"},
		{"schema", dialect.Chat, "Title?", nil, object{"response_format": object{"type": "json_schema", "json_schema": object{"schema": schema}}}, fitting},
		{"schema", dialect.Responses, "Title?", nil, object{"text": object{"format": object{"type": "json_schema", "schema": schema}}}, fitting},
		{"schema", dialect.Messages, "Title?", nil, object{"output_config": object{"format": object{"type": "json_schema", "schema": schema}}}, fitting},
		{"schema", dialect.Generate, "Who is next?", nil, object{"generationConfig": object{"responseMimeType": "application/json", "responseJsonSchema": schema}}, fitting},
	} {
		t.Run(test.name+" in "+string(test.dialect), func(t *testing.T) {
			user[0].Text = test.prompt
			path, body := compose(test.dialect, user, test.tools, false)
			for key, value := range test.more {
				body[key] = value
			}
			status, content := post(t, handler, path, encoded(t, body))
			got, err := dialect.ReadResponse(test.dialect, status, "application/json", []byte(content))
			if err != nil || status != 200 || got.Text != test.want || len(got.Uses) > 0 {
				t.Errorf("status %d, %v: %s", status, err, content)
			}
		})
	}
	a := &agent{T: t, handler: handler, dialect: dialect.Messages}
	if got := plays(a)[0].Text; got != "I look for bolts." {
		t.Errorf("after asides the first turn is %q", got)
	}
}

// Servers' results reach a template unchanged, whatever agents put around them.
func TestResultsAreUnwrapped(t *testing.T) {
	for _, result := range []string{
		`{"n": 12}`,
		`[{"type":"text","text":"{\"n\": 12}"}]`,
		`{"content":[{"type":"text","text":"{\"n\": 12}"}],"isError":false}`,
		`{"output":"{\"n\": 12}"}`,
		"<untrusted_context>\n{\"n\": 12}\n</untrusted_context>",
		`{"output":"<untrusted_context>\n{\"n\": 12}\n</untrusted_context>"}`,
		"Wall time: 0.0012 seconds\nOutput:\n{\"n\": 12}",
		"Wall time: 0.0012 seconds\nOutput:\n[{\"type\":\"text\",\"text\":\"{\\\"n\\\": 12}\"}]",
		"{\"n\": 12}\n\n{\"n\":12}",
	} {
		a := &agent{T: t, handler: script(t, "turns: [{call: {tool: count}}, {say: '{{ result }} {{ result.n }} {{ len(results) }}'}]").Handler(), dialect: dialect.Responses, tools: []string{"count"}}
		a.says("Count.")
		a.asks()
		a.gives(result)
		if got := a.asks(); got.Text != `{"n": 12} 12 1` {
			t.Errorf("of %s the model makes %q", result, got.Text)
		}
	}
}

// What a template says is text, whatever the type of its value.
func TestTypesThatAreSaid(t *testing.T) {
	for result, want := range map[string]string{"null": "null", "1.50": "1.50", `"x"`: "x", "[1]": "[1]", `""`: ""} {
		a := &agent{T: t, handler: script(t, "turns: [{call: {tool: count}}, {say: '{{ result.n }}'}]").Handler(), dialect: dialect.Chat, tools: []string{"count"}}
		a.says("Count.")
		a.asks()
		a.gives(`{"n":` + result + `}`)
		if got := a.asks(); got.Text != want {
			t.Errorf("of %s the model says %q", result, got.Text)
		}
	}
}

func TestTemplatesThatFindNothing(t *testing.T) {
	for text, want := range map[string]string{
		"{{ result.m }}":       `turn 2: {{ result.m }}: result has no "m"; it has "n"`,
		"{{ result.n[1] }}":    `turn 2: {{ result.n[1] }}: result.n is a list of 1 and has no [1]`,
		"{{ result.n.0.x }}":   `turn 2: {{ result.n.0.x }}: result.n[0] is a number and has no "x"`,
		"{{ results[1] }}":     `turn 2: {{ results[1] }}: results is a list of 1 and has no [1]`,
		"{{ results[0].n.x }}": `turn 2: {{ results[0].n.x }}: results[0].n is a list and has no "x"`,
	} {
		a := &agent{T: t, handler: script(t, "turns: [{call: {tool: count}}, {say: '"+text+"'}]").Handler(), dialect: dialect.Chat, tools: []string{"count"}}
		a.says("Count.")
		a.asks()
		a.gives(`{"n":[1]}`)
		if got := a.tries(); got.status != 400 || got.Error != want {
			t.Errorf("status %d: %s\nwant %s", got.status, got.Error, want)
		}
	}
}
