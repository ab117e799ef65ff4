package llm_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/agents/input"
)

// What a server asks within a call is answered in both eras, and the model does not see it.
func TestAnswers(t *testing.T) {
	for _, early := range [][]string{nil, {"stock"}} {
		model := newModel(t, asks(use{"a", "mcp__stock__ask", "{}"}), says("done"))
		d := newDesk(t, model)
		var asked []string
		runner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var q input.Question
			if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
				t.Error(err)
			}
			asked = append(asked, q.Server+" "+q.Kind)
			_ = json.NewEncoder(w).Encode(input.Reply{Result: json.RawMessage(`{"action":"accept","content":{"n":3}}`)})
		}))
		defer runner.Close()
		d.input.Early, d.input.Answers = early, &input.Answers{URL: runner.URL, Kinds: map[string][]string{"stock": {input.KindElicitation}}}
		d.mustRun(t)
		results := model.last().results("tool")
		if len(results) != 1 || results[0] != "accept map[n:3]" || strings.Join(asked, ",") != "stock elicitation" {
			t.Errorf("early %v: the model got %q, and the runner was asked %q", early, results, asked)
		}
	}
}
