package dialect

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// eventsOf writes events as providers do, each with its type as event.
func eventsOf(events ...string) string {
	var out strings.Builder
	for _, event := range events {
		var head struct{ Type string }
		if json.Unmarshal([]byte(event), &head) == nil && head.Type != "" {
			out.WriteString("event: " + head.Type + "\n")
		}
		out.WriteString("data: " + event + "\n\n")
	}
	return out.String()
}

// answer is a case: one answer in a shape, and the event after which something is said.
type answer struct {
	name    string
	dialect Name
	kind    string
	body    string
	says    string // the first words of the body that say something; empty for no stream
	want    Response
}

func use(id string) []Use {
	return []Use{{ID: id, Name: "find", Arguments: json.RawMessage(`{"sku": "A"}`)}}
}

const eventStream = "text/event-stream; charset=utf-8"

func answers() []answer {
	return []answer{
		{
			name: "chat", dialect: Chat, kind: "application/json",
			body: `{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"I look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"find","arguments":"{\"sku\": \"A\"}"}}]},"finish_reason":"tool_calls"}],
				"usage":{"prompt_tokens":10,"completion_tokens":7,"total_tokens":17,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`,
			want: Response{ID: "x", Model: "m", Text: "I look.", Uses: use("c1"), Stop: "tool_calls", Usage: &Usage{Input: 10, Output: 7, Cached: 4, Reasoning: 2}},
		},
		{
			name: "chat stream", dialect: Chat, kind: eventStream, says: `"I "`,
			body: eventsOf(
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}`,
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"I "}}]}`,
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"content":"look."}}]}`,
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"find","arguments":""}}]}}]}`,
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"sku\":"}}]}}]}`,
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" \"A\"}"}}]}}]}`,
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c2","function":{"name":"list","arguments":""}}]}}]}`,
				`{"id":"x","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
				`{"id":"x","model":"m","choices":[],"usage":{"prompt_tokens":10,"completion_tokens":7}}`,
				`[DONE]`),
			want: Response{
				ID: "x", Model: "m", Text: "I look.", Stop: "tool_calls", Usage: &Usage{Input: 10, Output: 7},
				Uses: append(use("c1"), Use{ID: "c2", Name: "list", Arguments: json.RawMessage("{}")}),
			},
		},
		{
			name: "chat stream of a server that numbers no calls", dialect: Chat, kind: eventStream, says: `"c1"`,
			body: eventsOf(
				`{"choices":[{"delta":{"tool_calls":[{"id":"c1","function":{"name":"find","arguments":"{\"sku\": \"A\"}"}}]}}]}`,
				`{"choices":[{"delta":{"tool_calls":[{"id":"c2","function":{"name":"find","arguments":"{\"sku\": \"A\"}"}}]},"finish_reason":"stop"}]}`),
			want: Response{Uses: append(use("c1"), use("c2")...), Stop: "stop"},
		},
		{
			name: "responses", dialect: Responses, kind: "application/json",
			body: `{"id":"resp_1","object":"response","model":"m","status":"completed","error":null,"incomplete_details":null,"output":[{"type":"reasoning","id":"rs_1","summary":[]},
				{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"I look.","annotations":[]}]},
				{"type":"function_call","id":"fc_1","call_id":"c1","name":"find","arguments":"{\"sku\": \"A\"}"}],
				"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":17}}`,
			want: Response{ID: "resp_1", Model: "m", Text: "I look.", Uses: use("c1"), Stop: "completed", Usage: &Usage{Input: 10, Output: 7, Cached: 4, Reasoning: 2}},
		},
		{
			name: "responses stream", dialect: Responses, kind: eventStream, says: `"I `,
			body: eventsOf(
				`{"type":"response.created","response":{"id":"resp_1","model":"m","status":"in_progress","output":[]}}`,
				`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}`,
				`{"type":"response.content_part.added","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":""}}`,
				`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":"I look."}`,
				`{"type":"response.output_text.done","item_id":"msg_1","output_index":0,"content_index":0,"text":"I look."}`,
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"I look."}]}}`,
				`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"find","arguments":""}}`,
				`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":"{\"sku\":"}`,
				`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":" \"A\"}"}`,
				`{"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","id":"fc_1","call_id":"c1","name":"find","arguments":"{\"sku\": \"A\"}"}}`,
				`{"type":"response.completed","response":{"id":"resp_1","model":"m","status":"completed","output":[`+
					`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]},`+
					`{"type":"function_call","call_id":"c1","name":"find","arguments":"{\"sku\": \"A\"}"}],"usage":{"input_tokens":10,"output_tokens":7,"output_tokens_details":{"reasoning_tokens":5}}}}`),
			want: Response{ID: "resp_1", Model: "m", Text: "I look.", Uses: use("c1"), Stop: "completed", Usage: &Usage{Input: 10, Output: 7, Reasoning: 5}},
		},
		{
			name: "responses stream that keeps its items to itself at the end", dialect: Responses, kind: eventStream, says: `mcp__shop__`,
			body: eventsOf(
				`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c1","namespace":"mcp__shop__","name":"find","arguments":"{}"}}`,
				`{"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}}`),
			want: Response{ID: "resp_1", Stop: "max_output_tokens", Uses: []Use{{ID: "c1", Name: "mcp__shop__find", Arguments: json.RawMessage("{}")}}},
		},
		{
			name: "messages", dialect: Messages, kind: "application/json",
			body: `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"find","input":{"sku": "A"}}],"stop_reason":"tool_use",
				"usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":7}}`,
			want: Response{ID: "msg_1", Model: "m", Text: "I look.", Uses: use("toolu_1"), Stop: "tool_use", Usage: &Usage{Input: 123, Output: 7, Cached: 100, CacheWrites: 20}},
		},
		{
			name: "messages stream", dialect: Messages, kind: eventStream, says: `hm`,
			body: eventsOf(
				`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":1}}}`,
				`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
				`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
				`{"type":"content_block_stop","index":0}`,
				`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`,
				`{"type":"ping"}`,
				`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"I "}}`,
				`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"look."}}`,
				`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"find","input":{}}}`,
				`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}`,
				`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"sku\":"}}`,
				`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" \"A\"}"}}`,
				`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":7}}`,
				`{"type":"message_stop"}`),
			want: Response{ID: "msg_1", Model: "m", Text: "I look.", Uses: use("toolu_1"), Stop: "tool_use", Usage: &Usage{Input: 123, Output: 7, Cached: 100, CacheWrites: 20}},
		},
		{
			name: "generateContent", dialect: Generate, kind: "application/json; charset=UTF-8",
			body: `{"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"I look."},{"functionCall":{"name":"find","args":{"sku": "A"}}}]},"finishReason":"STOP","index":0}],
				"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"thoughtsTokenCount":2,"cachedContentTokenCount":4,"totalTokenCount":17},"modelVersion":"m","responseId":"r"}`,
			want: Response{ID: "r", Model: "m", Text: "I look.", Uses: use(""), Stop: "STOP", Usage: &Usage{Input: 10, Output: 7, Cached: 4, Reasoning: 2}},
		},
		{
			name: "generateContent stream", dialect: Generate, kind: eventStream, says: `I `,
			body: eventsOf(
				`{"candidates":[{"content":{"parts":[{"text":"I "}],"role":"model"}}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":1},"modelVersion":"m","responseId":"r"}`,
				`{"candidates":[{"content":{"parts":[{"text":"look."},{"functionCall":{"id":"f1","name":"find","args":{"sku": "A"}}}],"role":"model"}}]}`,
				`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"find","args":{"sku": "A"}}}],"role":"model"},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}`),
			want: Response{ID: "r", Model: "m", Text: "I look.", Uses: append(use("f1"), use("")...), Stop: "STOP", Usage: &Usage{Input: 10, Output: 5}},
		},
		{
			name: "generateContent stream as a list", dialect: Generate, kind: "application/json", says: `[{`,
			body: "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"I }\"}]}}]}\n,\r\n" +
				`{"candidates":[{"content":{"parts":[{"text":" \"look"}]},"finishReason":"MAX_TOKENS"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5}}]`,
			want: Response{Text: `I } "look`, Stop: "MAX_TOKENS", Usage: &Usage{Input: 10, Output: 5}},
		},
	}
}

