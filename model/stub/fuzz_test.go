package stub_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/model/dialect"
	"github.com/waza-isolate/waza/model/stub"
)

// FuzzParse looks for scripts that break the reader, or the player.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{stockScript, tasksScript, "turns: [{fail: {status: 429}}, {say: '{{ results[0].a }}'}]", "turns: [{cut: half}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "delay") || strings.Contains(string(data), "stall") {
			t.Skip("it would wait")
		}
		s, err := stub.Parse("script.yaml", data)
		if err != nil {
			return
		}
		for _, name := range dialects {
			path, body := compose(name, []dialect.Item{{Role: dialect.User, Text: "Reserve."}}, stockTools, true)
			answersSomehow(t, s.Handler(), path, encoded(t, body))
		}
	})
}

func fuzzRequests(f *testing.F, name dialect.Name) {
	handler := script(f, stockScript).Handler()
	use := dialect.Use{ID: "call_script_0_0_1_ab", Name: "mcp__inventory__find_item", Arguments: []byte(`{"a":1}`)}
	result := dialect.Result{ID: use.ID, Name: use.Name, Text: `[{"type":"text","text":"{}"}]`}
	items := []dialect.Item{
		{Role: dialect.User, Text: "Reserve."}, {Role: dialect.Assistant, Text: "I look.", Uses: []dialect.Use{use}},
		{Role: dialect.User, Results: []dialect.Result{result}},
	}
	var path string
	for n := range len(items) {
		for _, stream := range []bool{false, true} {
			at, body := compose(name, items[:n+1], stockTools, stream)
			f.Add(encoded(f, body))
			path = at
		}
	}
	f.Add([]byte(`{"input":[{"type":"item_reference","id":"fc_script_0_999999_1_x"}],"previous_response_id":"resp_script_9_9_0_x"}`))
	f.Add([]byte(`{"response_format":{"type":"json_schema","json_schema":{"schema":{"anyOf":[{"required":["a"]}]}}},"messages":[{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) { answersSomehow(t, handler, path, body) })
}

func FuzzChat(f *testing.F)      { fuzzRequests(f, dialect.Chat) }
func FuzzResponses(f *testing.F) { fuzzRequests(f, dialect.Responses) }
func FuzzMessages(f *testing.F)  { fuzzRequests(f, dialect.Messages) }
func FuzzGenerate(f *testing.F)  { fuzzRequests(f, dialect.Generate) }

// answersSomehow wants an answer that can be read, or an error that says something.
func answersSomehow(t *testing.T, handler http.Handler, path string, body []byte) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil && r != http.ErrAbortHandler {
			panic(r)
		}
	}()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, strings.NewReader(string(body))))
	name, _ := dialect.Of(http.MethodPost, path)
	got, err := dialect.ReadResponse(name, recorder.Code, recorder.Header().Get("Content-Type"), recorder.Body.Bytes())
	if err != nil || recorder.Code != http.StatusOK && got.Error == "" {
		t.Errorf("status %d, %v: %s", recorder.Code, err, recorder.Body)
	}
}
