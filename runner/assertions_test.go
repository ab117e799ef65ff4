package runner

import (
	"encoding/json"
	"testing"

	"github.com/waza-isolate/waza/capture"
	"github.com/waza-isolate/waza/evidence"
)

// Expressions find the arguments that waza knows by name, whatever the agent gave, and all
// others as they were.
func TestAssertionArguments(t *testing.T) {
	for given, want := range map[string]string{
		"":     `{"command":"","description":"","file_text":"","path":"","skill":""}`,
		"null": `{"command":"","description":"","file_text":"","path":"","skill":""}`,
		`{"command":"ls","id":12345678901234567890}`: `{"command":"ls","description":"","file_text":"","id":12345678901234567890,"path":"","skill":""}`,
		`{"path":["a"]}`: `{"command":"","description":"","file_text":"","path":["a"],"skill":""}`,
		`[1]`:            `[1]`,
	} {
		call := assertionCallOf(capture.Use{Tool: "bash", Arguments: json.RawMessage(given)})
		if string(call.Arguments) != want {
			t.Errorf("%s: %s, want %s", given, call.Arguments, want)
		}
	}
}

// Expressions name tools as upstream waza does.
func TestAssertionName(t *testing.T) {
	for _, test := range []struct {
		use  capture.Use
		want string
	}{
		{capture.Use{Tool: "find_item", Call: &evidence.Call{Server: "inventory"}}, "inventory-find_item"},
		{capture.Use{Tool: "bash"}, "bash"},
	} {
		if got := assertionCallOf(test.use).Name; got != test.want {
			t.Errorf("name %q, want %q", got, test.want)
		}
	}
}