func TestReadResponse(t *testing.T) {
	for _, c := range answers() {
		t.Run(c.name, func(t *testing.T) {
			for _, end := range []string{"\n", "\r\n", "\r"} {
				body := strings.ReplaceAll(c.body, "\n", end)
				got, err := ReadResponse(c.dialect, http.StatusOK, c.kind, []byte(body))
				if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
					t.Errorf("%v\n%s", err, diff)
				}
			}
		})
	}
}

// TestTorn cuts answers at each byte: what was there is read, and never more than the
// whole has.
func TestTorn(t *testing.T) {
	for _, c := range answers() {
		for end := range c.body {
			got, err := ReadResponse(c.dialect, http.StatusOK, c.kind, []byte(c.body[:end]))
			if err != nil {
				continue
			}
			if !strings.HasPrefix(c.want.Text, got.Text) || len(got.Uses) > len(c.want.Uses) {
				t.Fatalf("%s, torn after %d bytes: %+v", c.name, end, got)
			}
		}
	}
	streamed := answers()[1]
	second := strings.Index(streamed.body, `data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":[{"index":1`)
	got, err := ReadResponse(Chat, http.StatusOK, streamed.kind, []byte(streamed.body[:second]))
	want := Response{ID: "x", Model: "m", Text: "I look.", Uses: use("c1")}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("torn behind the first use: %v\n%s", err, diff)
	}
}

