package stub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waza-isolate/waza/internal/heavytest"
	"github.com/waza-isolate/waza/model/dialect"
)

// A schema that requires a key again and again, at every depth, would take longer than
// there is time.
func TestSchemaThatMultiplies(t *testing.T) {
	schema := `{}`
	for range 40 {
		schema = fmt.Sprintf(`{"required":[%s"a"],"properties":{"a":%s}}`, strings.Repeat(`"a",`, 100), schema)
	}
	body := `{"messages":[],"response_format":{"type":"json_schema","json_schema":{"schema":` + schema + `}}}`
	status, content := post(t, script(t, stockScript).Handler(), "/chat/completions", []byte(body))
	if status != 200 || strings.Count(content, "a\\\"") != 17 {
		t.Errorf("status %d: %s", status, content)
	}
}

// A history of turns that may be the script's is not looked through for each of them.
func TestHistoryThatMultiplies(t *testing.T) {
	heavytest.Mark(t)
	a := &agent{T: t, handler: script(t, "turns: [{say: '{{ results[60000] }}'}]").Handler(), dialect: dialect.Generate, tools: []string{"x"}}
	for range 20_000 {
		a.items = append(a.items,
			dialect.Item{Role: dialect.Assistant, Text: "?"},
			dialect.Item{Role: dialect.User, Text: "?", Results: []dialect.Result{{Name: "x", Text: "?"}}})
	}
	if got := a.tries(); got.status != 400 || !strings.Contains(got.Error, "results is a list of 20000 and has no [60000]") {
		t.Errorf("status %d: %s", got.status, got.Error)
	}
}

// TestLongTextInMessages checks that quotes in errors are cut at a character boundary.
func TestLongTextInMessages(t *testing.T) {
	path := "/" + strings.Repeat("é", 150)
	status, content := post(t, script(t, stockScript).Handler(), path, nil)
	if want := " /" + strings.Repeat("é", 99) + "…"; status != 404 || !strings.Contains(content, want) {
		t.Errorf("%d %s", status, content)
	}
}
