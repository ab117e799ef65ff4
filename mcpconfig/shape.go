package mcpconfig

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Shape is how a client writes down the servers that it finds over streamable HTTP.
type Shape string

const (
	// ShapeStandard is that of mcp.json: an object by name, with type and url.
	ShapeStandard Shape = "standard"
	// ShapeVSCode has the same entries under another key.
	ShapeVSCode Shape = "vscode"
	// ShapeGemini names the URL httpUrl, which is streamable HTTP there.
	ShapeGemini Shape = "gemini"
	// ShapeOpenCode calls every server that is not a process remote.
	ShapeOpenCode Shape = "opencode"
	// ShapeCodex is tables of TOML, one for each server.
	ShapeCodex Shape = "codex"
)

// Servers is what stands for the servers of hosts in a client's own file: for shapes
// of JSON the object that has them by name, for others the lines that declare them.
// An unknown shape is that of mcp.json. Like [Render] it is in alphabetical order and
// holds nothing that is secret.
func (s Shape) Servers(hosts map[string]string) string {
	if s == ShapeCodex {
		return codexServers(hosts)
	}
	return string(indented(s.entries(hosts)))
}

// entries returns what a file of JSON has for the servers of hosts, by their names.
func (s Shape) entries(hosts map[string]string) map[string]any {
	servers := make(map[string]any, len(hosts))
	for name, host := range hosts {
		servers[name] = s.entry(urlAt(host))
	}
	return servers
}

func (s Shape) entry(url string) any {
	switch s {
	case ShapeGemini:
		return struct {
			URL     string `json:"httpUrl"`
			Trust   bool   `json:"trust"`
			Timeout int    `json:"timeout"` // milliseconds
		}{url, true, patience * 1000}
	case ShapeOpenCode:
		return struct {
			Type    string `json:"type"`
			URL     string `json:"url"`
			Enabled bool   `json:"enabled"`
			OAuth   bool   `json:"oauth"`
			Timeout int    `json:"timeout"` // milliseconds
		}{"remote", url, true, false, patience * 1000}
	}
	return struct {
		Type string `json:"type"`
		URL  string `json:"url"`
	}{"http", url}
}

// patience is how many seconds a client waits for a server, where that is configurable: as
// long as a trial may take, which has limits of its own.
const patience = 7 * 24 * 60 * 60

// codexServers quotes as JSON does, which TOML reads the same way
// (https://toml.io/en/v1.0.0#string). Codex waits some seconds for a server that is not
// required, and then asks its model without the server's tools.
func codexServers(hosts map[string]string) string {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		fmt.Fprintf(&b, "[mcp_servers.%s]\nurl = %s\nrequired = true\nstartup_timeout_sec = %d\ntool_timeout_sec = %d\n\n",
			tomlString(name), tomlString(urlAt(hosts[name])), patience, patience)
	}
	return b.String()
}

func tomlString(s string) string { return string(bytes.TrimSpace(indented(s))) }

func urlAt(host string) string { return "http://" + host + "/mcp" }

// indented is JSON for people; v is one that always encodes.
func indented(v any) []byte {
	data, _ := jsontext.MarshalIndent(v)
	return data
}

// Render is the mcp.json of an agent that finds each server of hosts at its host,
// with a port where that is not 80: in alphabetical order, and nothing that is
// secret.
func Render(hosts map[string]string) []byte {
	return indented(map[string]any{"mcpServers": ShapeStandard.entries(hosts)})
}