func TestWatch(t *testing.T) {
	for _, c := range answers() {
		t.Run(c.name, func(t *testing.T) {
			w := NewWatch(c.dialect, c.kind)
			said := -1
			for i := range len(c.body) {
				if n, err := w.Write([]byte(c.body[i : i+1])); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				if said < 0 && w.Said() {
					said = i
				}
			}
			if diff := cmp.Diff(c.want.Usage, w.Usage([]byte(c.body))); diff != "" {
				t.Error(diff)
			}
			first := strings.Index(c.body, c.says)
			if said < first || strings.Count(c.body[first:said+1], "data:") > 0 {
				t.Errorf("it says something at byte %d, not soon after %d", said, first)
			}
		})
	}
	w := NewWatch("morse", "")
	if _, err := w.Write([]byte("...")); err != nil || w.Said() || w.Usage(nil) != nil {
		t.Error("something is seen in what has no shape")
	}
}

func TestUsageIsSane(t *testing.T) {
	body := `{"choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":9},"completion_tokens_details":{"reasoning_tokens":99}}}`
	got, err := ReadResponse(Chat, http.StatusOK, "", []byte(body))
	if diff := cmp.Diff(&Usage{Output: 7, Reasoning: 7}, got.Usage); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	body = `{"type":"message","usage":{"input_tokens":9223372036854775807,"cache_read_input_tokens":9223372036854775807}}`
	if got, err = ReadResponse(Messages, http.StatusOK, "", []byte(body)); err != nil || got.Usage.Input <= 0 || got.Usage.Total() <= 0 {
		t.Errorf("%+v, %v", got.Usage, err)
	}
}

// TestEventsAboveTheBoundAreLeftOut checks that an event of any length is not kept, and
// that those behind it are read.
func TestEventsAboveTheBoundAreLeftOut(t *testing.T) {
	long := strings.Repeat("x", maxEvent)
	for _, body := range []string{
		"data: " + long + "\n\ndata: {\"id\":\"after\"}\n\n",
		"data: " + long + "\ndata: {\"id\":\"same\"}\n\ndata: {\"id\":\"after\"}\n\n",
		`[{"id":"` + long + `"},{"id":"after"}]`,
	} {
		got, err := ReadResponse(Chat, http.StatusOK, "", []byte(body))
		if !errors.Is(err, ErrTooLarge) || got.ID != "after" {
			t.Errorf("%.10q: %q, %v", body, got.ID, err)
		}
	}
	many := strings.Repeat(`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f"}}]}}]},`, maxPieces+1)
	got, err := ReadResponse(Generate, http.StatusOK, "", []byte("["+many+"]"))
	if !errors.Is(err, ErrTooLarge) || len(got.Uses) != maxPieces {
		t.Errorf("%d uses, %v", len(got.Uses), err)
	}
}

func TestErrorIn(t *testing.T) {
	for response, want := range map[string]struct {
		message string
		spent   bool
	}{
		`{"error":{"message":"no","type":"invalid_request_error","code":404}}`: {"no", false},
		`{"error":{"message":"no","code":"insufficient_quota"}}`:               {"no", true},
		`{"error":{"message":"no","type":"insufficient_quota"}}`:               {"no", true},
		`{"error":{"type":"insufficient_quota"}}`:                              {"insufficient_quota", true},
		`{"error":"no"}`: {"no", false},
		"Bad Gateway":    {"Bad Gateway", false},
	} {
		if message, spent := ErrorIn([]byte(response)); message != want.message || spent != want.spent {
			t.Errorf("%s: %q, %v", response, message, spent)
		}
	}
}
