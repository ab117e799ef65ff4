package mcpconfig

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/waza-isolate/waza/internal/jsontext"
)

// Shape is the format of the servers in a client's configuration file. All servers use streamable HTTP.
type Shape string

const (
	// ShapeStandard is the format of mcp.json: an object keyed by name, with type and url.
	ShapeStandard Shape = "standard"
	// ShapeVSCode has the same entries under another key.
	ShapeVSCode Shape = "vscode"
	// ShapeGemini calls the URL httpUrl, which means streamable HTTP there.
	ShapeGemini Shape = "gemini"
	// ShapeOpenCode calls every server remote that is not a process.
	ShapeOpenCode Shape = "opencode"
	// ShapeCodex is a TOML table for each server.
	ShapeCodex Shape = "codex"
)

// Servers returns the entries for the servers of hosts in a client's own configuration
// file: the object with the servers for JSON, or the declaring lines for other formats.
// Unknown shapes use the format of mcp.json. Like [Render], it sorts by name and contains
// no secrets.
func (s Shape) Servers(hosts map[string]string) string {
	if s == ShapeCodex {
		return codexServers(hosts)
	}
	return string(indented(s.entries(hosts)))
}

// entries returns the JSON entries for the servers of hosts, by name.
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

// patience is the timeout for servers, in seconds, for clients with such a setting. It is longer than any
// trial, since trials have their own limits.
const patience = 7 * 24 * 60 * 60

// codexServers returns TOML tables. It quotes strings as JSON, which is valid TOML
// (https://toml.io/en/v1.0.0#string). The servers are marked as required, since Codex otherwise waits only
// for some seconds and continues without their tools.
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

// indented returns v as indented JSON. v must always encode.
func indented(v any) []byte {
	data, _ := jsontext.MarshalIndent(v)
	return data
}

// Render returns an mcp.json with each server at its host, which includes the port unless that is 80. It is
// sorted by name and contains no secrets.
func Render(hosts map[string]string) []byte {
	return indented(map[string]any{"mcpServers": ShapeStandard.entries(hosts)})
}
