package mirror

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// TestLikeAnotherClient compares the headers, and which tools are left out, with those of mcp-go.
func TestLikeAnotherClient(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"integer","x-mcp-header":"B"},"c":{"type":"boolean","x-mcp-header":"C"}}}`,
		`{"type":"object","properties":{"in":{"type":"object","properties":{"a":{"type":["string"],"x-mcp-header":"In-A"}}}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}`,
		`{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}`,
		`{"type":"object","properties":{"a":{"x-mcp-header":"A"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":""}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":7}}}`,
		`{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A b"}}}`,
		`{"type":"object","properties":{"a":{"type":["string","object"],"x-mcp-header":"A"}}}`,
		`{"type":"object","properties":{"a":{"type":[],"x-mcp-header":"A"}}}`,
		`{"type":"object"}`,
	} {
		tool := mcp.Tool{Name: "t", RawInputSchema: json.RawMessage(schema)}
		found, valid := In([]byte(schema))
		if theirs := mcp.ValidateParamHeaderAnnotations(&tool) == nil; valid != theirs {
			t.Errorf("%s: valid %t, mcp-go says %t", schema, valid, theirs)
		}
		if !valid {
			continue
		}
		for _, arguments := range []string{
			`{}`, `{"a":"x","b":3,"c":true}`, `{"a":null,"b":1e3,"c":false}`, `{"a":"\u00fc ","b":1.5}`, `{"a":" x","b":9007199254740993}`,
			`{"a":"=?base64?eA==?=","b":-0,"c":"true"}`, `{"a":"","b":"5"}`, `{"a":"x\ny"}`, `{"in":{"a":"deep"}}`, `{"in":"a"}`, `{"a":{"x":1},"b":[1]}`,
		} {
			got := map[string]string{}
			for _, a := range found {
				if value, ok := a.Value([]byte(arguments)); ok {
					got[a.Header] = value
				}
			}
			want := mcp.GenerateParamHeaders(&tool, json.RawMessage(`{"arguments":`+arguments+`}`))
			if !maps.Equal(got, want) {
				t.Errorf("%s of %s: %q, mcp-go sends %q", arguments, schema, got, want)
			}
			for _, a := range found {
				value, ok := Decode(got[a.Header])
				if argument := a.Of([]byte(arguments)); got[a.Header] != "" && (!ok || !Matches(value, argument)) {
					t.Errorf("%s %q does not match %s", a.Header, got[a.Header], argument)
				}
			}
		}
	}
}
