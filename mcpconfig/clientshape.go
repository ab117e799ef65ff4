package mcpconfig

import (
	"bytes"
	"regexp"
	"slices"
	"strings"

	"github.com/waza-isolate/waza/internal/strictyaml"
	"github.com/waza-isolate/waza/internal/text"
)

const shapes = "mcpServers (Claude, Cursor, Copilot CLI, Gemini CLI, Windsurf, Cline, Roo Code), servers (VS Code), mcp (OpenCode) or context_servers (Zed)"

const tomlHint = `this is TOML, as Codex has it, and only JSON is read; write the servers as {"mcpServers": {"NAME": {"command": "…", "args": ["…"], "env": {"KEY": "…"}}}}`

// tomlLine matches a table or a key and its value in TOML, which no line of JSON
// begins with.
var tomlLine = regexp.MustCompile(`^(\[\[?[A-Za-z_][^]{}:]*\]\]?\s*(#.*)?|[A-Za-z_][A-Za-z0-9_.-]*\s*=.*)$`)

// isTOML says whether the first line that holds anything is one of TOML.
func isTOML(data []byte) bool {
	for line := range bytes.Lines(data) {
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\ufeff")))
		if len(line) > 0 && line[0] != '#' {
			return tomlLine.Match(line)
		}
	}
	return false
}

// find finds the servers and reports a file that has none.
func (r *clientReader) find() bool {
	keys := r.keys(nil)
	var found []string
	for _, key := range keys {
		if slices.Contains([]string{"mcpServers", "servers", "context_servers", "mcp_servers"}, key) {
			found = append(found, key)
		}
	}
	switch {
	case r.doc.Err() != nil:
		return false
	case len(found) > 1:
		r.doc.KeyProblemf(strictyaml.Path{found[1]}, "the file holds servers under %s and under %s; keep one of them", found[0], found[1])
		return false
	case len(found) == 1:
		r.at = strictyaml.Path{found[0]}
	case slices.Contains(keys, "mcp"):
		r.at = r.findOpenCode()
	default:
		r.doc.Problemf(nil, "there are no MCP servers here; a client's file has them under %s, and this one has %s", shapes, r.found(keys))
		return false
	}
	r.leftOut(keys)
	return r.doc.Err() == nil
}

// findOpenCode is where a file with the key mcp has its servers: OpenCode has them
// there, its version 2 and VS Code's settings.json one level below.
func (r *clientReader) findOpenCode() strictyaml.Path {
	at := strictyaml.Path{"mcp"}
	if !r.doc.Has("mcp", "servers") || r.isServer("mcp", "servers") {
		return at
	}
	for _, key := range r.keys(at) {
		path := below(at, key)
		switch {
		case key == "servers" || key == "inputs":
		case r.isServer(path...):
			r.doc.KeyProblemf(path, "server %q stands beside mcp.servers; put it in there", key)
		default:
			r.note(path, "mcp.%s is left out, since it is not about a server", key)
		}
	}
	return below(at, "servers")
}

func (r *clientReader) isServer(path ...any) bool {
	return slices.ContainsFunc([]string{"command", "url", "httpUrl", "serverUrl"}, func(key string) bool {
		return r.doc.Has(below(path, key)...)
	})
}

// found says what stands in a file that has no servers where they belong.
func (r *clientReader) found(keys []string) string {
	if len(keys) == 0 {
		return "no keys"
	}
	if slices.ContainsFunc(keys, func(key string) bool { return r.isServer(key) }) {
		return "servers without a key around them; put them under mcpServers"
	}
	return "only " + quoted(keys)
}

// leftOut notes the other keys of a file: a client's settings have many.
func (r *clientReader) leftOut(keys []string) {
	rest := slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return key == r.at[0] || key == "inputs" || key == "$schema" || key == "mcp" && r.at[0] == "mcpServers"
	})
	if len(rest) > 0 {
		r.note(strictyaml.Path{rest[0]}, "left out, since it is not about servers: %s", quoted(rest))
	}
	if r.at[0] != "mcpServers" || !r.doc.Has("mcp") {
		return
	}
	for _, key := range r.keys(strictyaml.Path{"mcp"}) {
		if key != "allowed" && key != "excluded" {
			r.note(strictyaml.Path{"mcp", key}, "mcp.%s is left out, since it is not about a server", key)
		}
	}
}

// quoted lists some words.
func quoted(words []string) string { return strings.Join(text.Some(words, 8, quote), ", ") }
