package mcpconfig_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waza-isolate/waza/mcpconfig"
)

// Each client's own way of writing down two servers, one with a port.
func TestShapes(t *testing.T) {
	hosts := map[string]string{"web": "web", "files": "127.0.0.1:4321"}
	for shape, want := range map[mcpconfig.Shape]string{
		"":                      `{"files":{"type":"http","url":"http://127.0.0.1:4321/mcp"},"web":{"type":"http","url":"http://web/mcp"}}`,
		mcpconfig.ShapeStandard: `{"files":{"type":"http","url":"http://127.0.0.1:4321/mcp"},"web":{"type":"http","url":"http://web/mcp"}}`,
		mcpconfig.ShapeVSCode:   `{"files":{"type":"http","url":"http://127.0.0.1:4321/mcp"},"web":{"type":"http","url":"http://web/mcp"}}`,
		mcpconfig.ShapeGemini:   `{"files":{"httpUrl":"http://127.0.0.1:4321/mcp","trust":true,"timeout":604800000},"web":{"httpUrl":"http://web/mcp","trust":true,"timeout":604800000}}`,
		mcpconfig.ShapeOpenCode: `{"files":{"type":"remote","url":"http://127.0.0.1:4321/mcp","enabled":true,"oauth":false,"timeout":604800000},"web":{"type":"remote","url":"http://web/mcp","enabled":true,"oauth":false,"timeout":604800000}}`,
	} {
		var got, wanted any
		if err := json.Unmarshal([]byte(shape.Servers(hosts)), &got); err != nil {
			t.Fatal(err)
		}
		_ = json.Unmarshal([]byte(want), &wanted)
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("%q: %s", shape, diff)
		}
	}
	toml := `[mcp_servers."files"]
url = "http://127.0.0.1:4321/mcp"
required = true
startup_timeout_sec = 604800
tool_timeout_sec = 604800

[mcp_servers."web"]
url = "http://web/mcp"
required = true
startup_timeout_sec = 604800
tool_timeout_sec = 604800

`
	if diff := cmp.Diff(toml, mcpconfig.ShapeCodex.Servers(hosts)); diff != "" {
		t.Error(diff)
	}
	if got := mcpconfig.ShapeGemini.Servers(nil); got != "{}\n" {
		t.Errorf("no servers are %q", got)
	}
}
