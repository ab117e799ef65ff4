package mcpconfig_test

import (
	"strings"
	"testing"

	"github.com/waza-isolate/waza/mcpconfig"
)

func TestShapes(t *testing.T) {
	hosts := map[string]string{"web": "web", "files": "127.0.0.1:4000"}
	for shape, want := range map[mcpconfig.Shape]string{
		"":                      `{"files":{"type":"http","url":"http://127.0.0.1:4000/mcp"},"web":{"type":"http","url":"http://web/mcp"}}`,
		mcpconfig.ShapeStandard: `{"files":{"type":"http","url":"http://127.0.0.1:4000/mcp"},"web":{"type":"http","url":"http://web/mcp"}}`,
		mcpconfig.ShapeVSCode:   `{"files":{"type":"http","url":"http://127.0.0.1:4000/mcp"},"web":{"type":"http","url":"http://web/mcp"}}`,
		mcpconfig.ShapeGemini: `{"files":{"httpUrl":"http://127.0.0.1:4000/mcp","trust":true,"timeout":604800000},` +
			`"web":{"httpUrl":"http://web/mcp","trust":true,"timeout":604800000}}`,
		mcpconfig.ShapeOpenCode: `{"files":{"type":"remote","url":"http://127.0.0.1:4000/mcp","enabled":true,"oauth":false,"timeout":604800000},` +
			`"web":{"type":"remote","url":"http://web/mcp","enabled":true,"oauth":false,"timeout":604800000}}`,
		mcpconfig.ShapeCodex: `[mcp_servers."files"]url="http://127.0.0.1:4000/mcp"required=truestartup_timeout_sec=604800tool_timeout_sec=604800` +
			`[mcp_servers."web"]url="http://web/mcp"required=truestartup_timeout_sec=604800tool_timeout_sec=604800`,
	} {
		if got := strings.NewReplacer(" ", "", "\n", "").Replace(shape.Servers(hosts)); got != want {
			t.Errorf("%s: %s", shape, got)
		}
	}
	if got := mcpconfig.ShapeGemini.Servers(nil); got != "{}\n" {
		t.Errorf("no servers are %q", got)
	}
}
